import type { Pipeline } from "../../lib/index.ts";
import { applySql } from "../../lib/sql/apply.ts";
import { failSql, releaseSql, resetSql } from "../../lib/sql/end.ts";
import type { InsertGroup } from "../../lib/sql/insert.ts";
import { scopeOf } from "../../lib/sql/parts.ts";
import { type Answered, answerOf } from "./answers.ts";
import type { Finish, FinishResult } from "./ledger.ts";
import { type Actor, anyPipeline, type Held, NO_PARENT, type Sent, send, take } from "./world.ts";

const BATCH = 5;

interface FinishRow {
  readonly id: string;
  readonly token: string;
  readonly result: Exclude<FinishResult, "none">;
}

/** Ends some held rows, perhaps lost ones, perhaps ended by somebody else before. */
export async function finish(actor: Actor): Promise<void> {
  const { world, random } = actor;
  // every second time rows that hold related ones
  const withRelated = (name: string) => world.held.get(name)!.some((h) => h.related);
  const related = random.percent(50) && [...world.held.keys()].some(withRelated);
  const p = anyPipeline(actor, ({ name }) => !related || withRelated(name));
  const held = take(actor, world.held.get(p.name)!, random.percent(30) ? 1 : BATCH, 80, (h) => !related || !!h.related);
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
  const answers = held.map((h) => answerOf(actor, p, h, held.length === 1));
  const items = answers.map((a) => a.item);
  const rows = answers.map(({ item: { id, token }, changes }) => ({
    item: id,
    token,
    row: { thing_id: id, message: token, changes },
    nows: ["at"],
  }));
  const scope = scopeOf(world.engine.registry, p);
  const grouped = <T>(of: (answer: Answered) => readonly { readonly table: string; readonly row: T }[]) =>
    [...Map.groupBy(answers.flatMap(of), (x) => x.table)].map(([table, list]) => ({
      table,
      rows: shuffled(list.map((x) => x.row)),
    }));
  return send(actor, () => {
    const logs: InsertGroup = {
      table: "logs",
      columns: ["thing_id", "message", "changes", "at"],
      rows: shuffled(rows),
    };
    const children = answers.flatMap((a) => a.inserts);
    const inserts = children.length === 0 ? [] : [{ table: "members", columns: ["id", "group_id"], rows: children }];
    return applySql(scope, shuffled(items), {
      inserts: [logs, ...inserts],
      related: grouped((a) => a.related),
      requests: grouped((a) => a.requests),
    });
  }, [NO_PARENT]);
  function shuffled<T>(list: readonly T[]): T[] {
    return random.some(list, list.length);
  }
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
