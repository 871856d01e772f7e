// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is source text
import type { Mutation } from "../mutation.ts";
import { writers } from "../test-files.ts";

const migrate = "lib/schema/migrate.ts";
const lock = "lib/schema/migration-lock.ts";
const index = "lib/schema/fetch-index.ts";
const migrations = ["test/integration/schema/migrate.test.ts"];
const definitions = ["test/integration/schema/definitions.test.ts"];
const backfills = ["test/integration/schema/backfill.test.ts"];
const role = ["test/integration/schema/application-role.test.ts"];

export const mutations: readonly Mutation[] = [
  {
    file: lock,
    remove: "where l.expires_at < now() or l.token = excluded.token",
    by: "where true",
    tests: migrations,
    guard: "one run at a time",
  },
  {
    file: lock,
    remove: "where l.expires_at < now() or l.token = excluded.token",
    by: "where l.token = excluded.token",
    tests: migrations,
    guard: "the lock of a killed run is taken over",
  },
  {
    file: lock,
    remove: 'if (rows.length === 0) throw new MillraceError("MIGRATION_LOCK_LOST");',
    tests: migrations,
    guard: "a lost lock is noticed when it is extended",
  },
  {
    file: lock,
    remove: "await run().catch(run);",
    by: "await run();",
    tests: migrations,
    guard: "two first runs at once",
  },
  {
    file: lock,
    remove: "delete from millrace.migration_lock l where l.token = ${uuid(token)}",
    by: "delete from millrace.migration_lock l",
    tests: migrations,
    guard: "only the own lock is given back",
  },
  {
    file: migrate,
    remove: 'if (rows.length === 0) throw new MillraceError("MIGRATION_LOCK_LOST");',
    tests: migrations,
    guard: "a migration is fenced inside its transaction",
  },
  {
    file: migrate,
    remove: " where l.token = ${uuid(lock.token)}\n",
    by: "\n",
    tests: migrations,
    guard: "a definition is switched under the lock only",
  },
  {
    file: migrate,
    remove: " and not coalesce(${was}, false)",
    tests: definitions,
    guard: "rows that were ready before are left alone",
  },
  {
    file: migrate,
    remove: 'where: sql`${readyAny(p, "t")} and ',
    by: "where: sql`",
    tests: definitions,
    guard: "rows that are not ready are left alone",
  },
  {
    file: migrate,
    remove: " and (t.due_at is null or t.due_at > now())",
    tests: definitions,
    guard: "rows that are due already keep their time",
  },
  {
    file: migrate,
    remove: "[hash, previous].filter",
    by: "[hash].filter",
    tests: definitions,
    guard: "the old index serves one generation more",
  },
  {
    file: index,
    remove: "if (state !== undefined) await drop(database, name);",
    tests: definitions,
    guard: "an index left invalid is dropped and built again",
  },
  {
    file: index,
    remove: "(state.building || !dead)",
    by: "state.building",
    tests: definitions,
    guard: "an index whose build has just ended is not taken for one that died",
  },
  {
    file: index,
    remove: " and length(c.relname) = ${sql.lit(prefix.length + HASH_LENGTH)}",
    tests: definitions,
    guard: "no index of somebody else is dropped",
  },
  {
    file: index,
    remove: "for (const { name } of rows) if (!keep.includes(name)) await drop(database, name);",
    tests: definitions,
    guard: "an index that nobody uses any more is dropped",
  },
  {
    file: index,
    remove: "plain.length <= room ? plain : `${plain.slice(0, room - 1 - HASH_LENGTH)}_${shortHash(name)}`",
    by: "plain",
    tests: definitions,
    guard: "pipelines with long names have indexes of their own",
  },
  {
    file: "lib/schema/due-trigger.ts",
    remove: "  if (await isCurrent(database, name, watched)) return;\n",
    tests: definitions,
    guard: "a trigger that is right is left alone",
  },
  {
    file: "lib/schema/due-trigger.ts",
    remove: 'return rows[0]?.about === watched.join(" ");',
    by: "return rows[0] !== undefined;",
    tests: definitions,
    guard: "the trigger's columns follow the definitions",
  },
  {
    file: "lib/schema/due-trigger.ts",
    remove: 'if (missing.length > 0) throw new MillraceError("COLUMN_MISSING"',
    by: 'if (missing.length > 99) throw new MillraceError("COLUMN_MISSING"',
    tests: migrations,
    guard: "missing columns are named",
  },
  {
    file: "lib/schema/backfill.ts",
    remove: "where t.id = s.id and (${job.where}) and ${free} for no key update",
    by: "where t.id = s.id and ${free} for no key update",
    tests: backfills,
    guard: "a row that no longer needs it is left alone",
  },
  {
    file: "lib/schema/backfill.ts",
    remove: " and (${job.where}) order by t.id limit",
    by: " order by t.id limit",
    tests: backfills,
    guard: "only rows that need it are looked at",
    also: [{ remove: "where t.id = s.id and (${job.where}) and", by: "where t.id = s.id and" }],
  },
  {
    file: "lib/schema/application-role.ts",
    remove: "set_config('millrace.verifier', ${verifier}, true)",
    by: "set_config('millrace.verifier', ${role.password}, true)",
    tests: role,
    guard: "the password is never sent",
  },
  {
    file: "lib/schema/application-role.ts",
    remove: 'lock_timeout: "2s", ',
    tests: role,
    guard: "the application waits for locks two seconds",
  },
  {
    file: "lib/write/writer.ts",
    remove: 'if (!found) throw new MillraceError("NO_SUCH_ROW", { table, id });',
    tests: writers("writer"),
    guard: "a request for a row that does not exist is heard of",
  },
  {
    file: "lib/write/values.ts",
    remove: 'if (!isUuid(id)) throw new MillraceError("ID_MALFORMED", { id });',
    tests: writers("writer"),
    guard: "an id is checked",
  },
];
