import {
  dataApi,
  type FetchMemory,
  fetchHinted,
  fetchMemory,
  fetchPipeline,
  heartbeatLoop,
  type Ports,
  type Registry,
  recordedEvents,
  sqsHintQueue,
  sqsItemQueue,
  workBatch,
} from "../../lib/index.ts";
import { dataApiClient, TARGET } from "./calls.ts";
import { Process, type Version } from "./process.ts";
import { type Queue, type QueuedMessage, sqsClient } from "./queues.ts";
import type { Services } from "./subject.ts";
import type { Schema } from "./tables.ts";
import type { Move, World } from "./world.ts";

const PERIOD_SECONDS = 60;
const FETCHER_SECONDS = 60;
const HEARTBEATER_SECONDS = 90;
const WORKER_SECONDS = 90;
const MOST_FETCHERS = 3;
/** Of each pipeline. */
const MOST_WORKERS = 2;
const MOST_HINTS = 10;

export interface FunctionsOptions {
  readonly world: World;
  readonly registries: Readonly<Record<Version, Registry<Services>>>;
  readonly queues: ReadonlyMap<string, Queue>;
  readonly servicesOf: (process: Process) => Services;
}

/** The deployed functions: started by messages and by the clock, each run in a process of its own. */
export class Functions {
  /** The code that new processes run; both while an upgrade is under way. */
  versions: readonly Version[] = ["old"];
  /** Until then no heartbeater starts. */
  heartbeaterAwayUntil = 0;
  readonly #options: FunctionsOptions;
  /** What fetchers that have ended remember for the next. */
  readonly #memories: FetchMemory[] = [];

  constructor(options: FunctionsOptions) {
    this.#options = options;
    this.#everyPeriod("fetcher", () => this.startFetcher());
    this.#everyPeriod("heartbeater", () => this.startHeartbeater());
  }

  /** Batches that could be delivered now. */
  deliveries(): readonly Move[] {
    const { queues } = this.#options;
    return [...queues.values()].flatMap((queue) => {
      const kind = queue.name === "hints" ? "fetcher" : `worker-${queue.name}`;
      const most = queue.name === "hints" ? MOST_FETCHERS : MOST_WORKERS;
      if (this.#count(kind) >= most || queue.visible().length === 0) return [];
      return [{ what: `${queue.name} delivers`, weight: 1, run: () => this.#deliver(queue) }];
    });
  }

  startFetcher(): void {
    this.#run("fetcher", FETCHER_SECONDS, async (_, registry, ports) => {
      await Promise.all(
        registry.pipelines.map(({ name }) => fetchPipeline(registry, name, ports, { scheduled: true })),
      );
    });
  }

  startHeartbeater(): void {
    const { world } = this.#options;
    if (world.time.now < this.heartbeaterAwayUntil || this.#count("heartbeater") >= 2) return;
    this.#run("heartbeater", HEARTBEATER_SECONDS, (_, registry, ports) => heartbeatLoop(registry, ports));
  }

  #deliver(queue: Queue): void {
    const { world } = this.#options;
    const visible = queue.visible();
    const most = queue.name === "hints" ? MOST_HINTS : 2;
    const first = world.pick(visible.slice(0, 4), [4, 1, 1, 1].slice(0, visible.length));
    const batch = [first, ...visible.filter((m) => m !== first)].slice(0, world.pick([most, 1], [3, 1]));
    queue.receive(batch);
    if (queue.name === "hints") this.#fetchHinted(queue, batch);
    else this.#work(queue, batch);
  }

  #fetchHinted(queue: Queue, batch: readonly QueuedMessage[]): void {
    const memory = this.#memories.pop() ?? fetchMemory();
    this.#run("fetcher", FETCHER_SECONDS, async (_, registry, ports) => {
      await fetchHinted(registry, batch, ports, memory);
      this.#memories.push(memory);
      for (const message of batch) queue.delete(message);
    });
  }

  #work(queue: Queue, batch: readonly QueuedMessage[]): void {
    this.#run(`worker-${queue.name}`, WORKER_SECONDS, async (process, registry, ports) => {
      const keep = await workBatch(registry, batch, this.#options.servicesOf(process), process.name, ports);
      for (const message of batch) if (!keep.includes(message.messageId)) queue.delete(message);
      queue.giveBack(batch.filter((message) => keep.includes(message.messageId)));
    });
  }

  #run(
    kind: string,
    seconds: number,
    handler: (process: Process, registry: Registry<Services>, ports: Ports) => Promise<unknown>,
  ): void {
    const { world, registries } = this.#options;
    const version = world.pick(this.versions);
    const process = new Process(world, kind, version, seconds);
    world.tell(process.name, `starts${version === "new" ? " with the new code" : ""}`);
    handler(process, registries[version], this.portsOf(process)).then(
      () => process.end(),
      (error: unknown) => {
        world.violate(`${process.name} failed: ${String(error)}`);
        process.kill();
      },
    );
  }

  /** Everything the engine gets in this process. */
  portsOf(process: Process): Ports {
    const { world, queues } = this.#options;
    const clock = world.time.clockOf(process, () => process.skew);
    const database = dataApi<Schema>({
      client: dataApiClient(world, process),
      limiter: process.limiter,
      ...TARGET,
      timeLeft: process.timeLeft,
      clock,
      random: world.random,
    });
    const client = sqsClient(world, queues, process);
    const urls = Object.fromEntries([...queues.keys()].map((name) => [name, name]));
    const events = recordedEvents();
    return {
      database,
      reader: { selectFrom: database.kysely.selectFrom.bind(database.kysely) } as Ports["reader"],
      items: sqsItemQueue(client, urls, clock),
      hints: sqsHintQueue(client, "hints", clock, events),
      wakeHeartbeater: async () => this.startHeartbeater(),
      events,
      clock,
      random: world.random,
      timeLeft: process.timeLeft,
    };
  }

  #count(kind: string): number {
    return [...this.#options.world.processes].filter((p) => p.kind === kind).length;
  }

  #everyPeriod(what: string, start: () => void): void {
    const { world } = this.#options;
    const again = () => {
      start();
      world.time.after(PERIOD_SECONDS * 1000, this, `schedule of the ${what}`, again);
    };
    world.time.after(PERIOD_SECONDS * 1000, this, `schedule of the ${what}`, again);
  }
}
