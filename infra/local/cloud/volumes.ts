import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { openClosedTags, openStore, readJson, type Thing, writeJson } from "./store.ts";

/** What `volume.json` in a volume's directory says. */
export interface Volume extends Thing {
  /** Whose volume it is; deleting by tag removes every volume of one owner. */
  readonly tag: string | null;
  readonly name: string;
  readonly sizeGb: number;
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
  /** The folder of what has been written to a volume; made when a volume of an earlier version lacks it. */
  dataOf(id: string): string;
  /** The instance that was given the volume last, undefined when it was taken from it again. */
  holder(id: string): string | undefined;
  setHolder(id: string, instanceId: string | undefined): void;
}

/** Volumes as directories: `<dir>/volumes/<id>` with `volume.json`, `data/`, and `attached.json` while attached. */
export function openVolumes(dir: string): VolumeStore {
  const store = openStore<Volume>({ dir, folder: "volumes", file: "volume.json", prefix: "vol", inside: ["data"] });
  const closed = openClosedTags(dir, "closed-tags");
  const attached = (id: string) => join(store.path(id), "attached.json");
  return {
    create(request) {
      const { thing, made } = store.create(request);
      return { volume: thing, made };
    },
    get: store.get,
    byKey: store.byKey,
    byTag: (tag) => store.list().filter((volume) => volume.tag === tag),
    list: store.list,
    remove: store.remove,
    closeTag: closed.close,
    isClosed: closed.has,
    dataOf(id) {
      const data = store.path(id, "data");
      mkdirSync(data, { recursive: true });
      return data;
    },
    holder: (id) => readJson<{ instanceId: string }>(attached(id))?.instanceId,
    setHolder(id, instanceId) {
      if (instanceId === undefined) rmSync(attached(id), { force: true });
      else writeJson(attached(id), { instanceId });
    },
  };
}
