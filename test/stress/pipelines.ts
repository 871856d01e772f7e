import { type Generated, type Kysely, sql } from "kysely";
import {
  addPipelineColumns,
  type MigrateOptions,
  type PipelineColumns,
  type PipelineOptions,
  pipelinesFor,
  type Registry,
  registry,
} from "../../lib/index.ts";
import { check, migrations, provision, remove, type Schema, things } from "../support/engine-on.ts";

interface Part extends PipelineColumns {
  id: Generated<string>;
  status: Generated<"on" | "off">;
  note: string | null;
  size: Generated<number>;
}

/** A second table, so that the order of tables counts too. */
const parts = pipelinesFor<Schema & { parts: Part }, unknown>().on("parts");
const turn = parts.state({ ready: (eb) => eb("status", "=", "on"), process: ({ apply }) => apply({}) });

/** How long a lock holds at least, if nobody loosens it. */
export const LOCK_SECONDS = 0.6;

/** Locks that expire while statements wait for each other, so that there are thieves all the time. */
const HASTY: PipelineOptions = {
  workers: 4,
  queueUpperFactor: 1.5,
  lockTimeoutSeconds: LOCK_SECONDS,
  leaseSeconds: 0.4,
  heartbeatTickSeconds: 0.1,
  heartbeatTriggerSeconds: 0.3,
  processTimeoutSeconds: 1,
  maxAttempts: 4,
  backoff: { firstSeconds: 0.02, maxSeconds: 0.2 },
};

/** Three pipelines over two tables; two of them share a table. */
export const stressRegistry = (): Registry<unknown> =>
  registry([
    parts.pipeline("parts", { turn }, HASTY),
    things.pipeline("things", { provision, remove }, HASTY),
    things.pipeline("checks", { check }, HASTY),
  ]);

export const stressTables: MigrateOptions["migrations"] = {
  ...migrations,
  "0002-parts": {
    async up(db: Kysely<unknown>) {
      await sql`create table parts (id uuid primary key default gen_random_uuid(), status text not null default 'on',
        note text, size int not null default 0)`.execute(db);
      await addPipelineColumns(db, "parts");
      await sql`alter table things alter column size set default 0`.execute(db);
      await sql`create index logs_message on logs (message)`.execute(db);
    },
  },
};
