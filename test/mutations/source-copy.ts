import { cp, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import type { Mutation } from "./mutation.ts";

const repository = new URL("../..", import.meta.url).pathname;
const NOT_COPIED = new Set(["node_modules", ".git", ".millrace", "cdk.out"]);

/** A copy of the repository in which guards are missing for a while. */
export class SourceCopy implements AsyncDisposable {
  readonly root: string;

  private constructor(root: string) {
    this.root = root;
  }

  static async make(): Promise<SourceCopy> {
    const root = await mkdtemp(join(tmpdir(), "millrace-mutations-"));
    await cp(repository, root, { recursive: true, filter: (path) => !NOT_COPIED.has(basename(path)) });
    await symlink(join(repository, "node_modules"), join(root, "node_modules"));
    return new SourceCopy(root);
  }

  /**
   * Takes a guard out while `work` runs. `changed` hears each path that is written, before and after.
   * @throws where a text is not exactly once in its file
   */
  async without<T>(
    { file, also = [], ...first }: Mutation,
    work: () => Promise<T>,
    changed: (path: string) => void = () => undefined,
  ): Promise<T> {
    const changes = [first, ...also].map((change) => ({ file, ...change }));
    const sources = new Map<string, string>();
    for (const { file: name } of changes) sources.set(name, await readFile(join(this.root, name), "utf8"));
    const mutated = new Map(sources);
    for (const { file: name, remove, by = "" } of changes) {
      if (sources.get(name)!.split(remove).length !== 2) throw new Error(`not once in ${name}: ${remove}`);
      mutated.set(name, mutated.get(name)!.split(remove).join(by));
    }
    const write = async (texts: ReadonlyMap<string, string>) => {
      for (const [name, text] of texts) {
        await writeFile(join(this.root, name), text);
        changed(join(this.root, name));
      }
    };
    await write(mutated);
    try {
      return await work();
    } finally {
      await write(sources);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.root, { recursive: true, force: true });
  }
}
