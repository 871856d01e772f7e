/* `npm run bench:recovery`: from the death of a worker in the middle of a pass to the same row being processed again. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Command, InvalidArgumentError } from "commander";
import { synthesize } from "../infra/local/assembly.ts";
import { PIPELINE_DEFAULTS } from "../lib/define/options.ts";
import { percentile } from "../test/chaos/recovery.ts";
import { synthesizeTuned, TUNED } from "../test/chaos/tuned.ts";
import { type LocalStack, startLocalStack } from "../test/support/stack.ts";
import { textTable } from "../test/support/text-table.ts";
import { until } from "../test/support/until.ts";

/** What 95 of a hundred must not exceed, in seconds. */
const MOST = { default: 40, tuned: 15 } as const;
type Settings = keyof typeof MOST;

/** A round kills as many workers at once as there may be in the pipelines that ask the cloud for something. */
const SLOTS = ["volumes", "volumes", "instances", "instances", "jobs", "jobs", "jobs", "jobs"] as const;
const PIPELINES = { volumes: "volumes", instances: "instances", jobs: "jobs-running" } as const;
/** Jobs of one instance: enough for all rounds. */
const SLOTS_OF_INSTANCE = 16;
const PATIENCE_MS = 240_000;

/** A row whose worker is to be killed. */
interface Victim {
  readonly kind: keyof typeof PIPELINES;
  readonly id: string;
}

/** Each kill is a fault of the cloud, which kills the very process that has called it. */
async function killCaller(stack: LocalStack, match: string, seconds: number): Promise<void> {
  const { status } = await stack.control("POST", "/cloud/faults", { match, kind: "killCaller", seconds, count: 1 });
  if (status !== 201) throw new Error(`the fault was answered with ${status}`);
}

/** Starts something whose worker dies `seconds` after it has asked the cloud; resolves when it is being processed. */
async function startVictim(stack: LocalStack, kind: Victim["kind"], fleetId: string, seconds: number): Promise<Victim> {
  const name = `${kind}-${crypto.randomUUID().slice(0, 8)}`;
  await killCaller(stack, kind === "jobs" ? "runCommand" : name, seconds);
  const made = {
    volumes: () => stack.api("POST", "/volumes", { name, sizeGb: 1 }),
    instances: () => stack.api("POST", "/fleets", { name, nodes: 1 }),
    jobs: () => stack.api("POST", "/jobs", { fleetId, command: ["true"] }),
  };
  const { status, body } = await made[kind]();
  if (status !== 201) throw new Error(`${kind}: ${status} ${JSON.stringify(body)}`);
  const idOf = async () =>
    kind === "instances"
      ? (await stack.sql("select id from instances where fleet_id = $1", [body.id]))[0]?.id
      : (body.id as string);
  const id = await until(idOf, { what: "the instance", timeoutMs: PATIENCE_MS, everyMs: 20 });
  // the fault is taken off the list when the cloud has been asked
  const asked = async () => ((await stack.control("GET", "/cloud/faults")).body as unknown[]).length === 0;
  await until(asked, { what: `${name} to be at the cloud`, timeoutMs: PATIENCE_MS, everyMs: 20 });
  return { kind, id };
}

/**
 * Seconds from the death of the victim's worker to the next claim of the row; undefined before that. `void` where
 * nobody was killed over it, or somebody had taken the row over before: a machine that is too busy lets leases run out.
 */
async function recoveryOf(stack: LocalStack, { kind, id }: Victim): Promise<number | "void" | undefined> {
  const claims = stack
    .logs(`worker-${PIPELINES[kind]}`)
    .filter((line) => line.message === "item.claimed" && line.id === id);
  const [row] = await stack.sql(
    {
      volumes: "select name from volumes where id = $1",
      instances:
        "select f.name || '-' || i.number as name from instances i join fleets f on f.id = i.fleet_id where i.id = $1",
      jobs: "select command_key as key, status = 'done' as done from jobs where id = $1",
    }[kind],
    [id],
  );
  const log = (await stack.control("GET", "/cloud/log")).body as {
    at: string;
    key: string;
    name: string;
    outcome: string;
  }[];
  const death = log.find((l) => l.outcome === "killed" && (kind === "jobs" ? l.key === row.key : l.name === row.name));
  // the fault has hit another job, one that came again meanwhile
  if (death === undefined) return row.done === true ? "void" : undefined;
  const diedAt = Date.parse(death.at);
  const times = claims.map(({ timestamp, attempt }) => ({ at: Date.parse(timestamp), attempt: attempt as number }));
  if (times.some(({ at, attempt }) => at <= diedAt && attempt > 1)) return "void";
  const next = times.filter(({ at }) => at > diedAt);
  return next.length === 0 ? undefined : (Math.min(...next.map(({ at }) => at)) - diedAt) / 1000;
}

async function measure(settings: Settings, kills: number): Promise<number[]> {
  const assembly = mkdtempSync(join(tmpdir(), "millrace-recovery-"));
  try {
    if (settings === "tuned") await synthesizeTuned(assembly);
    else await synthesize({ outdir: assembly });
    await using stack = await startLocalStack({ assembly });
    const { leaseSeconds } = settings === "tuned" ? TUNED : PIPELINE_DEFAULTS;
    const { body: fleet } = await stack.api("POST", "/fleets", { name: "base", nodes: 1, slots: SLOTS_OF_INSTANCE });
    const idle = () => stack.sql("select 1 from instances where fleet_id = $1 and status = 'idle'", [fleet.id]);
    await until(async () => (await idle()).length > 0, { what: "an instance", timeoutMs: PATIENCE_MS });
    const seconds: number[] = [];
    while (seconds.length < kills) {
      const victims: Victim[] = [];
      // anywhere between two renewals of the lease, so that every age of the lock is met
      for (const kind of SLOTS)
        victims.push(await startVictim(stack, kind, fleet.id, (1 + Math.random()) * (leaseSeconds / 3)));
      const round = await Promise.all(
        victims.map((victim) =>
          until(() => recoveryOf(stack, victim), {
            what: `${victim.kind} ${victim.id} to be processed again`,
            timeoutMs: PATIENCE_MS,
            everyMs: 500,
          }),
        ),
      );
      seconds.push(...round.filter((one) => one !== "void"));
      const shown = round.map((one) => (one === "void" ? one : one.toFixed(1)));
      console.log(`${settings}: ${seconds.length} of ${kills}: ${shown.join(" ")}`);
    }
    return seconds;
  } finally {
    rmSync(assembly, { recursive: true, force: true });
  }
}

function count(text: string): number {
  const value = Number(text);
  if (Number.isInteger(value) && value >= 1) return value;
  throw new InvalidArgumentError("a whole number from 1 on.");
}

const { kills, only } = new Command("npm run bench:recovery --")
  .description("Kills workers in the middle of their passes, and measures when the rows are processed again.")
  .option("--kills <n>", "for each of the settings", count, 40)
  .option("--only <settings>", "default or tuned (default: both)")
  .parse()
  .opts<{ kills: number; only?: string }>();

const rows: string[][] = [];
for (const settings of ["default", "tuned"] as const) {
  if (only !== undefined && only !== settings) continue;
  const seconds = await measure(settings, kills);
  const of = (percent: number) => percentile(seconds, percent);
  rows.push([
    settings,
    String(seconds.length),
    ...[50, 95, 100].map((p) => `${of(p).toFixed(1)} s`),
    `${MOST[settings]} s`,
  ]);
  if (of(95) > MOST[settings]) process.exitCode = 1;
}
console.log(
  `\nfrom a worker's death to its row being processed again\n${textTable(["settings", "kills", "p50", "p95", "most", "p95 at most"], rows)}`,
);
