import { sql } from "kysely";
import type { Pipeline } from "../define/pipeline.ts";
import type { Registry } from "../define/registry.ts";
import { EACH, type Sql, table, text } from "./parts.ts";
import { deadLock } from "./related.ts";

/**
 * CTEs `seen` and `locked` for writers outside of pipelines: the rows of `w` (id, token), locked in id order, with
 * `held_token` and whether they are `free`. Free: no token (whoever owns it); an expired lock that is a main lock of this
 * table's pipelines or that nobody owns; a dead related lock; our own token. The verdict on a related lock reads other
 * tables, so it is made first, and holds only for the token that it was made on.
 */
export function lockForWriter(registry: Registry, name: string): readonly Sql[] {
  const own = sql.join(registry.of(name).map((p) => text(p.name)));
  return [
    sql`seen as materialized (
  select w.*, s.seen_token, s.dead from w cross join lateral (
    select t.lock_token as seen_token, ${deadLock(registry, name)} as dead from ${table(name)} t where t.id = w.id ${EACH}) s)`,
    sql`locked as materialized (
  select s.*, l.held_token, l.free, l.held_owner from (select * from seen order by id) s cross join lateral (
    select t.lock_token as held_token, t.lock_owner as held_owner, t.lock_token is null or t.lock_token = s.token
      or (t.lock_expires_at < now() and (t.lock_owner is null or t.lock_owner in (${own})))
      or (s.dead and t.lock_token = s.seen_token) as free
    from ${table(name)} t where t.id = s.id for no key update) l)`,
  ];
}

/** CTE `mine`: items of the table's pipelines for the rows of `from` (id, taken), locked in order. */
export const lockItems = (pipelines: readonly Pipeline[], from: Sql): Sql => sql`mine as materialized (
  select l.item_id, l.pipeline, o.taken from (select * from ${from} order by id) o cross join lateral (
    select i.item_id, i.pipeline from millrace.items i
    where i.item_id = o.id and i.pipeline in (${sql.join(pipelines.map((p) => text(p.name)))}) order by i.pipeline for no key update) l)`;

/**
 * What a lock that was taken away means for item `i`: it is lost. With related rows on its list it stays in flight,
 * without being alive, until the sweep has freed them.
 */
export const endTaken = (taken: Sql): Sql => sql`lock_token = case when ${lost(taken)} then null else i.lock_token end,
    alive_until = case when ${lost(taken)} then null else i.alive_until end,
    finished_at = case when ${lost(taken)} and i.related is null then now() else i.finished_at end`;

/** The state that goes with {@link endTaken}. */
export const endedState = (taken: Sql): Sql =>
  sql`case when ${lost(taken)} then 'lost' when i.finished_at is not null and i.state = 'dead' then 'failed' else i.state end`;

/**
 * Attempts of an item that has ended start again: `attempts` or `resets`. Resets at one, not at none: the sweep must go
 * on looking at a row whose owner may not want it any more.
 */
export const startAgain = (column: "attempts" | "resets", taken: Sql): Sql =>
  sql`case when i.finished_at is not null or ${lost(taken)} then ${column === "attempts" ? sql`0` : sql`least(i.resets, 1)`} else ${sql.ref(`i.${column}`)} end`;

const lost = (taken: Sql): Sql => sql`coalesce(i.finished_at is null and i.lock_token = ${taken}, false)`;
