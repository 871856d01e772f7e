/* The load: what users of the application do all the time, through its HTTP API. */

import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { type Random, seededRandom } from "../stress/random.ts";
import type { Tally } from "../stress/tally.ts";
import type { LocalStack } from "../support/stack.ts";
import {
  type Ending,
  FAILING_CODE,
  type FleetWant,
  isAlive,
  type JobWant,
  type Known,
  lastWords,
  type VolumeWant,
  type Wants,
} from "./wants.ts";

export interface LoadParts {
  readonly stack: LocalStack;
  readonly random: Random;
  readonly wants: Wants;
  readonly tally: Tally;
  /** A folder in which each command leaves a line when it begins. */
  readonly ranDir: string;
  /** Between two requests, in ms: about so long. @default 300 */
  readonly betweenMs?: number;
}

const BETWEEN_MS = 300;
/** A call without an answer is given up after this. */
const CALL_MS = 30_000;
/** Calls under way at once, so that one that hangs does not hold up the others. */
const AT_ONCE = 6;
/** Most things alive at once: enough for contention, and not so much that a small machine only swaps processes. */
const MOST = { volumes: 16, fleets: 3, jobs: 14 } as const;
/** What no fault explains: the request was a right one, and nobody was to be kept out. */
const SURPRISING = new Set([400, 401, 403, 405, 413, 415]);

/** So that the others have something to be about. */
const FIRST = ["createFleet", "createFleet", "createVolume", "createVolume", "createVolume"];

interface Answered {
  readonly known: Known;
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: bodies of all kinds
  readonly body: any;
}

/** Sends requests until the signal aborts; resolves when the last has its answer, or was given up. */
export async function load(parts: LoadParts, signal: AbortSignal): Promise<void> {
  const { random, wants, betweenMs = BETWEEN_MS } = parts;
  const underWay = new Set<Promise<void>>();
  const weights = Object.entries(actionsOf(parts)).flatMap(([name, { weight }]) => Array<string>(weight).fill(name));
  for (let n = 0; !signal.aborted; n++) {
    const name = FIRST[n] ?? random.pick(weights);
    // numbers of its own, so that the choice of the next does not hang on how fast this one is
    const own = seededRandom(random.below(1_000_000_000));
    if (underWay.size < AT_ONCE) {
      const actions = actionsOf({ ...parts, random: own });
      const doing = actions[name]!.run().catch((error: unknown) => {
        wants.surprises.push(`${name}: ${String(error)}`);
      });
      underWay.add(doing);
      void doing.then(() => underWay.delete(doing));
    }
    await wait(betweenMs * (0.5 + random.next()), undefined, { signal }).catch(() => {});
  }
  await Promise.all(underWay);
}

/** Sends one request. Without an answer, or after one of a server that failed, it is unknown whether it was done. */
export async function ask(parts: LoadParts, method: string, path: string, body?: unknown): Promise<Answered> {
  const { stack, tally, wants } = parts;
  const answer = await fetch(stack.local.apiUrl + path, {
    method,
    headers: { "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(CALL_MS),
  })
    .then(async (got) => ({ status: got.status, text: await got.text() }))
    .catch(() => ({ status: 0, text: "" }));
  tally.add(`${method} ${path.replace(/[0-9a-f-]{36}/, "…")} ${answer.status === 0 ? "(no answer)" : answer.status}`);
  const known = answer.status === 0 || answer.status >= 500 ? "unknown" : answer.status < 300 ? "yes" : "no";
  if (SURPRISING.has(answer.status)) wants.surprises.push(`${method} ${path}: ${answer.status} ${answer.text}`);
  return { known, status: answer.status, body: known === "yes" ? JSON.parse(answer.text) : undefined };
}

function actionsOf(parts: LoadParts): Record<string, { readonly weight: number; run(): Promise<void> }> {
  const { random, wants } = parts;
  const open = (jobs: readonly JobWant[]) => jobs.slice(-MOST.jobs).filter((job) => job.stopped === "no");
  const some = <T>(list: readonly T[], run: (one: T) => Promise<void>) =>
    list.length === 0 ? undefined : run(random.pick(list));
  return {
    createVolume: { weight: 5, run: async () => within(wants.volumes, MOST.volumes, () => createVolume(parts)) },
    deleteVolume: {
      weight: 3,
      run: async () => some(wants.volumes.filter(isAlive), (one) => remove(parts, "volumes", one)),
    },
    createFleet: { weight: 2, run: async () => within(wants.fleets, MOST.fleets, () => createFleet(parts)) },
    resizeFleet: { weight: 2, run: async () => some(wants.fleets.filter(isAlive), (one) => resize(parts, one)) },
    deleteFleet: {
      weight: 1,
      run: async () =>
        // seldom, and never the only one
        wants.fleets.filter(isAlive).length > 1 && random.percent(30)
          ? some(wants.fleets.filter(isAlive), (one) => remove(parts, "fleets", one))
          : undefined,
    },
    createJob: { weight: 9, run: async () => some(wants.fleets.filter(isAlive), (one) => createJob(parts, one)) },
    stopJob: { weight: 2, run: async () => some(open(wants.jobs).filter(isAlive), (one) => stop(parts, one)) },
    deleteInstance: {
      weight: 1,
      run: async () => some(wants.fleets.filter(isAlive), (one) => deleteInstance(parts, one)),
    },
    look: {
      weight: 2,
      run: async () => void (await ask(parts, "GET", random.pick(["/volumes", "/jobs", "/fleets", "/events"]))),
    },
  };
}

async function within(list: readonly VolumeWant[], most: number, run: () => Promise<void>): Promise<void> {
  if (list.filter(isAlive).length < most) await run();
}

async function createVolume(parts: LoadParts): Promise<void> {
  const { wants } = parts;
  const want: VolumeWant = { name: `vol-${wants.volumes.length}-x`, id: undefined, created: "unknown", deleted: "no" };
  wants.volumes.push(want);
  const { known, body } = await ask(parts, "POST", "/volumes", { name: want.name, sizeGb: 1 });
  want.created = known;
  want.id = body?.id;
}

async function createFleet(parts: LoadParts): Promise<void> {
  const { random, wants } = parts;
  const nodes = 1 + random.below(2);
  const name = `fleet-${wants.fleets.length}-x`;
  const want: FleetWant = { name, id: undefined, created: "unknown", deleted: "no", nodes, maybe: [], resizing: false };
  wants.fleets.push(want);
  const { known, body } = await ask(parts, "POST", "/fleets", { name, nodes, slots: 1 + random.below(2) });
  want.created = known;
  want.id = body?.id;
}

async function resize(parts: LoadParts, want: FleetWant): Promise<void> {
  if (want.resizing) return;
  want.resizing = true;
  const nodes = 1 + parts.random.below(3);
  const { known } = await ask(parts, "PATCH", `/fleets/${want.id}`, { nodes });
  if (known === "yes") want.nodes = nodes;
  else if (known === "unknown") want.maybe.push(nodes);
  want.resizing = false;
}

async function remove(parts: LoadParts, kind: "volumes" | "fleets", want: VolumeWant): Promise<void> {
  want.deleted = "unknown";
  want.deleted = (await ask(parts, "DELETE", `/${kind}/${want.id}`)).known;
}

async function createJob(parts: LoadParts, fleet: FleetWant): Promise<void> {
  const { random, wants, stack } = parts;
  const unfinished = await stack
    .sql("select count(*)::int as n from jobs where status not in ('done', 'failed', 'terminated')")
    .catch(() => [{ n: 0 }]);
  if (unfinished[0].n >= MOST.jobs) return;
  const name = `job-${wants.jobs.length}-x`;
  const volumes = random.some(wants.volumes.filter(isAlive), random.pick([0, 0, 1, 1, 2]));
  const ending = random.pick<Ending>(["done", "done", "done", "fails", "long"]);
  const want: JobWant = {
    name,
    id: undefined,
    created: "unknown",
    deleted: "no",
    fleet,
    volumes,
    ending,
    stopped: "no",
  };
  wants.jobs.push(want);
  const command = ["sh", "-c", script(parts, want), name];
  const { known, body } = await ask(parts, "POST", "/jobs", {
    fleetId: fleet.id,
    command,
    volumeIds: volumes.map(({ id }) => id),
  });
  want.created = known;
  want.id = body?.id;
  if (ending === "long" && isAlive(want)) await stop(parts, want);
}

/** Leaves a line at the beginning, writes on each volume, works, and ends with words that must be in the output. */
function script({ ranDir, random }: LoadParts, { name, volumes, ending }: JobWant): string {
  const lines = [`echo began >> '${join(ranDir, name)}'`];
  for (const volume of volumes) lines.push(`echo ${name} >> '${volume.name}/log'`);
  lines.push(`sleep ${ending === "long" ? 8 : (random.next() * 2).toFixed(2)}`, `echo ${lastWords(name)}`);
  if (ending === "fails") lines.push(`exit ${FAILING_CODE}`);
  return lines.join(" && ");
}

async function stop(parts: LoadParts, want: JobWant): Promise<void> {
  if (want.ending === "long") await wait(parts.random.next() * 6_000);
  want.stopped = "unknown";
  want.stopped = (await ask(parts, "POST", `/jobs/${want.id}/stop`)).known;
}

async function deleteInstance(parts: LoadParts, fleet: FleetWant): Promise<void> {
  const { known, body } = await ask(parts, "GET", `/fleets/${fleet.id}/instances`);
  const ids = known === "yes" ? (body.items as { id: string }[]).map(({ id }) => id) : [];
  if (ids.length > 0) await ask(parts, "DELETE", `/fleets/${fleet.id}/instances`, { ids: [parts.random.pick(ids)] });
}
