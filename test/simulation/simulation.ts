import { hintBody } from "../../lib/engine/hint.ts";
import type { Registry } from "../../lib/index.ts";
import { seededRandom } from "../stress/random.ts";
import { Outside } from "./acts.ts";
import type { Choices } from "./choices.ts";
import type { Subject } from "./environment.ts";
import { Functions } from "./functions.ts";
import { heal, misfortunes } from "./happenings.ts";
import { unrest } from "./invariants.ts";
import { passServices } from "./passes.ts";
import { Queue } from "./queues.ts";
import type { Services } from "./subject.ts";
import { TABLES } from "./tables.ts";
import { Upgrade } from "./upgrade.ts";
import { type Move, type Pending, World } from "./world.ts";

/** What became of one run. */
export interface Outcome {
  readonly violations: readonly string[];
  readonly steps: number;
  readonly statements: number;
  readonly accepted: number;
  readonly faults: ReadonlyMap<string, number>;
  readonly choices: readonly number[];
  readonly story: readonly string[];
}

/** Steps with faults. */
const STEPS = [60, 120, 240] as const;
/** Everything must be done so long after the faults have stopped, in virtual time, */
const REST_MINUTES = 20;
/** and in so many steps. */
const REST_STEPS = 6_000;
/** At rest is who has nothing to do until then. */
const LONG_MS = 5_000;

/** Lets every promise go on that waits for nothing outside. */
const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

/** One run: first with faults, then without, until everything is done. Everything is decided by the choices. */
export async function simulate(subject: Subject, choices: Choices, seed: number): Promise<Outcome> {
  const run = new Run(subject, choices, seed);
  try {
    await run.withFaults();
    if (run.world.violations.length === 0) await run.withoutFaults();
  } catch (error) {
    run.world.violate(`the simulation itself failed: ${error instanceof Error ? error.stack : String(error)}`);
  }
  return run.end();
}

class Run {
  readonly world: World;
  readonly #subject: Subject;
  readonly #queues: ReadonlyMap<string, Queue>;
  readonly #functions: Functions;
  readonly #outside: Outside;
  readonly #undone = new Set<number>();
  readonly #steps: number;
  /** What everything must be at rest for in the end. */
  #registry: Registry<Services>;

  constructor(subject: Subject, choices: Choices, seed: number) {
    this.#subject = subject;
    const random = seededRandom(seed ^ 0x5eed);
    const world = new World(choices, subject.database, () => random.next());
    this.world = world;
    subject.useIds(() => world.uuid());
    const registry = subject.registries.old;
    this.#queues = new Map(
      ["hints", ...registry.pipelines.map((p) => p.name)].map((name) => [name, new Queue(world, name)]),
    );
    this.#functions = new Functions({
      world,
      registries: subject.registries,
      queues: this.#queues,
      servicesOf: (process) => passServices(world, process, (pass) => this.#undone.add(pass)),
    });
    this.#outside = new Outside(world, this.#functions, registry, subject.rows);
    this.#registry = registry;
    this.#steps = world.pick(STEPS);
    world.committed = async () => {
      for (const what of await subject.invariants.broken()) world.violate(what);
    };
  }

  async withFaults(): Promise<void> {
    await this.#subject.fill(this.world);
    for (const table of TABLES) this.#queues.get("hints")!.send(hintBody({ table }), 0);
    const upgrade = new Upgrade(this.world, this.#subject, this.#functions, this.#steps);
    while (this.world.steps < this.#steps && this.world.violations.length === 0) {
      await this.#step();
      await upgrade.goOn();
    }
    await upgrade.complete();
    if (upgrade.begun) this.#registry = this.#subject.registries.new;
  }

  async withoutFaults(): Promise<void> {
    const { world } = this;
    heal(world, this.#functions);
    for (const process of world.processes) process.frozenUntil = 0;
    world.tell("simulation", "no more faults");
    await this.#outside.resumeAll();
    const until = world.time.now + REST_MINUTES * 60_000;
    for (let step = 0; step < REST_STEPS && world.violations.length === 0; step++) {
      await settled();
      if (this.#idle() && (await this.#left()).length === 0) return this.#checkUndone();
      if (world.time.now > until) break;
      // a pause that travelled late may have come after the operator's word to go on
      if (world.pending.size === 0 && (await this.#subject.isPaused())) await this.#outside.resumeAll();
      await this.#step();
    }
    if (world.violations.length === 0)
      world.violate(
        `not at rest ${REST_MINUTES} minutes after the faults: ${(await this.#left()).slice(0, 4).join("; ")}`,
      );
  }

  async end(): Promise<Outcome> {
    const { world } = this;
    for (const process of world.processes) process.kill();
    await world.database.rollBackAll();
    const { violations, steps, statements, faults, choices, story } = world;
    const accepted = await this.#subject.accepted();
    return { violations, steps, statements, faults, story, accepted: accepted.length, choices: choices.taken };
  }

  async #left(): Promise<readonly string[]> {
    return unrest(this.#subject.observer, this.#registry);
  }

  /** Nothing happens for a while but what the clock starts. */
  #idle(): boolean {
    const { world } = this;
    const next = world.time.nextAt((timer) => timer.what === "timer");
    return world.pending.size === 0 && (next === undefined || next - world.time.now > LONG_MS);
  }

  async #checkUndone(): Promise<void> {
    for (const pass of await this.#subject.accepted())
      if (this.#undone.has(pass)) this.world.violate(`what was accepted was undone: pass ${pass}`);
  }

  async #step(): Promise<void> {
    const { world } = this;
    await settled();
    world.steps += 1;
    const { time } = world;
    const able = [...world.pending].map((one) => ({ one, moves: one.moves() })).filter(({ moves }) => moves.length > 0);
    const timers = time.due(
      ({ owner }) => !("frozenUntil" in owner) || (owner as { frozenUntil: number }).frozenUntil <= time.now,
    );
    const deliveries = this.#functions.deliveries();
    const faulty = !world.calm;
    const kinds = [
      { weight: able.length > 0 ? 30 : 0, run: () => this.#go(able) },
      { weight: timers.length > 0 ? 12 : 0, run: () => this.#fire(timers) },
      { weight: deliveries.length > 0 ? 14 : 0, run: () => this.#move(world.pick(deliveries), "queue") },
      { weight: 5, run: () => this.#advance(able.length + timers.length + deliveries.length === 0) },
      { weight: faulty ? 4 : 0, run: () => this.#choose(this.#outside.moves(), "outside", true) },
      {
        weight: faulty ? 3 : 0,
        run: () => this.#choose(misfortunes(world, this.#functions, this.#queues), "fault", true),
      },
    ];
    const index = world.calm
      ? kinds.findIndex(({ weight }) => weight > 0)
      : world.choices.choose(kinds.map((k) => k.weight));
    await kinds[index]!.run();
  }

  async #go(able: readonly { readonly one: Pending; readonly moves: readonly Move[] }[]): Promise<void> {
    const { one, moves } = this.world.pick(
      able,
      able.map((_, n) => (n === 0 ? 2 : 1)),
    );
    await this.#choose(moves, `${one.owner.name}, ${one.what}`);
  }

  async #choose(moves: readonly Move[], who: string, quiet = false): Promise<void> {
    await this.#move(
      this.world.pick(
        moves,
        moves.map((m) => m.weight),
      ),
      who,
      quiet,
    );
  }

  async #move(move: Move, who: string, quiet = false): Promise<void> {
    if (move.fault !== undefined) this.world.countFault(move.fault);
    if (!quiet || move.fault !== undefined) this.world.tell(who, move.what);
    await move.run();
  }

  #fire(timers: readonly { readonly what: string }[]): void {
    this.world.time.fire(this.world.pick(timers) as never);
  }

  /** Lets time pass: to the next thing that happens by itself, or anyhow. */
  #advance(idle: boolean): void {
    const { world } = this;
    const { time } = world;
    const messages = [...this.#queues.values()].flatMap((q) => q.messages.map((m) => m.visibleAt));
    const thaws = [...world.processes].map((p) => p.frozenUntil);
    const next = [time.nextAt(() => true) ?? Number.POSITIVE_INFINITY, ...messages, ...thaws].filter(
      (at) => at > time.now,
    );
    const soonest = Math.min(...next) - time.now;
    const ms = idle
      ? world.pick([soonest, soonest + 500, soonest + 20_000], [6, 2, 1])
      : world.pick([20, 200, 2_000, 12_000], [4, 4, 2, 1]);
    time.now += Number.isFinite(ms) ? ms : 1_000;
  }
}
