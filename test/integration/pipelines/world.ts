import { afterAll, afterEach, beforeAll, beforeEach, expect } from "vitest";
import { migrations } from "../../../functions/migrations/index.ts";
import { pipelines } from "../../../functions/pipelines/index.ts";
import type { Database } from "../../../functions/pipelines/schema.ts";
import { type DataApiDatabase, findOverlaps, migrate, type Ports, systemClock } from "../../../lib/index.ts";
import { connect } from "../../support/engine-on.ts";
import { type MemoryCloud, memoryCloud } from "../../support/memory-cloud.ts";
import { fetchMessages, type TestPorts, testPorts, work } from "../../support/ports.ts";
import { createTestDatabase, type TestDatabase } from "../../support/test-database.ts";

// biome-ignore lint/suspicious/noExplicitAny: a row
type Row = Record<string, any>;

/** The application's pipelines over a database of their own, with a provider in memory. */
export interface World {
  readonly api: DataApiDatabase<Database>;
  cloud: MemoryCloud;
  sql(text: string, values?: readonly unknown[]): Promise<Row[]>;
  /** One fetch of a pipeline and work on what it found; nothing is waited for. Answers what became of the passes. */
  pass(pipeline: string, overrides?: Partial<Ports>): Promise<TestPorts>;
  /** Passes over everything that is due, whenever it is due, until a condition holds. */
  until(what: string, holds: () => Promise<boolean> | boolean): Promise<void>;
  /** One row. */
  row(table: string, id: string): Promise<Row>;
  fleet(nodes: number, slots?: number): Promise<string>;
  volume(name?: string): Promise<string>;
  job(fleetId: string, volumeIds?: readonly string[]): Promise<string>;
  /** Stores a wish as the API does: while somebody holds the row, too. */
  want(table: "fleets" | "jobs" | "volumes", id: string): Promise<void>;
  /** Waits until the job is in this status. */
  status(jobId: string, status: string): Promise<Row>;
  instances(fleetId: string): Promise<Row[]>;
  /** No lock, no item in flight, no row in two states. */
  atRest(): Promise<void>;
}

const ROUNDS = 60;

export function useWorld(): () => World {
  let database: TestDatabase;
  let world: World;
  beforeAll(async () => {
    database = await createTestDatabase();
    const owner = connect<Database>(database, database.dataApiConfig.ownerSecretArn);
    await migrate({ database: owner, registry: pipelines, migrations, clock: systemClock });
    await database.ownerPool.query(
      "grant usage on schema millrace to millrace_app; grant all on all tables in schema millrace to millrace_app",
    );
    world = worldOn(database);
  });
  afterAll(() => database?.drop());
  beforeEach(async () => {
    world.cloud = memoryCloud();
    await world.sql("truncate attachments, jobs, instances, fleets, volumes, events, millrace.items, millrace.upkeep");
    await world.sql("update millrace.wakeups set wake_at = null");
    await world.sql("update millrace.pipelines set drain = false, fetched_at = null");
  });
  afterEach(async () => {
    const overlaps = await findOverlaps(world.api, pipelines);
    expect(overlaps).toEqual([]);
  });
  return () => world;
}

function worldOn(database: TestDatabase): World {
  const api = connect<Database>(database, database.dataApiConfig.secretArn);
  const sql = async (text: string, values: readonly unknown[] = []): Promise<Row[]> =>
    (await database.ownerPool.query(text, [...values])).rows;
  const insert = async (text: string, values: readonly unknown[]): Promise<string> =>
    (await sql(`${text} returning id`, values))[0]!["id"];
  let names = 0;

  const world: World = {
    api,
    cloud: memoryCloud(),
    sql,
    async pass(pipeline, overrides = {}) {
      const ports = testPorts({ api }, overrides);
      const messages = await fetchMessages(pipelines, ports, pipeline);
      await work(pipelines, messages, ports, { cloud: world.cloud });
      return ports;
    },
    async until(what, holds) {
      for (let round = 0; round < ROUNDS; round++) {
        if (await holds()) return;
        for (const table of pipelines.tables)
          await sql(`update ${table} set due_at = now() where due_at > now() and lock_token is null`);
        for (const { name } of pipelines.pipelines) await world.pass(name);
      }
      const rows = await sql("select pipeline, state, attempts, last_error from millrace.items");
      throw new Error(`not after ${ROUNDS} rounds: ${what}: ${JSON.stringify(rows)}`);
    },
    async row(table, id) {
      const [row] = await sql(`select * from ${table} where id = $1`, [id]);
      return row!;
    },
    fleet: (nodes, slots = 1) =>
      insert("insert into fleets (name, nodes, slots) values ($1, $2, $3)", [`fleet-${++names}`, nodes, slots]),
    volume: (name = `volume-${++names}`) => insert("insert into volumes (name, size_gb) values ($1, 1)", [name]),
    job: (fleetId, volumeIds = []) =>
      insert("insert into jobs (fleet_id, fleet_name, command, volume_ids) values ($1, 'f', '[\"true\"]', $2)", [
        fleetId,
        volumeIds,
      ]),
    async want(table, id) {
      await sql(`update ${table} set ${table === "jobs" ? "stop_requested" : "to_be_deleted"} = true where id = $1`, [
        id,
      ]);
    },
    async status(jobId, status) {
      await world.until(`job ${status}`, async () => (await world.row("jobs", jobId))["status"] === status);
      return world.row("jobs", jobId);
    },
    instances: (fleetId) => sql("select * from instances where fleet_id = $1 order by number", [fleetId]),
    async atRest() {
      for (const table of pipelines.lockedTables)
        expect(
          await sql(`select id, lock_owner, lock_token from ${table} where lock_token is not null`),
          table,
        ).toEqual([]);
      expect(await sql("select * from millrace.items where finished_at is null")).toEqual([]);
    },
  };
  return world;
}
