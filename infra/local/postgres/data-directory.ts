import { spawn, spawnSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { chown, lstat, mkdir, readFile, realpath, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { LocalError } from "../errors.ts";
import type { Account } from "./account.ts";
import type { Binaries } from "./binaries.ts";

const MAJOR_VERSION = "17";
const PASSWORD_FILE = "millrace.password";

/** A data directory that is ready to be started. */
export interface DataDirectory {
  readonly path: string;
  /** Password of the superuser `postgres`, drawn when the directory was made. */
  readonly password: string;
}

/**
 * The directory that the server can use: the wanted one or, where `account` cannot enter that (a parent of mode 700),
 * one in the system's temporary folder with a name that follows from the wanted one, so that it is found again.
 */
export async function placeFor(wanted: string, account: Account | undefined): Promise<string> {
  const place = resolve(wanted);
  if (await usable(place, account)) return realpath(place);
  const digest = createHash("sha256").update(place).digest("hex").slice(0, 16);
  const instead = join(await realpath(tmpdir()), `millrace-data-${digest}`);
  if (await usable(instead, account)) return instead;
  throw new LocalError("DATA_DIRECTORY_UNREACHABLE", {
    dataDir: `${place}, nor ${instead}`,
    user: account?.name ?? "(you)",
    reason: "it cannot enter one of the directories above it, or somebody else owns it",
  });
}

async function usable(dir: string, account: Account | undefined): Promise<boolean> {
  // Two steps: with a mode, a recursive mkdir would close the directories above as well.
  await mkdir(dirname(dir), { recursive: true });
  await mkdir(dir, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw error;
  });
  const owner = await lstat(dir);
  const ours = [process.getuid?.(), account?.ids.uid].includes(owner.uid) && owner.isDirectory();
  if (!ours) return false;
  if (!account) return true;
  await chown(dir, account.ids.uid, account.ids.gid);
  return spawnSync("/bin/sh", ["-c", 'cd "$0"', dir], { ...account.ids, cwd: "/" }).status === 0;
}

/** Makes the cluster unless it is there. DATA_DIRECTORY_VERSION if another major version made it. */
export async function openDataDirectory(
  path: string,
  binaries: Binaries,
  account: Account | undefined,
): Promise<DataDirectory> {
  const version = await readFile(join(path, "PG_VERSION"), "utf8").catch(() => undefined);
  if (version === undefined) await makeCluster(path, binaries, account);
  else if (version.trim() !== MAJOR_VERSION) {
    throw new LocalError("DATA_DIRECTORY_VERSION", { dataDir: path, found: version.trim(), expected: MAJOR_VERSION });
  }
  const password = await readFile(join(path, PASSWORD_FILE), "utf8").catch(() => undefined);
  if (password === undefined) {
    const reason = `${PASSWORD_FILE} is missing there, so this stack did not make it`;
    throw new LocalError("POSTGRES_START", { dataDir: path, reason });
  }
  return { path, password };
}

/** Made beside its place and renamed into it, so that a kill in between leaves nothing half made. */
async function makeCluster(path: string, binaries: Binaries, account: Account | undefined): Promise<void> {
  const part = `${path}.making`;
  await rm(part, { recursive: true, force: true });
  await mkdir(part, { mode: 0o700 });
  const password = randomBytes(18).toString("base64url");
  const passwordFile = `${part}-password`;
  await writeFile(passwordFile, password, { mode: 0o600 });
  if (account) {
    await chown(part, account.ids.uid, account.ids.gid);
    await chown(passwordFile, account.ids.uid, account.ids.gid);
  }
  try {
    await initdb(part, passwordFile, binaries, account);
    await rename(passwordFile, join(part, PASSWORD_FILE));
    await rename(part, path);
  } finally {
    await rm(passwordFile, { force: true });
    if (existsSync(part)) await rm(part, { recursive: true, force: true });
  }
}

function initdb(dir: string, passwordFile: string, binaries: Binaries, account: Account | undefined): Promise<void> {
  // The builtin provider needs no locale of the system, so that text sorts alike on every machine.
  const locale = ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"];
  const access = ["--username=postgres", "--auth=scram-sha-256", `--pwfile=${passwordFile}`];
  const child = spawn(binaries.initdb, [`--pgdata=${dir}`, ...access, ...locale], { ...account?.ids, cwd: "/" });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
  return new Promise((done, failed) => {
    child.on("error", failed);
    child.on("close", (code) => {
      if (code === 0) done();
      else
        failed(
          new LocalError("POSTGRES_START", { dataDir: dir, reason: output.trim() || `initdb ended with ${code}` }),
        );
    });
  });
}
