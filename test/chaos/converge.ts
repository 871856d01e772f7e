/* After the faults: what was asked for comes about, within a bound, and then nothing moves any more. */

import { setTimeout as wait } from "node:timers/promises";
import type { LocalStack } from "../support/stack.ts";
import { ask, type LoadParts } from "./load.ts";
import type { Wants } from "./wants.ts";

export interface Convergence {
  readonly seconds: number;
  /** What had not come about within the bound. */
  readonly pending: readonly string[];
  /** Volumes that were given up after their last attempt, and deleted for that. */
  readonly dead: number;
}

/** What is still to come, one line a thing. */
const PENDING = `
  select 'job ' || id || ' is ' || status as what from jobs where status not in ('done', 'failed', 'terminated')
  union all select 'volume ' || name || case when to_be_deleted then ' is to be deleted' else ' is ' || status end from volumes
    where to_be_deleted or status <> 'active'
  union all select 'fleet ' || name || ' is to be deleted' from fleets where to_be_deleted
  union all select 'fleet ' || f.name || ' has ' || i.idle || ' of ' || f.nodes || ' instances, and ' || i.others || ' others'
    from fleets f cross join lateral (
      select count(*) filter (where status = 'idle') as idle, count(*) filter (where status <> 'idle') as others from instances i where i.fleet_id = f.id) i
    where not f.to_be_deleted and (i.idle <> f.nodes or i.others > 0)`;

const DEAD_VOLUMES = `select v.id from volumes v join millrace.items i on i.item_id = v.id and i.pipeline = 'volumes'
  where i.state = 'dead' and not v.to_be_deleted`;

/** Waits until nothing is to come. A volume that was given up is deleted, as its owner would. */
export async function converge(parts: LoadParts, boundSeconds: number): Promise<Convergence> {
  const { stack, wants } = parts;
  const from = performance.now();
  const seconds = () => (performance.now() - from) / 1000;
  let dead = 0;
  for (;;) {
    for (const { id } of await stack.sql(DEAD_VOLUMES)) {
      const { known } = await ask(parts, "DELETE", `/volumes/${id}`);
      const want = wants.volumes.find((each) => each.id === id);
      if (want !== undefined && known !== "no") want.deleted = known;
      if (known === "yes") dead++;
    }
    const pending = (await stack.sql(PENDING)).map(({ what }) => what as string);
    if (pending.length === 0 || seconds() > boundSeconds) return { seconds: seconds(), pending, dead };
    await wait(250);
  }
}

/** Finds the things whose answer was lost, by their names. */
export async function adopt(stack: LocalStack, wants: Wants): Promise<void> {
  for (const [table, list] of [
    ["volumes", wants.volumes],
    ["fleets", wants.fleets],
  ] as const) {
    const ids = new Map((await stack.sql(`select name, id from ${table}`)).map((row) => [row.name, row.id]));
    for (const want of list) if (want.id === undefined) want.id = ids.get(want.name);
  }
  const jobs = new Map(
    (await stack.sql("select id, command ->> 3 as name from jobs")).map((row) => [row.name, row.id]),
  );
  for (const want of wants.jobs) if (want.id === undefined) want.id = jobs.get(want.name);
}

const TABLES = ["fleets", "instances", "jobs", "attachments", "volumes"];
/** A pass that has begun ends within that. */
const REST_SECONDS = 60;

/** Waits for a moment between the passes that look after things now and then; answers what is held or in flight without end. */
export async function comeToRest(stack: LocalStack): Promise<readonly string[]> {
  const locks = TABLES.map(
    (table) => `select '${table} ' || id || ' is held by ' || coalesce(lock_owner, '(nobody)') as what from ${table}
      where lock_token is not null or lock_owner is not null or lock_expires_at is not null`,
  );
  const items = `select pipeline || ' ' || item_id || ' is ' || state || coalesce(' with ' || related::text, '') from millrace.items
    where finished_at is null or related is not null`;
  const until = performance.now() + REST_SECONDS * 1000;
  for (;;) {
    const held = (await stack.sql([...locks, items].join(" union all "))).map(({ what }) => what as string);
    if (held.length === 0 || performance.now() > until) return held;
    await wait(50);
  }
}
