/* What must hold when everything has come to rest: the tables against what was asked for. */

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { LocalStack } from "../support/stack.ts";
import { FAILING_CODE, type FleetWant, type JobWant, lastWords, type VolumeWant, type Wants } from "./wants.ts";

export interface Check {
  readonly name: string;
  /** One line for each thing that is not as it should be. */
  readonly wrong: readonly string[];
}

// biome-ignore lint/suspicious/noExplicitAny: rows of all kinds
type Row = any;

const byId = (rows: readonly Row[]) => new Map<string, Row>(rows.map((row) => [row.id, row]));

/** Volumes that are to be there are active, those that were deleted are gone, and no others are there. */
export async function checkVolumes(stack: LocalStack, { volumes }: Wants): Promise<Check> {
  const rows = byId(await stack.sql("select id, name, status, provider_id, attached from volumes"));
  const wrong = [
    ...volumes.flatMap((want) => presence(want, rows)),
    ...[...rows.values()].flatMap(({ id, name, status, provider_id, attached }) => [
      ...(volumes.some((want) => want.id === id) ? [] : [`${name}: nobody asked for it`]),
      ...(status === "active" && provider_id !== null ? [] : [`${name} is ${status}, at the cloud ${provider_id}`]),
      ...(attached === 0 ? [] : [`${name} counts ${attached} jobs that have it`]),
    ]),
  ];
  return { name: "volumes are active or gone, as asked", wrong };
}

/** Of what is known to have been asked for, neither less nor more is there. */
function presence({ name, id, created, deleted }: VolumeWant | FleetWant, rows: ReadonlyMap<string, Row>): string[] {
  const there = id !== undefined && rows.has(id);
  if (created === "yes" && deleted === "no" && !there) return [`${name} is gone, and nobody deleted it`];
  if (deleted === "yes" && there) return [`${name} is there, and was deleted`];
  if (created === "no" && there) return [`${name} is there, and was refused`];
  return [];
}

/** Fleets have as many instances as was asked for last, all of them idle; nothing is left of those that were deleted. */
export async function checkFleets(stack: LocalStack, { fleets }: Wants): Promise<Check> {
  const rows = byId(await stack.sql("select id, name, nodes, to_be_deleted from fleets"));
  const instances = await stack.sql("select id, fleet_id, number, status, busy from instances");
  const wrong = fleets.flatMap((want) => {
    const row = rows.get(want.id ?? "");
    const right = row === undefined || row.nodes === want.nodes || want.maybe.includes(row.nodes);
    const sizes = right ? [] : [`${want.name} has size ${row.nodes}, asked for was ${want.nodes}`];
    return [...presence(want, rows), ...sizes];
  });
  for (const { name, id, nodes } of rows.values()) {
    const own = instances.filter((one) => one.fleet_id === id);
    if (own.length !== nodes) wrong.push(`${name} has ${own.length} of ${nodes} instances`);
    if (!fleets.some((want) => want.id === id)) wrong.push(`${name}: nobody asked for it`);
  }
  for (const one of instances) {
    const what = `instance ${one.number} (${one.id})`;
    if (one.status !== "idle" || one.busy !== 0) wrong.push(`${what} is ${one.status} with ${one.busy} jobs`);
    if (!rows.has(one.fleet_id)) wrong.push(`${what} has no fleet`);
  }
  return { name: "fleets have their instances, idle, with no job counted", wrong };
}

/** Jobs ended as their commands do, or for a reason that was really there. */
export async function checkJobs(stack: LocalStack, wants: Wants): Promise<Check> {
  const rows = byId(
    await stack.sql(
      "select id, command ->> 3 as name, status, exit_code, status_message, stop_requested, output, instance_id from jobs",
    ),
  );
  const wrong = wants.jobs.flatMap((want) => {
    const row = rows.get(want.id ?? "");
    if (row === undefined) return want.created === "yes" ? [`${want.name} is gone`] : [];
    if (want.created === "no") return [`${want.name} is there, and was refused`];
    const why = misfit(want, row, wants);
    return why === undefined
      ? []
      : [`${want.name} ${row.status} (code ${row.exit_code}, ${row.status_message}): ${why}`];
  });
  for (const row of rows.values())
    if (!wants.jobs.some((want) => want.id === row.id)) wrong.push(`${row.name}: nobody asked for it`);
  const left = await stack.sql("select id, job_id from attachments");
  wrong.push(...left.map(({ id, job_id }) => `attachment ${id} of job ${job_id} is left`));
  return { name: "jobs ended with a right outcome, and gave everything back", wrong };
}

/** Why a job should not have ended like that; undefined when it may have. */
function misfit(want: JobWant, row: Row, { killedInstances }: Wants): string | undefined {
  const mayBeStopped = want.stopped !== "no" || want.fleet.deleted !== "no";
  switch (row.status) {
    case "done":
      if (row.exit_code !== 0) return "done with another code than 0";
      if (want.ending === "fails") return "its command fails";
      return row.output === `${lastWords(want.name)}\n` ? undefined : `its output is ${JSON.stringify(row.output)}`;
    case "terminated":
      return mayBeStopped ? undefined : "nobody stopped it";
    case "failed":
      if (row.exit_code !== null)
        return want.ending === "fails" && row.exit_code === FAILING_CODE ? undefined : "its command ends otherwise";
      if (/^instance \d+ is gone$/.test(row.status_message) || /agent of its instance/.test(row.status_message))
        return killedInstances.size > 0 ? undefined : "no instance was killed";
      if (row.status_message === "its fleet is gone")
        return want.fleet.deleted !== "no" ? undefined : "its fleet is there";
      if (row.status_message === "a volume of it is gone or being deleted")
        return want.volumes.some(({ deleted }) => deleted !== "no") ? undefined : "its volumes are there";
      return "there is no such reason";
    default:
      return "that is no end";
  }
}

/** A command began once when its job is done, and never twice; on volumes that are still there it has written once. */
export async function checkCommands(stack: LocalStack, wants: Wants, ranDir: string): Promise<Check> {
  const lines = (file: string) => (existsSync(file) ? readFileSync(file, "utf8").split("\n").filter(Boolean) : []);
  const rows = byId(await stack.sql("select id, status, exit_code from jobs"));
  const volumes = byId(await stack.sql("select id, provider_id from volumes"));
  const wrong: string[] = [];
  for (const job of wants.jobs) {
    const exited = rows.get(job.id ?? "")?.exit_code != null;
    const began = lines(join(ranDir, job.name)).length;
    if (began > 1 || (exited && began < 1)) wrong.push(`${job.name} began ${began} times`);
    const done = rows.get(job.id ?? "")?.status === "done";
    for (const volume of job.volumes) {
      const provider = volumes.get(volume.id ?? "")?.provider_id;
      if (provider === undefined) continue;
      const log = lines(join(stack.stateDir, "cloud/volumes", provider, "data/log"));
      const written = log.filter((line) => line === job.name).length;
      if (written > 1 || (done && written < 1)) wrong.push(`${job.name} wrote ${written} times on ${volume.name}`);
    }
  }
  return { name: "each command began once at most, and once where it exited", wrong };
}

/** What happens once in a life happened once: each such event stands for one accepted apply. */
export async function checkEvents(stack: LocalStack): Promise<Check> {
  const rows = await stack.sql(
    `select subject_id, regexp_replace(message, '[0-9]+', 'n', 'g') as what, count(*)::int as n from events
     where message ~ '(became active|was deleted|was created|was terminated|was placed|Job started|Job exited|Job ended|was added)'
     group by 1, 2 having count(*) > 1`,
  );
  const wrong = rows.map(({ subject_id, what, n }) => `${subject_id}: "${what}" ${n} times`);
  const ended = await stack.sql(
    `select j.id from jobs j where not exists (select 1 from events e where e.subject_id = j.id
       and e.message ~ '(^Job ended|before it was placed|^Job failed)')`,
  );
  return {
    name: "what happens once happened once, by the events",
    wrong: [...wrong, ...ended.map(({ id }) => `job ${id} has no end among the events`)],
  };
}
