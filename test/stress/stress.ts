import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { createDatabaseOn } from "../support/database-on.ts";
import { createEngineOn, type TestEngine } from "../support/engine-on.ts";
import { startTestServer, type TestServer } from "../support/test-server.ts";
import { type Check, type LogLine, runChecks } from "./checks.ts";
import { watchDeadlocks } from "./deadlocks.ts";
import { createLedger } from "./ledger.ts";
import { mix } from "./mix.ts";
import { stressRegistry, TABLES } from "./pipelines.ts";

import { seededRandom } from "./random.ts";
import { comeToRest } from "./rest.ts";
import { dataApiSender, pgSender } from "./senders.ts";
import { stressTables } from "./tables.ts";
import { createTally, type Tally } from "./tally.ts";
import type { World } from "./world.ts";

export interface StressOptions {
  readonly seconds: number;
  /** Half of them through the Data API, half through `pg`. */
  readonly connections: number;
  readonly seed: number;
  /** Also demand that every kind of outcome occurred; a mix of some seconds is too short for it. */
  readonly variety: boolean;
  /** Without foreign keys no deadlock at all is allowed. @default true */
  readonly foreignKeys?: boolean;
  /** Ends the mix early; the checks are made all the same. */
  readonly signal?: AbortSignal;
  readonly progress?: (line: string) => void;
}

export interface StressReport {
  readonly checks: readonly Check[];
  readonly tally: Tally;
}

const THINGS = 16;
const LASTING_THINGS = 8;
const PARTS = 8;
const GROUPS = 6;
const LASTING_GROUPS = 3;
/** In each group. */
const MEMBERS = 3;
const TASKS = 12;
const LASTING_TASKS = 6;
const PROGRESS_MS = 3_000;
const FAULT_EVERY_MS = 250;

/** Deadlocks are found soon, and nothing waits for a disk. */
const SETTINGS = { deadlock_timeout: "100ms", synchronous_commit: "off", fsync: "off" };

/** Runs the mix on a server of its own and looks at what it left; everything is removed at the end. */
export async function stress(options: StressOptions): Promise<StressReport> {
  const dir = await mkdtemp(join(tmpdir(), "millrace-stress-"));
  let server: TestServer | undefined;
  try {
    server = await startTestServer(join(dir, "postgres"), SETTINGS);
    return await stressOn(server, options);
  } finally {
    await server?.close();
    await rm(dir, { recursive: true, force: true });
  }
}

async function stressOn(server: TestServer, options: StressOptions): Promise<StressReport> {
  const database = await createDatabaseOn(server);
  const engine = await createEngineOn(database, stressRegistry(), stressTables);
  await engine.admin(`alter role millrace_app set lock_timeout = '2s'; alter role millrace_app set statement_timeout = '30s';
    alter role millrace_app set idle_in_transaction_session_timeout = '10s'`);
  const { foreignKeys = true } = options;
  if (!foreignKeys)
    await engine.admin(`alter table members drop constraint members_group_id_fkey; alter table tasks drop constraint tasks_group_id_fkey;
      alter table tasks drop constraint tasks_member_id_fkey; alter table bits drop constraint bits_task_id_fkey`);
  const tally = createTally();
  const pool = new pg.Pool({ connectionString: appUrl(server, database.name), max: options.connections });
  const senders = [dataApiSender(database, options.connections, tally), pgSender(pool, tally)];
  const world: World = { ...(await makeRows(engine)), engine, senders, tally, ledger: createLedger(), errors: [] };
  try {
    const over = new AbortController();
    const circles = watchDeadlocks(await database.connect("superuser"), over.signal);
    await runMix(world, server, options).finally(() => over.abort());
    const remains = await comeToRest(world);
    tally.add("rounds to come to rest", remains.rounds);
    const found = { ...(await findings(world)), circles: await circles };
    const { ledger, errors, increments } = world;
    return {
      tally,
      checks: runChecks({
        ...found,
        ledger,
        errors,
        increments,
        remains,
        tally,
        variety: options.variety,
        foreignKeys,
      }),
    };
  } finally {
    await pool.end();
    await database.drop();
  }
}

function appUrl(server: TestServer, name: string): string {
  const url = new URL(server.databaseUrl);
  url.pathname = `/${name}`;
  [url.username, url.password] = ["millrace_app", "app"];
  return url.href;
}

async function makeRows(
  engine: TestEngine,
): Promise<Pick<World, "ids" | "lasting" | "queues" | "held" | "marks" | "increments">> {
  const insert = async (table: string, n: number) =>
    (
      await engine.query<{ id: string }>(
        `insert into ${table} (id) select gen_random_uuid() from generate_series(1, ${n}) returning id`,
      )
    ).map((row) => row.id);
  const things = await insert("things", THINGS);
  const parts = await insert("parts", PARTS);
  const groups = await insert("groups", GROUPS);
  const members = (
    await engine.query<{ id: string }>(
      `insert into members (group_id) select g.id from groups g, generate_series(1, ${MEMBERS}) order by g.id returning id`,
    )
  ).map((row) => row.id);
  const tasks = await insert("tasks", TASKS);
  const lastingGroups = groups.slice(0, LASTING_GROUPS);
  const kept = await engine.query<{ id: string }>(
    "select distinct on (group_id) id from members where group_id::text = any ($1) order by group_id, id",
    [lastingGroups],
  );
  const perPipeline = <T>() => new Map(engine.registry.pipelines.map((p) => [p.name, [] as T[]]));
  return {
    ids: { groups, members, parts, tasks, things },
    lasting: new Set([
      ...[...things.slice(0, LASTING_THINGS), ...parts, ...lastingGroups],
      ...[...kept.map((row) => row.id), ...tasks.slice(0, LASTING_TASKS)],
    ]),
    queues: perPipeline(),
    held: perPipeline(),
    marks: perPipeline(),
    increments: new Map(),
  };
}

async function runMix(world: World, server: TestServer, options: StressOptions): Promise<void> {
  const { seconds, connections, seed, progress = () => undefined } = options;
  const started = performance.now();
  const over = AbortSignal.any([AbortSignal.timeout(seconds * 1000), ...(options.signal ? [options.signal] : [])]);
  const telling = setInterval(() => progress(progressLine(world, performance.now() - started)), PROGRESS_MS);
  const random = seededRandom(seed);
  const failing = setInterval(() => {
    const step = random.pick([
      ...[
        "fetch",
        "enqueue",
        "claim",
        "lock-related",
        "lock-related",
        "renew",
        "apply",
        "apply",
        "reset",
        "fail",
        "release",
      ],
    ]);
    if (server.dataApi.faults.list().length < 10)
      server.dataApi.faults.add({ kind: "lostAnswer", match: `millrace:${step}` });
  }, FAULT_EVERY_MS);
  try {
    await mix(world, connections, seed, over);
  } finally {
    clearInterval(telling);
    clearInterval(failing);
    server.dataApi.faults.clear();
  }
}

function progressLine({ tally, errors }: World, ms: number): string {
  const counts = [
    [tally.of("statements"), "statements"],
    [tally.of("apply applied"), "applied"],
    [tally.of("apply already"), "already"],
    [tally.of("apply stale"), "stale"],
    [tally.of("lock locked"), "related locked"],
    [tally.of("lock contention"), "contention"],
    [tally.of("fetch of expired locks"), "stolen"],
    [tally.of("repeated unanswered"), "answers lost"],
    [tally.of("repeated 40P01"), "deadlocks repeated"],
    [errors.length, "errors"],
  ];
  return `${(ms / 1000).toFixed(0).padStart(4)} s  ${counts.map(([n, what]) => `${n} ${what}`).join(", ")}`;
}

async function findings({ engine, lasting, tally }: World) {
  const logs = await engine.admin<{
    id: string;
    token: string;
    at: string;
    changes: Record<string, number>;
    level: string;
  }>(
    "select l.thing_id as id, l.message as token, extract(epoch from l.at) * 1000 as at, l.changes, l.level from logs l order by l.id",
  );
  const counted = async (column: "size" | "busy", tables: readonly string[]) => {
    const selects = tables.map((t) => `select id, ${column} as n, '${t}' as name from ${t}`);
    const rows = await engine.admin<{ id: string; n: number; name: string }>(selects.join(" union all "));
    // the id of a member that was deleted does not come back
    return new Map(rows.filter((r) => r.name === "members" || lasting.has(r.id)).map((r) => [r.id, r.n]));
  };
  const [stats] = await engine.admin<{ deadlocks: string }>(
    "select deadlocks from pg_stat_database where datname = current_database()",
  );
  tally.add("deadlocks seen by PostgreSQL", Number(stats!.deadlocks));
  return {
    logs: logs.filter((l) => l.level !== "writer").map((l): LogLine => ({ ...l, at: Number(l.at) })),
    writes: logs.filter((l) => l.level === "writer").map((l) => l.changes),
    sizes: await counted(
      "size",
      TABLES.filter((t) => t !== "bits"),
    ),
    busy: await counted("busy", ["members", "parts", "things"]),
    deadlocks: Number(stats!.deadlocks),
  };
}
