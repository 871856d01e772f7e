import { createHash, randomUUID } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** What `volume.json` in a volume's directory says. */
export interface Volume {
  readonly id: string;
  readonly key: string;
  /** Whose volume it is; deleting by tag removes every volume of one owner. */
  readonly tag: string | null;
  readonly name: string;
  readonly sizeGb: number;
  readonly createdAt: string;
}

export type VolumeRequest = Pick<Volume, "key" | "tag" | "name" | "sizeGb">;

export interface VolumeStore {
  /** Makes the directory, or finds the one that this key has made before. */
  create(request: VolumeRequest): { readonly volume: Volume; readonly made: boolean };
  get(id: string): Volume | undefined;
  byKey(key: string): Volume | undefined;
  byTag(tag: string): Volume[];
  list(): Volume[];
  /** False when there was nothing to remove. */
  remove(id: string): boolean;
  /** From now on, also after a restart, nothing is created for this tag. */
  closeTag(tag: string): void;
  isClosed(tag: string): boolean;
}

/**
 * Volumes as directories: `<dir>/volumes/<id>/volume.json`.
 *
 * The id is a function of the key, so the directories themselves are the index of keys: it survives a restart,
 * and two creates with one key cannot make two volumes. A directory appears by rename, complete or not at all.
 */
export function openVolumes(dir: string): VolumeStore {
  const volumesDir = join(dir, "volumes");
  const closedDir = join(dir, "closed-tags");
  const stagingDir = join(dir, "staging");
  rmSync(stagingDir, { recursive: true, force: true });
  for (const path of [volumesDir, closedDir, stagingDir]) mkdirSync(path, { recursive: true });

  const read = (id: string): Volume | undefined => {
    if (!ID.test(id)) return undefined;
    const file = join(volumesDir, id, "volume.json");
    return existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as Volume) : undefined;
  };
  const list = () =>
    readdirSync(volumesDir)
      .map(read)
      .filter((volume) => volume !== undefined);

  return {
    create(request) {
      const id = idOf(request.key);
      const earlier = read(id);
      if (earlier !== undefined) return { volume: earlier, made: false };

      const volume: Volume = { id, ...request, createdAt: new Date().toISOString() };
      const staged = join(stagingDir, randomUUID());
      mkdirSync(staged);
      writeFileSync(join(staged, "volume.json"), `${JSON.stringify(volume, null, 2)}\n`);
      renameSync(staged, join(volumesDir, id));
      return { volume, made: true };
    },
    get: read,
    byKey: (key) => read(idOf(key)),
    byTag: (tag) => list().filter((volume) => volume.tag === tag),
    list,
    remove(id) {
      if (read(id) === undefined) return false;
      // Moved away first: a volume is there completely or not at all.
      const staged = join(stagingDir, randomUUID());
      renameSync(join(volumesDir, id), staged);
      rmSync(staged, { recursive: true, force: true });
      return true;
    },
    closeTag(tag) {
      writeFileSync(join(closedDir, hash(tag)), `${tag}\n`);
    },
    isClosed: (tag) => existsSync(join(closedDir, hash(tag))),
  };
}

const ID = /^vol-[0-9a-f]{17}$/;
const hash = (text: string) => createHash("sha256").update(text).digest("hex");
const idOf = (key: string) => `vol-${hash(key).slice(0, 17)}`;
