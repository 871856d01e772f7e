import { userInfo } from "node:os";
import type { Command } from "commander";
import type { ListJson, PipelineJson } from "../api/json.ts";
import { CliError } from "./errors.ts";
import { table, time } from "./format.ts";
import type { Session } from "./session.ts";

/** `millrace pipelines`, `pause`, `resume` and `hint` */
export function addPipelines(program: Command, open: (command: Command) => Session): void {
  program
    .command("pipelines")
    .description("every pipeline: paused or running, items in flight, rows due and dead")
    .action(async (_options: object, command: Command) => {
      const { client, print } = open(command);
      const list = await client.call<ListJson<PipelineJson>>("GET", "/pipelines");
      print(list, (now) => listText(list.items, now));
    });

  program
    .command("pause")
    .description("fetch no more rows for a pipeline; what is in flight is finished")
    .argument("<pipeline>")
    .option("--by <who>", "who pauses it, for others to see (default: the user's name)")
    .action(async (name: string, { by = userInfo().username }: { by?: string }, command: Command) => {
      const { client, print } = open(command);
      const pipeline = await client.call<PipelineJson>("POST", `${path(name)}/pause`, { by });
      print(pipeline, () => `${pipeline.name} is ${stateOf(pipeline)}\n`);
    });

  program
    .command("resume")
    .description("let a paused pipeline go on, at once")
    .argument("<pipeline>")
    .action(async (name: string, _options: object, command: Command) => {
      const { client, print } = open(command);
      const pipeline = await client.call<PipelineJson>("POST", `${path(name)}/resume`, {});
      print(pipeline, () => `${pipeline.name} is ${stateOf(pipeline)}\n`);
    });

  program
    .command("hint")
    .description("tell the fetcher of a pipeline, or of every pipeline of a table, to look now")
    .argument("<pipeline-or-table>")
    .action(async (target: string, _options: object, command: Command) => {
      const { client, print } = open(command);
      const { items } = await client.call<ListJson<PipelineJson>>("GET", "/pipelines");
      const answer = await client.call<object>("POST", "/hints", hintFor(target, items));
      print(answer, () => `hinted ${target}\n`);
    });
}

const path = (name: string) => `/pipelines/${encodeURIComponent(name)}`;

/** A name that is both means the pipeline's table: every pipeline of it looks, the one of that name included. */
function hintFor(target: string, pipelines: readonly PipelineJson[]) {
  if (pipelines.some(({ table }) => table === target)) return { table: target };
  if (pipelines.some(({ name }) => name === target)) return { pipeline: target };
  const known = [...new Set(pipelines.flatMap(({ name, table }) => [name, table]))];
  throw new CliError("TARGET_UNKNOWN", { target, known: known.join(", ") });
}

const stateOf = ({ pausedAt, pausedBy }: PipelineJson) =>
  pausedAt === null ? "running" : `paused by ${pausedBy ?? "somebody"}`;

function listText(pipelines: readonly PipelineJson[], now: Date): string {
  const rows = pipelines.map((p) => [
    p.name,
    p.table,
    stateOf(p),
    `${p.due}`,
    `${p.inFlight.locked}`,
    `${p.inFlight.queued}`,
    `${p.inFlight.processing}`,
    `${p.failed}`,
    `${p.dead}`,
    time(p.fetchedAt, now),
  ]);
  return table(
    ["NAME", "TABLE", "STATE", "DUE", "LOCKED", "QUEUED", "PROCESSING", "FAILED", "DEAD", "LAST FETCH"],
    rows,
  );
}
