import type pg from "pg";
import { queueLimit } from "../../lib/define/options.ts";
import type { Registry } from "../../lib/index.ts";
import { TABLES } from "./tables.ts";

/*
 * The invariants of the protocol (docs/protocol.md), as SQL over the tables and over what each statement did to them.
 * Each select answers a line for whatever breaks it.
 */

/** Whatever a pass or a writer may change only while it holds the row. */
const MANAGED = [
  "lock_token",
  "lock_owner",
  "lock_expires_at",
  "due_at",
  "last_processed_at",
  "created_at",
  "wanted",
  "to_be_deleted",
];
const managed = (row: string) => `(a.${row} - array[${MANAGED.map((c) => `'${c}'`).join(", ")}])`;
const anyRow = TABLES.map((t) => `select '${t}' as tbl, id, lock_token, lock_owner, lock_expires_at from ${t}`).join(
  " union all ",
);
const writer = "a.statement ~ '^(update|hold|held-update|held-delete|give-back) '";

function rules(registry: Registry): Readonly<Record<string, string>> {
  const mains = registry.pipelines.map((p) => `('${p.name}', '${p.table}', ${queueLimit(p.options)})`).join(", ");
  const pipelines = `(values ${mains}) p(name, tbl, room)`;
  // a related lock is dead as soon as no main row carries its token
  const dead = `(exists (select 1 from ${pipelines} where p.name = split_part(a.before->>'lock_owner', ':', 1) and (p.tbl <> a.tbl or a.before->>'lock_owner' like '%:%'))
    and not exists (select 1 from (${anyRow}) m where m.lock_token::text = a.before->>'lock_token' and m.id <> a.id))`;
  const unsent = `position(a.before->>'lock_token' in coalesce(a.sent, '')) = 0`;
  const expired = `(a.before->>'lock_expires_at')::timestamptz < a.at`;
  return {
    "fenced: a statement without the row's token wrote to a held row": `select a.statement, a.tbl, a.id from fresh a where a.before->>'lock_token' is not null and (a.after is null or ${managed("after")} <> ${managed("before")})
        and ${unsent} and not (${writer} and (${expired} or ${dead}))`,
    "fenced: a live lock was taken away from its holder": `select a.statement, a.tbl, a.id from fresh a where a.before->>'lock_token' is not null and a.after is not null and a.after->>'lock_token' is distinct from a.before->>'lock_token'
        and not ${expired} and ${unsent} and not ${dead}`,
    "fenced: a lock was extended that no item in flight has": `select a.statement, a.tbl, a.id from fresh a where a.statement ~ '^(heartbeat|renew) ' and a.after->>'lock_expires_at' > a.before->>'lock_expires_at'
        and not exists (select 1 from millrace.items i where i.lock_token::text = a.after->>'lock_token' and i.finished_at is null)`,
    "one holder: two accepted passes over a row overlap": `select a.statement, a.tbl, a.id from fresh a join ${pipelines} on a.statement = 'apply ' || p.name and a.tbl = p.tbl
        join sim.audit c on c.id = a.id and c.tbl = a.tbl and c.statement = 'claim ' || p.name and c.after->>'lock_token' = a.before->>'lock_token'
        join sim.audit o on o.id = a.id and o.tbl = a.tbl and o.seq > c.seq and o.seq < a.seq and o.statement like 'apply %' and ${managed("after").replaceAll("a.", "o.")} <> ${managed("before").replaceAll("a.", "o.")}
        where (a.after is null or ${managed("after")} <> ${managed("before")}) and position(o.before->>'lock_token' in a.sent) = 0`,
    "owner: a pipeline took a row that another one owns": `select a.statement, a.tbl, a.id from fresh a where a.statement ~ '^(fetch|claim) ' and a.after->>'lock_token' is not null
        and a.before->>'lock_owner' is not null and a.before->>'lock_owner' <> split_part(a.statement, ' ', 2)`,
    // what an attempt that died had locked stays on the list, until a pass ends
    "all or nothing: only some of the related rows were locked": `select a.statement, a.tbl, i.item_id from fresh a join millrace.items i on i.lock_token::text = a.after->>'lock_token' and i.finished_at is null
        cross join jsonb_array_elements_text(i.related->a.tbl) e(id)
        where a.statement like 'lock-related %'
        and not exists (select 1 from fresh f where f.tbl = a.tbl and f.id = e.id::uuid and f.statement = a.statement and f.after->>'lock_token' = a.after->>'lock_token')
        and not exists (select 1 from sim.audit o where o.tbl = a.tbl and o.id = e.id::uuid and o.statement = a.statement and o.seq < a.seq
          and o.after->>'lock_owner' = a.after->>'lock_owner' and o.after->>'lock_token' <> a.after->>'lock_token')`,
    "all or nothing: a related row was locked that its item does not list": `select a.statement, a.tbl, a.id from fresh a join millrace.items i on i.lock_token::text = a.after->>'lock_token' and i.finished_at is null
        where a.statement like 'lock-related %' and not coalesce(i.related->a.tbl ? a.id::text, false)`,
    "locks: a row is neither free nor owned nor held": `select 'now', r.tbl, r.id from (${anyRow}) r where (r.lock_token is null) <> (r.lock_expires_at is null)`,
    "locks: a lock lasts longer than it may": `select a.statement, a.tbl, a.id from fresh a where (a.after->>'lock_expires_at')::timestamptz > a.at + interval '61 s'`,
    "items: a pipeline's main row is held by no item in flight": `select 'now', r.tbl, r.id from (${anyRow}) r join ${pipelines} on p.name = r.lock_owner and p.tbl = r.tbl
        where r.lock_token is not null and not exists (select 1 from millrace.items i where i.item_id = r.id and i.lock_token = r.lock_token)
          and exists (select 1 from fresh a where a.id = r.id and a.statement ~ '^(fetch|claim|lock-related|reset|fail|release|apply) ')`,
    "room: more items wait than the queue has room for": `select 'now', p.name, null::uuid from ${pipelines} where (select count(*) from millrace.items i
        where i.pipeline = p.name and i.state in ('locked', 'queued') and i.finished_at is null and i.alive_until > (select max(a.at) from fresh a)) > p.room
        and exists (select 1 from fresh a where a.statement = 'fetch ' || p.name)`,
    "writes: a row's size is not the number of accepted passes that wrote it": `select 'now', s.tbl, s.id from (${TABLES.map((t) => `select '${t}' as tbl, id, size from ${t}`).join(" union all ")}) s
        left join (select c.key::uuid as id, sum(c.value::int) as n from logs l, jsonb_each_text(l.changes) c group by 1) w on w.id = s.id where s.size <> coalesce(w.n, 0)`,
    "writes: a member's tasks are not those that count it busy": `select 'now', 'members', m.id from members m where m.busy <> (select count(*) from tasks t where t.member_id = m.id and t.status in ('running', 'ending'))`,
    "key: two accepted passes had the same key":
      "select l.key, 'logs', null::uuid from logs l group by 1 having count(*) > 1",
  };
}

interface Broken {
  readonly rule: string;
  readonly by: string;
  readonly tbl: string;
  readonly id: string | null;
}

/** Checks after each commit. */
export class Invariants {
  readonly #observer: pg.Client;
  readonly #sql: string;
  #seen = 0;

  constructor(observer: pg.Client, registry: Registry) {
    this.#observer = observer;
    const selects = Object.entries(rules(registry)).map(
      ([rule, select], n) =>
        `select '${rule.replaceAll("'", "''")}' as rule, v${n}.* from (${select}) v${n}(by, tbl, id)`,
    );
    this.#sql = `with fresh as materialized (select * from sim.audit where seq > $1) ${selects.join("\nunion all ")}`;
  }

  /** A new run: nothing has been seen. */
  begin(): void {
    this.#seen = 0;
  }

  /** @returns what is broken since the last look. */
  async broken(): Promise<readonly string[]> {
    const { rows: last } = await this.#observer.query<{ n: string | null }>({
      name: "audited",
      text: "select max(seq) as n from sim.audit",
    });
    const seen = Number(last[0]!.n);
    if (seen <= this.#seen) return [];
    const values = [this.#seen];
    this.#seen = seen;
    const { rows } = await this.#observer.query<Broken>({ name: "invariants", text: this.#sql, values });
    return rows.map(({ rule, by, tbl, id }) => `${rule} (${by}, ${tbl} ${id ?? ""})`);
  }
}

/** What is left over where everything should be at rest; nothing: it is. */
export async function unrest(observer: pg.Client, registry: Registry): Promise<readonly string[]> {
  const waits = TABLES.map((t) => {
    const ready = registry
      .of(t)
      .flatMap((p) => p.states.map((s) => `(${s.ready.aliased})`))
      .join(" or ");
    return `select '${t} ' || t.id || ' waits, due at ' || t.due_at from ${t} t where (${ready}) and t.due_at is not null
      union all select '${t} ' || t.id || ' is locked by ' || coalesce(t.lock_owner, '?') from ${t} t where t.lock_token is not null or t.lock_owner is not null or t.lock_expires_at is not null
      union all select '${t} ' || t.id || ': what was asked for was forgotten' from ${t} t where (${ready}) and t.wanted <> t.done`;
  }).join(" union all ");
  const { rows } = await observer.query<{ what: string }>(`select * from (${waits}
    union all select 'item ' || i.item_id || ' of ' || i.pipeline || ' is ' || i.state from millrace.items i where i.finished_at is null
    union all select 'thing ' || t.id || ' was to be deleted' from things t where t.to_be_deleted
    union all select 'group ' || g.id || ' was to be closed' from groups g where g.status = 'closing'
    union all select 'task ' || t.id || ' is ' || t.status from tasks t where t.status <> 'done') w(what)`);
  return rows.map((row) => row.what);
}
