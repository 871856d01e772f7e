import { readdir } from "node:fs/promises";
import { basename, join } from "node:path";
import type { Mutation } from "./mutation.ts";

const guards = join(import.meta.dirname, "guards");

/** All mutations, or those of the files that are named; a name means also the files that begin with it and a dash. */
export async function load(names: readonly string[] = []): Promise<readonly Mutation[]> {
  const known = (await readdir(guards)).map((file) => basename(file, ".ts"));
  const isMeant = (file: string, name: string) => file === name || file.startsWith(`${name}-`);
  const unknown = names.filter((n) => !known.some((file) => isMeant(file, n)));
  if (unknown.length > 0) throw new Error(`no mutations named ${unknown.join(", ")}; known are ${known.join(", ")}`);
  const modules = known
    .filter((file) => names.length === 0 || names.some((name) => isMeant(file, name)))
    .map(async (name) => {
      const module = (await import(`./guards/${name}.ts`)) as { readonly mutations: readonly Mutation[] };
      return module.mutations;
    });
  return (await Promise.all(modules)).flat();
}
