import type { Command } from "commander";
import type { FleetJson, JobJson, ListJson } from "../api/json.ts";
import { collect, fleetId, query, volumeId, wholeNumber } from "./arguments.ts";
import { CliError } from "./errors.ts";
import { followJob, readOutput, skippedText } from "./follow-job.ts";
import { engineFields, fields, pageText, time } from "./format.ts";
import type { Session } from "./session.ts";

interface RunOptions {
  readonly fleet: string;
  readonly volume?: readonly string[];
  readonly detach?: boolean;
}

interface ListOptions {
  readonly fleet?: string;
  readonly status?: string;
  readonly limit?: number;
  readonly cursor?: string;
}

const RUN_HELP = `
Examples:
  millrace jobs run --fleet web -- sh -c 'echo hello; sleep 5; echo bye'
  millrace jobs run --fleet web --volume data --detach -- cp /etc/hostname data/

Everything after -- is the command, unchanged; no shell is put in between. Each volume is a folder of its name.
Ends with 0 when the job is done, with 1 when it failed. Ctrl-C stops following, not the job.`;

/** `millrace jobs …` */
export function addJobs(program: Command, open: (command: Command) => Session): void {
  const jobs = program.command("jobs").description("commands that run on instances of a fleet");

  jobs
    .command("run")
    .description("run a command on an instance of a fleet and follow its output")
    .argument("<command...>", "program and arguments, after --")
    .requiredOption("--fleet <name-or-id>", "the fleet to run it on")
    .option("--volume <name-or-id>", "a volume that it sees; may be given several times", collect)
    .option("--detach", "do not wait for it")
    .addHelpText("after", RUN_HELP)
    .action(async (argv: string[], options: RunOptions, command: Command) => {
      await runJob(open(command), argv, options);
    });

  jobs
    .command("list")
    .description("list jobs, newest first")
    .option("--fleet <name-or-id>", "only those of this fleet")
    .option(
      "--status <status>",
      "only those: submitted, provisioning, running, terminating, done, failed or terminated",
    )
    .option("--limit <n>", "how many at most", wholeNumber(1))
    .option("--cursor <cursor>", "where to go on: what the page before printed last")
    .action(async ({ fleet, ...options }: ListOptions, command: Command) => {
      const { client, print } = open(command);
      const of = fleet === undefined ? {} : { fleetId: await fleetId(client, fleet) };
      const list = await client.call<ListJson<JobJson>>("GET", `/jobs${query({ ...options, ...of })}`);
      print(list, (now) =>
        pageText(list, "jobs", ["ID", "FLEET", "STATUS", "EXIT", "CREATED", "COMMAND"], (j) => [
          j.id,
          j.fleetName ?? "-",
          j.status,
          `${j.exitCode ?? "-"}`,
          time(j.createdAt, now),
          commandText(j).slice(0, 60),
        ]),
      );
    });

  jobs
    .command("show")
    .description("one job")
    .argument("<id>")
    .action(async (id: string, _options: object, command: Command) => {
      const { client, print } = open(command);
      const job = await client.call<JobJson>("GET", `/jobs/${encodeURIComponent(id)}`);
      print(job, (now) => jobText(job, now));
    });

  jobs
    .command("stop")
    .description("ask for a job to be stopped")
    .argument("<id>")
    .action(async (id: string, _options: object, command: Command) => {
      const { client, print } = open(command);
      const job = await client.call<JobJson>("POST", `/jobs/${encodeURIComponent(id)}/stop`, {});
      print(job, () => `job ${job.id} is ${job.status}${job.stopRequested ? ", and is to stop" : ""}\n`);
    });

  jobs
    .command("logs")
    .description("what a job has written; of one that has ended, the last 64 KiB")
    .argument("<id>")
    .option("--follow", "go on until it has ended")
    .addHelpText("after", "\nExample:\n  millrace jobs logs 6a1f7c1e-8c0e-4a52-9d0f-0f0e6c9a1b2d --follow")
    .action(async (id: string, { follow }: { follow?: boolean }, command: Command) => {
      const session = open(command);
      if (follow === true) {
        const onSkipped = (bytes: number) => session.tell(skippedText(bytes));
        await followJob(session, id, { onStatus: () => {}, onText: session.write, onSkipped });
        return;
      }
      const output = await readOutput(session, id);
      if (output.skipped !== undefined && !session.json) session.tell(skippedText(output.skipped));
      session.print(output, () => output.text);
    });
}

async function runJob(session: Session, command: readonly string[], options: RunOptions): Promise<void> {
  const { client, print, tell, write, json } = session;
  const id = await fleetId(client, options.fleet);
  const volumeIds: string[] = [];
  for (const volume of options.volume ?? []) volumeIds.push(await volumeId(client, volume));
  const job = await client.call<JobJson>("POST", "/jobs", { fleetId: id, command, volumeIds });
  if (options.detach === true) {
    print(job, () => `job ${job.id} is ${job.status}\n`);
    return;
  }
  const { nodes, name } = await client.call<FleetJson>("GET", `/fleets/${encodeURIComponent(id)}`);
  if (nodes === 0) tell(`fleet ${name} has no nodes: millrace fleets resize ${name} --nodes 1`);
  const ended = await followJob(session, job.id, {
    onStatus: (now) => tell(`job ${now.id} ${STATUS_WORDS[now.status](now)}`),
    onText: json ? () => {} : write,
    onSkipped: json ? () => {} : (bytes) => tell(skippedText(bytes)),
  });
  if (ended === undefined) throw new CliError("INTERRUPTED", { id: job.id });
  if (json) print(ended, () => "");
  if (ended.status !== "done") throw new CliError("JOB_FAILED", { id: job.id, end: STATUS_WORDS[ended.status](ended) });
}

const because = ({ statusMessage }: JobJson) => (statusMessage === null ? "" : `: ${statusMessage}`);

const STATUS_WORDS: Readonly<Record<JobJson["status"], (job: JobJson) => string>> = {
  submitted: () => "is waiting for an instance",
  provisioning: ({ instanceId }) => `is starting on instance ${instanceId ?? "?"}`,
  running: () => "is running",
  terminating: () => "is ending",
  done: () => "is done",
  failed: (job) => `failed${job.exitCode === null ? "" : ` with exit code ${job.exitCode}`}${because(job)}`,
  terminated: (job) => `was stopped${because(job)}`,
};

/** As a shell would take it. */
const commandText = ({ command }: JobJson) =>
  command
    .map((part) => (/^[\w@%+=:,./-]+$/.test(part) ? part : `'${part.replaceAll("'", `'\\''`)}'`))
    .join(" ")
    .replaceAll(/\s+/g, " ");

function jobText(job: JobJson, now: Date): string {
  return fields([
    ["id", job.id],
    ["fleet", job.fleetName ?? "-"],
    ["command", commandText(job)],
    ["volumes", job.volumeIds.join(", ") || "-"],
    ["status", job.stopRequested ? `${job.status} (stop asked for)` : job.status],
    ["message", job.statusMessage ?? "-"],
    ["instance", job.instanceId ?? "-"],
    ["exit code", `${job.exitCode ?? "-"}`],
    ["started", time(job.startedAt, now)],
    ["finished", time(job.finishedAt, now)],
    ...engineFields(job, now),
  ]);
}
