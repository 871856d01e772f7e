import { applySql } from "../../lib/sql/apply.ts";
import { failSql, resetSql } from "../../lib/sql/end.ts";
import { fetchSql } from "../../lib/sql/fetch.ts";
import { heartbeatSql } from "../../lib/sql/heartbeat.ts";
import { lockRelatedSql } from "../../lib/sql/lock-related.ts";
import { scopeOf } from "../../lib/sql/parts.ts";
import { renewSql } from "../../lib/sql/renew.ts";
import type { Statement } from "../../lib/sql/statement.ts";
import { sweepSql } from "../../lib/sql/sweep.ts";
import type { createDatabaseOn } from "../../test/support/database-on.ts";
import { createEngineOn } from "../../test/support/engine-on.ts";
import { relatedMigrations, relatedRegistry } from "../../test/support/related-tables.ts";
import type { Case } from "./cases.ts";

export const makeRelatedEngine = (database: Awaited<ReturnType<typeof createDatabaseOn>>) =>
  createEngineOn(database, relatedRegistry({ workers: 10 }), relatedMigrations);
type RelatedEngine = Awaited<ReturnType<typeof makeRelatedEngine>>;

interface Held {
  readonly id: string;
  readonly token: string;
  readonly members: readonly string[];
}

/** Ten members in each group, one task a member; nothing is due. Never analysed, and autovacuum will not do it. */
export async function fillRelated({ admin }: RelatedEngine, rows: number): Promise<void> {
  for (const table of ["groups", "members", "tasks", "millrace.items"])
    await admin(`alter table ${table} set (autovacuum_enabled = off)`);
  const later = "now() + interval '1 hour' + g * interval '1 ms'";
  const uuid = (kind: number, number: string) =>
    `('00000000-0000-4000-800${kind}-' || lpad(to_hex(${number}), 12, '0'))::uuid`;
  await admin(
    `insert into groups (id, due_at) select ${uuid(1, "g")}, ${later} from generate_series(0, ${rows / 10}) g`,
  );
  await admin(
    `insert into members (id, group_id, due_at) select ${uuid(2, "g")}, ${uuid(1, "g / 10")}, ${later} from generate_series(0, ${rows - 1}) g`,
  );
  await admin(`insert into tasks (id, group_id, member_id, member_ids, status, due_at)
    select ${uuid(3, "g")}, ${uuid(1, "g / 10")}, ${uuid(2, "g")}, array[${uuid(2, "g")}, ${uuid(2, `(g + 17) % ${rows}`)}],
      (array['waiting', 'running', 'ending'])[g % 3 + 1], ${later} from generate_series(0, ${rows - 1}) g`);
}

/** Passes in flight: of groups, whose members are held, and of tasks, whose members are not yet. */
export async function relatedCases(engine: RelatedEngine): Promise<readonly Case[]> {
  const { registry } = engine;
  const groups = await hold(engine, "groups", "groups", "true", 10);
  const lockedGroups = await holdMembers(engine, await hold(engine, "groups", "groups", "true", 3));
  const waiting = await hold(engine, "tasks", "tasks", "status = 'waiting'", 1);
  const running = await hold(engine, "tasks", "tasks", "status = 'running'", 10);
  const ending = await hold(engine, "endings", "tasks", "status = 'ending'", 10);
  const lock = (pipeline: string, state: string, held: readonly Held[], most: number): Case => {
    const scope = scopeOf(registry, registry.get(pipeline));
    const { locks } = scope.pipeline.states.find((s) => s.name === state)!;
    const statement = lockRelatedSql(
      scope,
      locks,
      held.map(({ id, token }) => ({ id, token, state })),
    );
    return { name: `lock ${state} of ${held.length}`, statement, most };
  };
  const scope = scopeOf(registry, registry.get("groups"));
  const ends = lockedGroups.map((h) => ({ ...h, seen: null, reason: "bench", keep: true }));
  const items = ends.map((h) => ({
    ...h,
    set: {},
    nows: [],
    delete: false,
    due: 15,
    due_by_default: true,
    complete: ["active.members"],
  }));
  const related = lockedGroups.flatMap(({ id, token, members }) =>
    members.map((member) => ({ item: id, token, id: member, set: { note: "n" }, nows: [], delete: false })),
  );
  const members = scopeOf(registry, registry.get("members"));
  const write = (name: string, statement: Statement<unknown>): Case => ({ name, statement, most: 1_200 });
  return [
    {
      name: "fetch of children, nothing due",
      statement: fetchSql(members, { token: crypto.randomUUID(), accepted: [], scheduled: false }),
      most: 50,
    },
    lock("groups", "active", groups, 3_500),
    lock("groups", "active", groups.slice(0, 1), 400),
    lock("tasks", "waiting", waiting, 300),
    lock("tasks", "running", running, 1_000),
    lock("endings", "ending", ending, 1_000),
    write("apply of 3 with 30 related", applySql(scope, items, { related: [{ table: "members", rows: related }] })),
    write("reset of 3 with 30 related", resetSql(scope, ends)),
    write("fail of 3 with 30 related", failSql(scope, ends)),
    write(
      "renew of 3 with 30 related",
      renewSql(
        scope.pipeline,
        lockedGroups.map((h) => ({ ...h, left: 60 })),
      ),
    ),
    write("heartbeat with related rows", heartbeatSql(registry)),
    write("sweep with related rows", sweepSql(registry, false)),
  ];
}

/** Takes rows as a claim does. */
async function hold(
  { admin }: RelatedEngine,
  pipeline: string,
  table: string,
  where: string,
  n: number,
): Promise<readonly Held[]> {
  const rows = await admin<{ id: string; token: string }>(`with t as (
      update ${table} set lock_token = gen_random_uuid(), lock_owner = '${pipeline}', lock_expires_at = now() + interval '30 s'
      where id in (select id from ${table} where lock_token is null and ${where} order by due_at limit ${n}) returning id, lock_token),
    i as (
      insert into millrace.items (item_id, pipeline, state, lock_token, claimed_at, alive_until, attempts)
      select t.id, '${pipeline}', 'processing', t.lock_token, now(), now() + interval '1 hour', 1 from t)
    select id, lock_token as token from t`);
  return rows.map((r) => ({ ...r, members: [] }));
}

async function holdMembers({ admin }: RelatedEngine, groups: readonly Held[]): Promise<readonly Held[]> {
  const held: Held[] = [];
  for (const { id, token } of groups) {
    const rows = await admin<{ id: string }>(
      `update members set lock_token = '${token}', lock_owner = 'groups', lock_expires_at = now() + interval '30 s' where group_id = '${id}' returning id`,
    );
    const members = rows.map((r) => r.id);
    await admin(`update millrace.items set related = '${JSON.stringify({ members })}' where item_id = '${id}'`);
    held.push({ id, token, members });
  }
  return held;
}
