/* `npm run bench:calls`: how many Data API calls an item costs, all phases together, in the stack of `npm start`. */

import { Command, InvalidArgumentError } from "commander";
import { pipelines } from "../functions/pipelines/index.ts";
import { type LocalStack, startLocalStack } from "../test/support/stack.ts";
import { textTable } from "../test/support/text-table.ts";
import { until } from "../test/support/until.ts";

/** More calls an item than this are too many. */
const MOST_PER_ITEM = 0.5;
const PATIENCE_MS = 300_000;

/** Calls so far by the comment that their SQL begins with. */
async function callsOf(stack: LocalStack): Promise<ReadonlyMap<string, number>> {
  const { body } = await stack.control("GET", "/data-api/stats");
  return new Map(Object.entries((body as { statements: Record<string, number> }).statements));
}

/** Inserts a backlog by one statement, hints once, and waits until all of it is active and nothing is in flight. */
async function workOff(stack: LocalStack, items: number): Promise<number> {
  await stack.sql(
    "insert into volumes (name, size_gb) select 'bench-' || g, 1 from generate_series(1, cast($1 as int)) g",
    [items],
  );
  const started = performance.now();
  const { status } = await stack.api("POST", "/hints", { table: "volumes" });
  if (status !== 202) throw new Error(`the hint was answered with ${status}`);
  const left = async () => {
    const [row] = await stack.sql(
      `select (select count(*) from volumes where status <> 'active')::int as waiting,
        (select count(*) from millrace.items where finished_at is null)::int as in_flight`,
    );
    return row as { waiting: number; in_flight: number };
  };
  const done = async () => {
    const { waiting, in_flight } = await left();
    return waiting === 0 && in_flight === 0;
  };
  await until(done, { what: `${items} active volumes`, timeoutMs: PATIENCE_MS, everyMs: 50 });
  return performance.now() - started;
}

function report(counts: readonly (readonly [string, number])[], items: number, ms: number): number {
  const total = counts.reduce((sum, [, n]) => sum + n, 0);
  const rows = [...counts, ["all", total] as const].map(([name, n]) => [name, n, (n / items).toFixed(3)]);
  const { batchSize, workers } = pipelines.get("volumes").options;
  process.stdout.write(
    `${items} volumes in ${(ms / 1000).toFixed(1)} s, batches of ${batchSize}, ${workers} workers\n\n`,
  );
  process.stdout.write(textTable(["statement", "calls", "an item"], rows));
  const perItem = total / items;
  const good = perItem <= MOST_PER_ITEM;
  process.stdout.write(`\n${perItem.toFixed(3)} calls an item, at most ${MOST_PER_ITEM}\n`);
  process.stdout.write(good ? "1 passed, 0 failed\n" : "0 passed, 1 failed\n");
  return good ? 0 : 1;
}

function whole(text: string): number {
  const value = Number(text);
  if (Number.isInteger(value) && value >= 1) return value;
  throw new InvalidArgumentError("a whole number from 1 on.");
}

async function main(): Promise<number> {
  const { items } = new Command("npm run bench:calls --")
    .description("Counts the Data API calls that a backlog of volumes takes in the local stack.")
    .option("--items <n>", "volumes in the backlog", whole, 1000)
    .parse()
    .opts<{ items: number }>();
  await using stack = await startLocalStack();
  // functions that have never run would count their start
  await workOff(stack, 20);
  const before = await callsOf(stack);
  const ms = await workOff(stack, items);
  const after = await callsOf(stack);
  const counts = [...after].map(([name, n]) => [name, n - (before.get(name) ?? 0)] as const).filter(([, n]) => n > 0);
  return report(
    counts.sort(([, a], [, b]) => b - a),
    items,
    ms,
  );
}

process.exitCode = await main();
