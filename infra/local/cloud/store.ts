/* Things of the cloud as folders: what they say of themselves, and whose tags get no new ones. */

import { createHash, randomUUID } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** What every thing says of itself. */
export interface Thing {
  readonly id: string;
  /** Idempotency key. */
  readonly key: string;
  readonly createdAt: string;
}

interface StoreOptions {
  readonly dir: string;
  /** Name of the folder of all things of this kind. */
  readonly folder: string;
  /** Name of the file in a thing's folder that says what it is. */
  readonly file: string;
  /** What its ids begin with. */
  readonly prefix: string;
  /** Folders that a new thing has. */
  readonly inside: readonly string[];
}

export interface Store<T extends Thing> {
  /** Makes the folder, or finds the one that this key has made before. */
  create(request: Omit<T, "id" | "createdAt">): { readonly thing: T; readonly made: boolean };
  get(id: string): T | undefined;
  byKey(key: string): T | undefined;
  list(): T[];
  /** A path in the thing's folder. */
  path(id: string, ...parts: string[]): string;
  /** False when there was nothing to remove. */
  remove(id: string): boolean;
}

/**
 * Opens `<dir>/<folder>/<id>/<file>`.
 *
 * The id is a function of the key, so the folders themselves are the index of keys: it survives a restart, and two
 * creates with one key cannot make two things. A folder appears by rename, complete or not at all.
 */
export function openStore<T extends Thing>({ dir, folder, file, prefix, inside }: StoreOptions): Store<T> {
  const all = join(dir, folder);
  const stagingDir = join(dir, "staging", folder);
  rmSync(stagingDir, { recursive: true, force: true });
  for (const path of [all, stagingDir]) mkdirSync(path, { recursive: true });

  // An id comes from a caller and becomes a path.
  const pattern = new RegExp(`^${prefix}-[0-9a-f]{17}$`);
  const idOf = (key: string) => `${prefix}-${hash(key).slice(0, 17)}`;
  const read = (id: string): T | undefined => {
    if (!pattern.test(id)) return undefined;
    return readJson<T>(join(all, id, file));
  };

  return {
    create(request) {
      const id = idOf(request.key);
      const earlier = read(id);
      if (earlier !== undefined) return { thing: earlier, made: false };

      const thing = { id, ...request, createdAt: new Date().toISOString() } as T;
      const staged = join(stagingDir, randomUUID());
      mkdirSync(staged);
      for (const name of inside) mkdirSync(join(staged, name));
      writeFileSync(join(staged, file), `${JSON.stringify(thing, null, 2)}\n`);
      renameSync(staged, join(all, id));
      return { thing, made: true };
    },
    get: read,
    byKey: (key) => read(idOf(key)),
    list: () =>
      readdirSync(all)
        .map(read)
        .filter((thing) => thing !== undefined),
    path: (id, ...parts) => join(all, id, ...parts),
    remove(id) {
      if (read(id) === undefined) return false;
      // Moved away first: a thing is there completely or not at all.
      const staged = join(stagingDir, randomUUID());
      renameSync(join(all, id), staged);
      rmSync(staged, { recursive: true, force: true });
      return true;
    },
  };
}

export interface ClosedTags {
  /** From now on, also after a restart, nothing is created for this tag. */
  close(tag: string): void;
  has(tag: string): boolean;
}

/** One file for each closed tag, in `<dir>/<folder>`. */
export function openClosedTags(dir: string, folder: string): ClosedTags {
  const closedDir = join(dir, folder);
  mkdirSync(closedDir, { recursive: true });
  return {
    close: (tag) => writeFileSync(join(closedDir, hash(tag)), `${tag}\n`),
    has: (tag) => existsSync(join(closedDir, hash(tag))),
  };
}

/** Written by rename, so that nobody ever reads half of it. Nothing happens when the folder is gone. */
export function writeJson(file: string, value: unknown): void {
  const draft = `${file}.${process.pid}.draft`;
  try {
    writeFileSync(draft, `${JSON.stringify(value)}\n`);
    renameSync(draft, file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
}

/** Undefined when there is no such file. */
export function readJson<T>(file: string): T | undefined {
  return existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as T) : undefined;
}

const hash = (text: string) => createHash("sha256").update(text).digest("hex");
