import { type Kysely, sql } from "kysely";
import { type DataApiDatabase, type Hints, MillraceError, type Page, paginate, type Writer } from "../../lib/index.ts";
import { event } from "../pipelines/events.ts";
import type { Database } from "../pipelines/schema.ts";
import { ENGINE_COLUMNS, ITEM_COLUMNS, type WithItems } from "./item-columns.ts";
import { hasEnded, type JobRow } from "./job-json.ts";
import type { JobStatus } from "./json.ts";
import { ApiProblem } from "./problems.ts";
import { LIMITS } from "./requests.ts";

interface NewJob {
  readonly fleetId: string;
  readonly command: readonly string[];
  readonly volumeIds: readonly string[];
}

interface JobQuery {
  readonly limit: number;
  readonly cursor?: string | undefined;
  readonly fleetId?: string | undefined;
  readonly status?: JobStatus | undefined;
}

/** What is known of a job's output. */
export interface OutputRow {
  readonly status: JobStatus;
  readonly command_id: string | null;
  /** The last of it, once the job has ended, and the byte at which that begins. */
  readonly output: string | null;
  readonly output_from: number;
}

/** The rows behind `/jobs`. */
export interface JobRows {
  /**
   * @throws JOB_FLEET_UNKNOWN, JOB_FLEET_DELETING, JOB_VOLUMES_UNKNOWN, JOB_VOLUMES_DELETING, JOB_VOLUMES_SAME_NAME,
   * JOB_VOLUMES_NAME
   */
  create(job: NewJob): Promise<JobRow>;
  get(id: string): Promise<JobRow | undefined>;
  /** Newest first. @throws CURSOR_MALFORMED */
  list(query: JobQuery): Promise<Page<JobRow>>;
  /** Stores the wish, also while the row is held. @throws JOB_UNKNOWN */
  requestStop(id: string): Promise<JobRow>;
  outputOf(id: string): Promise<OutputRow | undefined>;
}

export interface JobRowsOptions {
  readonly database: DataApiDatabase<Database>;
  readonly writer: Writer<Database>;
  readonly hints: Hints;
}

export function createJobRows({ database, writer, hints }: JobRowsOptions): JobRows {
  const get = (id: string) =>
    database.read("get jobs", async (db) => {
      const [row] = await jobs(db).where("jobs.id", "=", id).execute();
      return row;
    });
  async function known(id: string): Promise<JobRow> {
    const row = await get(id);
    if (row === undefined) throw new ApiProblem("JOB_UNKNOWN", { id });
    return row;
  }
  return {
    get,
    async create(job) {
      const id = crypto.randomUUID();
      await database.run({ name: "create jobs", query: createSql(id, job) }, { patient: true });
      // Not by the answer: that of a repetition says nothing of what the first attempt made.
      const row = await get(id);
      if (row === undefined) throw await database.read("refused jobs", (db) => whyRefused(db, job));
      await hints.send({ table: "jobs" });
      return row;
    },
    list({ fleetId, status, ...page }) {
      return database.read("list jobs", (db) =>
        paginate(jobs(db), { table: "jobs", filter: { fleet_id: fleetId, status }, ...page }),
      );
    },
    async requestStop(id) {
      const before = await known(id);
      if (hasEnded(before)) return before;
      const events = before.stop_requested ? [] : [event("job", { id }, "Stop of the job was asked for")];
      try {
        await writer.request("jobs", id, { stop_requested: true }, { insert: { events } });
      } catch (error) {
        if (error instanceof MillraceError && error.code === "NO_SUCH_ROW") throw new ApiProblem("JOB_UNKNOWN", { id });
        throw error;
      }
      return known(id);
    },
    outputOf: (id) =>
      database.read("output of jobs", async (db) => {
        const [row] = await db
          .selectFrom("jobs")
          .select(["status", "command_id", "output", sql<number>`output_from::float8`.as("output_from")])
          .where("id", "=", id)
          .execute();
        return row;
      }),
  };
}

/**
 * Makes the job only if its fleet and volumes are there and stay, and each volume can be a folder. Their rows are held until the end of the statement,
 * so a deletion that is asked for at this moment waits, and finds the job.
 */
function createSql(id: string, { fleetId, command, volumeIds }: NewJob) {
  const volumes = sql`cast(cast(${JSON.stringify(volumeIds)} as text) as jsonb)`;
  return sql`/* millrace:create jobs */ with f as materialized (
  select id, name from fleets where id = ${fleetId} and not to_be_deleted for share),
v as materialized (
  select l.name from (select x.id::uuid as id from f cross join jsonb_array_elements_text(${volumes}) x (id) order by 1) w
  cross join lateral (
    select name from volumes where id = w.id and not to_be_deleted and ${FOLDER_NAME} for share) l),
made as (
  insert into jobs (id, fleet_id, fleet_name, command, volume_ids)
  select ${id}, f.id, f.name, cast(cast(${JSON.stringify(command)} as text) as jsonb),
    array(select x.id::uuid from jsonb_array_elements_text(${volumes}) with ordinality x (id, n) order by x.n)
  from f where (select count(distinct name) from v) = jsonb_array_length(${volumes})
  on conflict (id) do nothing returning id, fleet_name)
insert into events (kind, subject_id, message) select 'job', id, 'Job was submitted to fleet ' || fleet_name from made`;
}

/** A volume of jobs is a folder of its name. */
const FOLDER_NAME = sql<boolean>`name not in ('.', '..') and position('/' in name) = 0
    and octet_length(name) <= ${sql.lit(LIMITS.mostNameBytes)}`;

async function whyRefused(db: Kysely<Database>, { fleetId, volumeIds }: NewJob): Promise<ApiProblem> {
  const [fleet] = await db.selectFrom("fleets").select("to_be_deleted").where("id", "=", fleetId).execute();
  if (fleet === undefined) return new ApiProblem("JOB_FLEET_UNKNOWN", { id: fleetId });
  if (fleet.to_be_deleted) return new ApiProblem("JOB_FLEET_DELETING", { id: fleetId });
  const found = await db
    .selectFrom("volumes")
    .select(["id", "name", "to_be_deleted", FOLDER_NAME.as("fits")])
    .where("id", "in", volumeIds)
    .execute();
  const missing = volumeIds.filter((id) => !found.some((volume) => volume.id === id));
  if (missing.length > 0) return new ApiProblem("JOB_VOLUMES_UNKNOWN", { ids: missing.join(", ") });
  const leaving = found.filter((volume) => volume.to_be_deleted).map(({ id }) => id);
  if (leaving.length > 0) return new ApiProblem("JOB_VOLUMES_DELETING", { ids: leaving.join(", ") });
  const bad = found.filter(({ fits }) => !fits).map(({ name }) => name);
  if (bad.length > 0) return new ApiProblem("JOB_VOLUMES_NAME", { names: bad.join(", ") });
  const names = found.map(({ name }) => name);
  const twice = new Set(names.filter((name, n) => names.indexOf(name) < n));
  return new ApiProblem("JOB_VOLUMES_SAME_NAME", { names: [...twice].join(", ") });
}

/** The pipeline that has to do with a job, or had last. */
const PIPELINE = sql<string>`case jobs.status when 'submitted' then 'jobs-submitted'
when 'provisioning' then 'jobs-running' when 'running' then 'jobs-running' else 'jobs-terminating' end`;

export function jobs(db: Kysely<Database>) {
  return db
    .withTables<WithItems>()
    .selectFrom("jobs")
    .leftJoin("millrace.items as i", (join) => join.onRef("i.item_id", "=", "jobs.id").on("i.pipeline", "=", PIPELINE))
    .select(["jobs.id", "fleet_id", "fleet_name", "jobs.status", "stop_requested", "instance_id", "exit_code"])
    .select(["jobs.status_message", "jobs.started_at", "jobs.finished_at"])
    .select([
      sql<string>`jobs.command::text`.as("command"),
      sql<string>`to_jsonb(jobs.volume_ids)::text`.as("volume_ids"),
    ])
    .select(ENGINE_COLUMNS.map((column) => `jobs.${column}` as const))
    .select(ITEM_COLUMNS);
}
