import { setTimeout as pause } from "node:timers/promises";
import { sql } from "kysely";
import { MOST_MEMBERS } from "./answers.ts";
import { plain, uuid } from "./outside.ts";
import { sqlStateOf } from "./senders.ts";
import { type Actor, FENCED, NO_PARENT, rememberMember, sendOnce } from "./world.ts";

/**
 * A transaction of the application that inserts a child, perhaps while its parent is deleted, and perhaps changes the
 * parent afterwards.
 */
export async function insertChild(actor: Actor): Promise<void> {
  const { world, random, sender } = actor;
  // also where a pass has locked all children that it knew
  const held = world.held.get("groups")!.filter((h) => h.related);
  const group = held.length > 0 && random.percent(50) ? random.pick(held).id : random.pick(world.ids.groups);
  const id = crypto.randomUUID();
  const touches = random.percent(30);
  world.tally.add("statements");
  world.tally.add("sent insert of a child");
  try {
    await sender.transaction(async (trx) => {
      await sql`insert into members (id, group_id) select ${uuid(id)}, ${uuid(group)}
        where (select count(*) from members m where m.group_id = ${uuid(group)}) < ${sql.lit(MOST_MEMBERS)}`.execute(
        trx,
      );
      await pause(random.below(20));
      if (touches) await sql`update groups t set note = 'has a child' where t.id = ${uuid(group)}`.execute(trx);
    });
    rememberMember(world, id);
  } catch (error) {
    if (sqlStateOf(error) === NO_PARENT) world.tally.add("refused insert of a child");
    else world.errors.push(`insert of a child over ${sender.way}: ${(error as Error).message}`);
  }
}

/** Gives rows something to refer to, or another status; what is held is fenced. What a foreign key points to is locked first, as tables are ordered. */
export async function referTo(actor: Actor): Promise<void> {
  const { world, random } = actor;
  const any = (table: keyof typeof world.ids) => uuid(random.pick(world.ids[table]));
  const gone = random.pick(world.ids.tasks.filter((id) => !world.lasting.has(id)));
  const status = (list: readonly string[]) => random.pick(list);
  const deletion = random.percent(15);
  if (deletion) world.ledger.loosened(gone);
  const list = sql.join(random.some(world.ids.members, 2).map(uuid));
  const query = deletion
    ? sql`with b as materialized (select c.id from bits c where c.task_id = ${uuid(gone)} order by c.id for update)
      delete from tasks t where t.id = ${uuid(gone)} and (select count(*) from b) >= 0`
    : random.pick([
        sql`with m as materialized (select m.id, m.group_id from members m where m.id = ${any("members")} for key share)
          update tasks t set member_id = m.id, status = ${status(["ending", "running"])} from m where t.id = ${any("tasks")}`,
        sql`with g as materialized (select g.id from groups g where g.id = ${any("groups")} for key share)
          update tasks t set group_id = g.id, status = 'waiting' from g where t.id = ${any("tasks")}`,
        sql`update tasks t set member_ids = array[${list}], thing_id = ${any("things")}, part_id = ${any("parts")}, status = ${status(["ending", "running"])}
          where t.id = ${any("tasks")}`,
        sql`with t as materialized (select t.id from tasks t where t.id = ${any("tasks")} for key share)
          insert into bits (task_id) select t.id from t where (select count(*) from bits) < 30`,
        sql`update groups t set status = ${status(["active", "closing"])} where t.id = ${any("groups")}`,
        sql`update members t set status = ${status(["idle", "idle", "gone"])} where t.id = ${any("members")}`,
      ]);
  await sendOnce(world, actor.sender, plain("relate", query), [NO_PARENT, FENCED]);
}
