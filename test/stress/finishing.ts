import type { Pipeline } from "../../lib/index.ts";
import { type ApplyItem, applySql } from "../../lib/sql/apply.ts";
import { failSql, releaseSql, resetSql } from "../../lib/sql/end.ts";
import type { InsertGroup } from "../../lib/sql/insert.ts";
import { scopeOf } from "../../lib/sql/parts.ts";
import type { Finish, FinishResult } from "./ledger.ts";
import { type Actor, anyPipeline, type Held, type Sent, send, take } from "./world.ts";

const BATCH = 5;

interface FinishRow {
  readonly id: string;
  readonly token: string;
  readonly result: Exclude<FinishResult, "none">;
}

/** Ends some held rows, perhaps lost ones, perhaps ended by somebody else before. */
export async function finish(actor: Actor): Promise<void> {
  const { world, random } = actor;
  const p = anyPipeline(actor);
  const held = take(actor, world.held.get(p.name)!, BATCH, 80);
  if (held.length === 0) return;
  const kind: Finish = random.percent(68) ? "apply" : random.pick<Finish>(["reset", "fail", "release"]);
  const sent: readonly Sent<FinishRow>[] = await (kind === "apply" ? apply(actor, p, held) : end(actor, p, held, kind));
  for (const { rows, unanswered, sentAt, answeredAt, failed } of sent) {
    for (const { id, token } of held) {
      const answer = rows.filter((row) => row.id === id && row.token === token);
      if (!failed && answer.length !== 1) world.errors.push(`${kind} ${p.name}: ${answer.length} answers for one item`);
      const result = answer[0]?.result ?? "none";
      world.tally.add(`${kind} ${result}`);
      world.ledger.sent(p.name, id, token, { kind, sentAt, answeredAt, result, unanswered });
    }
  }
}

/** Every accepted apply leaves its token in `logs`: that is how it is counted from outside. */
function apply(actor: Actor, p: Pipeline, held: readonly Held[]) {
  const { world, random } = actor;
  const items = held.map((h) => applyItem(actor, p, h));
  const rows = held.map(({ id, token }) => ({ item: id, token, row: { thing_id: id, message: token }, nows: ["at"] }));
  const scope = scopeOf(world.engine.registry, p);
  return send(actor, () => {
    const logs: InsertGroup = { table: "logs", columns: ["thing_id", "message", "at"], rows: shuffled(rows) };
    return applySql(scope, shuffled(items), { inserts: [logs] });
  });
  function shuffled<T>(list: readonly T[]): T[] {
    return random.some(list, list.length);
  }
}

function applyItem({ world, random }: Actor, p: Pipeline, { id, token, seen, state }: Held): ApplyItem {
  const status = p.table === "parts" ? random.pick(["on", "on", "off"]) : random.pick(["active", "submitted"]);
  return {
    id,
    token,
    seen,
    set: random.pick<ApplyItem["set"]>([{}, { note: token }, { note: token, status }]),
    nows: p.table === "things" && random.percent(50) ? ["seen_at"] : [],
    delete: state === "remove" && !world.lasting.has(id),
    due: random.pick([0, 0, 0.05, 0.2, null]),
    due_by_default: random.percent(50),
  };
}

function end(actor: Actor, p: Pipeline, held: readonly Held[], kind: Exclude<Finish, "apply">) {
  const { world, random } = actor;
  const scope = scopeOf(world.engine.registry, p);
  const keep = random.percent(50);
  return send(actor, () => {
    const keys = random.some(held, held.length).map(({ id, token, seen }) => ({ id, token, seen }));
    if (kind === "release") return releaseSql(scope, keys);
    if (kind === "fail")
      return failSql(
        scope,
        keys.map((k) => ({ ...k, reason: "it was to fail" })),
      );
    return resetSql(
      scope,
      keys.map((k) => ({ ...k, reason: "contention", keep })),
    );
  });
}
