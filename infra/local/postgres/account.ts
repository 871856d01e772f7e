import { spawnSync } from "node:child_process";
import { LocalError } from "../errors.ts";

/** The user that PostgreSQL runs as when we are root, which PostgreSQL refuses to be. */
export interface Account {
  readonly name: string;
  readonly ids: { readonly uid: number; readonly gid: number };
}

/** Undefined unless we are root; then user postgres, made if there is none. */
export function serverAccount(): Account | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const known = lookUp("postgres");
  if (known) return known;
  const made = spawnSync("/usr/sbin/useradd", ["--system", "--user-group", "--no-create-home", "postgres"], {
    encoding: "utf8",
  });
  const account = lookUp("postgres");
  if (!account) throw new LocalError("POSTGRES_USER", { reason: made.error?.message ?? made.stderr.trim() });
  return account;
}

function lookUp(name: string): Account | undefined {
  const uid = idOf("-u", name);
  const gid = idOf("-g", name);
  return uid === undefined || gid === undefined ? undefined : { name, ids: { uid, gid } };
}

function idOf(option: string, name: string): number | undefined {
  const answer = spawnSync("id", [option, name], { encoding: "utf8" });
  return answer.status === 0 ? Number(answer.stdout.trim()) : undefined;
}
