import { type RawBuilder, sql } from "kysely";
import { pauseSql, resumeSql, statusSql } from "../../lib/sql/operate.ts";
import { requestSql } from "../../lib/sql/request.ts";
import { type Statement, statement } from "../../lib/sql/statement.ts";
import { sweepSql } from "../../lib/sql/sweep.ts";
import { TABLES } from "./pipelines.ts";
import { type Actor, anyPipeline, FENCED, type Held, send, sendOnce, type World } from "./world.ts";

export const plain = <Row = unknown>(what: string, query: RawBuilder<unknown>): Statement<Row> =>
  statement("plain", what, query as RawBuilder<Row>);
export const uuid = (id: string) => sql`cast(cast(${id} as text) as uuid)`;
const uuids = (ids: readonly string[]) => sql.join(ids.map(uuid));

export async function sweep(actor: Actor): Promise<void> {
  const { world, random } = actor;
  const scan = random.percent(25);
  for (const { rows } of await send(actor, () => sweepSql(world.engine.registry, scan))) {
    for (const row of rows) world.tally.add("sweep unlocked", row.unlocked);
    world.tally.add("sweep ended", rows[0]?.ended);
  }
}

export async function request(actor: Actor): Promise<void> {
  const { world, random } = actor;
  const name = random.pick(["groups", "members", "parts", "tasks", "things"] as const);
  const ids = random.some(world.ids[name], 3);
  const intent = name === "things" && random.percent(50) ? { to_be_deleted: random.percent(60) } : {};
  await send(actor, () => requestSql(name, world.engine.registry.of(name), random.some(ids, ids.length), intent));
}

/** Mostly goes on: a pipeline is not paused for long. */
export async function pauseOrResume(actor: Actor): Promise<void> {
  const { name } = anyPipeline(actor);
  if (actor.random.percent(12)) await send(actor, () => pauseSql(name, "the stress test"));
  else await send(actor, () => resumeSql(name));
  await send(actor, () => statusSql());
}

/** What other services do: one row, a column that some `ready` looks at, or the row goes. What is held is fenced. */
export async function writePlainly(actor: Actor): Promise<void> {
  const { world, random } = actor;
  const thing = uuid(random.pick(world.ids.things));
  const part = uuid(random.pick(world.ids.parts));
  const gone = random.pick(world.ids.things.filter((id) => !world.lasting.has(id)));
  world.ledger.loosened(gone);
  const query = random.pick([
    sql`update things t set status = ${random.pick(["submitted", "active", "failed"])} where t.id = ${thing}`,
    sql`update things t set to_be_deleted = ${random.percent(50)} where t.id = ${thing}`,
    sql`update parts t set status = ${random.pick(["on", "on", "off"])} where t.id = ${part}`,
    sql`update parts t set due_at = now() where t.id = ${part}`,
    sql`delete from things t where t.id = ${uuid(gone)}`,
  ]);
  await sendOnce(world, actor.sender, plain("update", query), [FENCED]);
}

/** Puts back what was deleted, in id order, as everybody locks. */
export async function insertMissing(actor: Actor): Promise<void> {
  const { world, sender } = actor;
  for (const table of ["groups", "tasks", "things"] as const) {
    const gone = world.ids[table].filter((id) => !world.lasting.has(id));
    const rows = sql.join(gone.map((id) => sql`(${uuid(id)})`));
    const query = sql`insert into ${sql.table(table)} (id) select v.id from (values ${rows}) v(id) order by v.id on conflict (id) do nothing returning id`;
    const { rows: inserted } = await sendOnce(world, sender, plain("insert", query));
    world.tally.add("rows inserted again", inserted.length);
  }
}

const lastingOf = ({ ids, lasting }: World, name: keyof World["ids"]) => ids[name].filter((id) => lasting.has(id));

/** A transaction of the application over rows of both tables, locked in order, that counts. */
export async function countInTransaction(actor: Actor): Promise<void> {
  const { world, random, sender } = actor;
  const chosen = (["groups", "members", "parts", "tasks", "things"] as const)
    .filter(() => random.percent(60))
    .map((name) => [name, random.some(lastingOf(world, name), 2).sort()] as const)
    .filter(([, ids]) => ids.length > 0);
  world.tally.add("statements");
  world.tally.add("sent transaction");
  try {
    await sender.transaction(async (trx) => {
      for (const [name, ids] of chosen)
        for (const id of ids)
          await sql`select 1 from ${sql.table(name)} t where t.id = ${uuid(id)} for no key update`.execute(trx);
      for (const [name, ids] of chosen)
        await sql`update ${sql.table(name)} t set size = t.size + 1 where t.id in (${uuids(ids)})`.execute(trx);
    });
  } catch (error) {
    world.errors.push(`transaction over ${sender.way}: ${(error as Error).message}`);
    return;
  }
  for (const id of chosen.flatMap(([, ids]) => ids)) world.increments.set(id, (world.increments.get(id) ?? 0) + 1);
}

/** Lets time pass for one lock or one lease. */
export async function moveTime(actor: Actor): Promise<void> {
  const { world, random, sender } = actor;
  const name = random.pick(TABLES);
  if (name === "bits") return moveTimeOfBits(actor);
  // the parent of related rows whose lock has run out takes them
  const shared = ["tasks", "endings"].flatMap((p) => world.held.get(p)!.flatMap((h) => membersOf(h)));
  if (shared.length > 0 && random.percent(40)) return expire(actor, "members", random.pick(shared));
  const row = random.pick(world.ids[name]);
  world.ledger.loosened(row);
  const id = uuid(row);
  const query = random.percent(50)
    ? sql`update ${sql.table(name)} t set lock_expires_at = now() - interval '1 s' where t.id = ${id} and t.lock_token is not null`
    : sql`update millrace.items i set alive_until = now() - interval '1 s' where i.item_id = ${id} and i.pipeline = ${anyPipeline(actor).name} and i.finished_at is null`;
  await sendOnce(world, sender, plain("time", query));
}

/** Somebody takes a related row by force, for a moment: the pass that has locked it must notice. */
export async function seize({ world, random, sender }: Actor): Promise<void> {
  const related = [...world.held.values()].flat().flatMap((h) => Object.values(h.related ?? {}));
  const rows = related.flatMap(({ table, rows: of }) => of.map(({ id }) => ({ table, id })));
  if (rows.length === 0) return;
  const { table, id } = random.pick(rows);
  world.ledger.loosened(id);
  const query = sql`update ${sql.table(table)} t set lock_token = gen_random_uuid(), lock_owner = null, lock_expires_at = now() + interval '100 ms'
    where t.id = ${uuid(id)} and t.lock_token is not null`;
  await sendOnce(world, sender, plain("seize", query));
}

const membersOf = ({ related }: Held): string[] =>
  Object.values(related ?? {}).flatMap(({ table, rows }) => (table === "members" ? rows.map((r) => r.id) : []));

async function expire({ world, sender }: Actor, name: string, id: string): Promise<void> {
  world.ledger.loosened(id);
  const query = sql`update ${sql.table(name)} t set lock_expires_at = now() - interval '1 s' where t.id = ${uuid(id)} and t.lock_token is not null`;
  await sendOnce(world, sender, plain("time", query));
}

async function moveTimeOfBits({ world, sender }: Actor): Promise<void> {
  const query = sql<{ id: string }>`update bits t set lock_expires_at = now() - interval '1 s' from (
    select b.id from bits b where b.lock_token is not null order by b.id limit 1 for no key update skip locked) b where t.id = b.id returning t.id`;
  for (const { id } of (await sendOnce(world, sender, plain<{ id: string }>("time", query))).rows)
    world.ledger.loosened(id);
}
