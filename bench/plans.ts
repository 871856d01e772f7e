/* `node bench/plans.ts`: what the statements read of tables of several sizes, with and without statistics. */

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Command, InvalidArgumentError } from "commander";
import { createDatabaseOn } from "../test/support/database-on.ts";
import { startTestServer, type TestServer } from "../test/support/test-server.ts";
import { textTable } from "../test/support/text-table.ts";
import { busyCases, type Case, dueCases, type Engine, fill, makeEngine, quietCases } from "./plans/cases.ts";
import { type Cost, explain, PLAN_MODES } from "./plans/explain.ts";
import { fillRelated, makeRelatedEngine, relatedCases } from "./plans/related-cases.ts";

/** Where a table stands. */
interface Situation {
  readonly rows: number;
  readonly analysed: boolean;
}

type Costs = Map<string, { readonly case: Case; readonly by: Map<string, Cost> }>;

const SMALL = [1_000, 10_000];
const SETTINGS = {
  fsync: "off",
  synchronous_commit: "off",
  shared_buffers: "512MB",
  max_wal_size: "8GB",
  jit: "off",
  autovacuum: "off",
};

const titleOf = ({ rows, analysed }: Situation) => `${rows.toLocaleString("en")} ${analysed ? "analysed" : "never"}`;

async function measure(server: TestServer, rows: number, costs: Costs): Promise<Situation[]> {
  const database = await createDatabaseOn(server);
  const engine = await makeEngine(database);
  const client = await database.connect("superuser");
  await client.query("set track_io_timing = off");
  await fill(engine, rows);
  const situations = [false, true].map((analysed) => ({ rows, analysed }));
  for (const situation of situations) {
    const analyse = () => (situation.analysed ? engine.admin("analyze") : Promise.resolve());
    await back(engine);
    await analyse();
    for (const cases of [quietCases, dueCases, busyCases]) {
      const list = await cases(engine);
      await analyse();
      for (const each of list)
        for (const mode of PLAN_MODES) {
          const row = `${each.name} | ${mode}`;
          const known = costs.get(row) ?? { case: each, by: new Map<string, Cost>() };
          known.by.set(titleOf(situation), await explain(client, each.statement, mode));
          costs.set(row, known);
        }
    }
  }
  await database.drop();
  return situations;
}

/** The statements about related rows, over groups, members and tasks. */
async function measureRelated(server: TestServer, rows: number, costs: Costs): Promise<void> {
  const database = await createDatabaseOn(server);
  const engine = await makeRelatedEngine(database);
  const client = await database.connect("superuser");
  await fillRelated(engine, rows);
  const list = await relatedCases(engine);
  for (const analysed of [false, true]) {
    if (analysed) await engine.admin("analyze");
    for (const each of list)
      for (const mode of PLAN_MODES) {
        const row = `${each.name} | ${mode}`;
        const known = costs.get(row) ?? { case: each, by: new Map<string, Cost>() };
        known.by.set(titleOf({ rows, analysed }), await explain(client, each.statement, mode));
        costs.set(row, known);
      }
  }
  await database.drop();
}

/** Nothing due and nothing in flight, as after filling. */
async function back({ admin }: Engine): Promise<void> {
  await admin(
    "update things set due_at = now() + interval '1 hour', lock_token = null, lock_owner = null, lock_expires_at = null where due_at < now() or lock_owner is not null",
  );
  await admin(
    "update millrace.items set state = 'applied', finished_at = now(), lock_token = null, alive_until = null where finished_at is null",
  );
}

/** Prints the table; answers how many figures are too high. */
function report(costs: Costs, situations: readonly Situation[]): number {
  const titles = situations.map(titleOf);
  const rows = [...costs].map(([name, { by }]) => [...name.split(" | "), ...titles.map((t) => by.get(t)!.buffers)]);
  process.stdout.write(`\nbuffers\n${textTable(["statement", "plan", ...titles], rows)}`);
  const last = titles.at(-1)!;
  const times = [...costs].map(([name, { by }]) => {
    const { planMs, executeMs } = by.get(last)!;
    return [...name.split(" | "), planMs.toFixed(1), executeMs.toFixed(1)];
  });
  process.stdout.write(`\nms, ${last}\n${textTable(["statement", "plan", "planning", "execution"], times)}\n`);
  let bad = 0;
  for (const [name, { case: of, by }] of costs)
    for (const title of titles) {
      const { buffers, scans } = by.get(title)!;
      const wrong = [...scans, ...(buffers > (of.most ?? Number.POSITIVE_INFINITY) ? [`${buffers} buffers`] : [])];
      if (wrong.length === 0) continue;
      bad++;
      process.stdout.write(`BAD  ${name} | ${title}: ${wrong.join(", ")}\n`);
    }
  process.stdout.write(`${costs.size * titles.length - bad} passed, ${bad} failed\n`);
  return bad;
}

function whole(text: string): number {
  const value = Number(text);
  if (Number.isInteger(value) && value >= 100) return value;
  throw new InvalidArgumentError("a whole number from 100 on.");
}

async function main(): Promise<number> {
  const { rows } = new Command("node bench/plans.ts")
    .description("Explains the statements of the protocol over tables of 1,000, 10,000 and --rows rows.")
    .option("--rows <n>", "rows of the largest table", whole, 1_000_000)
    .parse()
    .opts<{ rows: number }>();
  const dir = await mkdtemp(join(tmpdir(), "millrace-plans-"));
  let server: TestServer | undefined;
  try {
    server = await startTestServer(join(dir, "postgres"), SETTINGS);
    const costs: Costs = new Map();
    const situations: Situation[] = [];
    for (const size of [...SMALL.filter((n) => n < rows), rows]) {
      situations.push(...(await measure(server, size, costs)));
      await measureRelated(server, size, costs);
    }
    return report(costs, situations) === 0 ? 0 : 1;
  } finally {
    await server?.close();
    await rm(dir, { recursive: true, force: true });
  }
}

process.exitCode = await main();
