/* `node bench/fence.ts`: what a fence costs an update, in one run, on one table, with the fence off and on by turns. */

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createDatabaseOn } from "../test/support/database-on.ts";
import { createEngineOn, type TestEngine } from "../test/support/engine-on.ts";
import { startTestServer, type TestServer } from "../test/support/test-server.ts";
import { textTable } from "../test/support/text-table.ts";

const ROWS = 5_000;
const ROUNDS = 41;
const SETTINGS = { fsync: "off", synchronous_commit: "off", shared_buffers: "512MB", jit: "off", autovacuum: "off" };

/** Each leaves the rows held, with the same values, so that it can be run again. */
const CASES = {
  "a heartbeat: the expiry alone": "update things set lock_expires_at = now() + interval '30 s'",
  "a write under a new token: three columns":
    "update things set note = note || '.', size = size + 1, seen_at = now(), lock_token = gen_random_uuid()",
  "an intent column": "update things set to_be_deleted = not to_be_deleted",
};

const median = (list: readonly number[]) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)]!;

async function measure(engine: TestEngine, query: string): Promise<{ without: number; with: number }> {
  const times = { disable: [] as number[], enable: [] as number[] };
  for (let round = 0; round < 2 * ROUNDS; round++) {
    const turn = round % 2 === 0 ? "disable" : "enable";
    await engine.admin(`alter table things ${turn} trigger millrace_fence, ${turn} trigger millrace_fence_delete`);
    await engine.admin("vacuum things");
    const started = performance.now();
    await engine.admin(query);
    // the first two warm up
    if (round >= 2) times[turn].push(performance.now() - started);
  }
  return { without: median(times.disable), with: median(times.enable) };
}

async function main(): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), "millrace-fence-"));
  let server: TestServer | undefined;
  try {
    server = await startTestServer(join(dir, "postgres"), SETTINGS);
    const database = await createDatabaseOn(server);
    const engine = await createEngineOn(database);
    await engine.admin(`insert into things (name, note, spec, tags, lock_token, lock_owner)
      select 't' || g, repeat('n', 200), jsonb_build_object('a', repeat('s', 500)), array['x', 'y'], gen_random_uuid(), 'things'
      from generate_series(1, ${ROWS}) g`);
    const lines: (string | number)[][] = [];
    for (const [name, query] of Object.entries(CASES)) {
      const ms = await measure(engine, query);
      const perRow = ((ms.with - ms.without) * 1000) / ROWS;
      const figures = [ms.without.toFixed(1), ms.with.toFixed(1), (ms.with / ms.without).toFixed(2), perRow.toFixed(2)];
      lines.push([name, ...figures]);
    }
    await database.drop();
    const headings = [`${ROWS} held rows, ms`, "without", "with", "ratio", "µs a row"];
    process.stdout.write(textTable(headings, lines));
  } finally {
    await server?.close();
    await rm(dir, { recursive: true, force: true });
  }
}

await main();
