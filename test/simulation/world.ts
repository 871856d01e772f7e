import type { Choices } from "./choices.ts";
import type { SteppedDatabase } from "./database.ts";
import type { Process } from "./process.ts";
import { Time } from "./time.ts";

/** When every run begins. */
export const START = new Date("2030-01-01T00:00:00Z");

/** One thing that may happen next. */
export interface Move {
  readonly what: string;
  readonly weight: number;
  /** Counted under this name, where it is a fault. */
  readonly fault?: string;
  run(): Promise<void> | void;
}

/** Something that a program waits for. Its first move is what happens when nothing goes wrong. */
export interface Pending {
  readonly owner: Process;
  readonly what: string;
  /** None: not now. */
  moves(): readonly Move[];
}

/** What everything in a simulation shares. */
export class World {
  readonly time = new Time(START.getTime());
  readonly choices: Choices;
  readonly database: SteppedDatabase;
  /** What programs wait for, oldest first. */
  readonly pending = new Set<Pending>();
  readonly processes = new Set<Process>();
  /** Nothing goes wrong any more. */
  calm = false;
  /** Until then the database answers that it is resuming. */
  resumingUntil = 0;
  /** Statements that have run. */
  statements = 0;
  steps = 0;
  /** Processes that were ever started. */
  started = 0;
  /** Passes that came as far as `process`. */
  passes = 0;
  /** Everything that happened, for reading. */
  readonly story: string[] = [];
  readonly faults = new Map<string, number>();
  /** What must not be. */
  readonly violations: string[] = [];
  /** After each commit. */
  committed: () => Promise<void> = async () => undefined;
  #ids = 0;
  readonly #random: () => number;

  constructor(choices: Choices, database: SteppedDatabase, random: () => number) {
    this.choices = choices;
    this.database = database;
    this.#random = random;
  }

  /** For lengths of pauses and the like, which nobody needs to choose. */
  random = (): number => this.#random();

  /** An id or a token; every run of a seed makes the same ones. */
  uuid(): string {
    const n = (++this.#ids).toString(16).padStart(12, "0");
    const salt = Math.floor(this.#random() * 2 ** 32)
      .toString(16)
      .padStart(8, "0");
    return `${salt}-0000-4000-8000-${n}`;
  }

  /** One of the options, by weight; the first where nothing goes wrong. */
  pick<T>(options: readonly T[], weights: readonly number[] = options.map(() => 1)): T {
    return options[this.calm ? 0 : this.choices.choose(weights)]!;
  }

  tell(who: string, what: string): void {
    const seconds = ((this.time.now - START.getTime()) / 1000).toFixed(3);
    this.story.push(`${seconds.padStart(9)} s  ${who}: ${what}`);
  }

  countFault(kind: string): void {
    this.faults.set(kind, (this.faults.get(kind) ?? 0) + 1);
  }

  violate(what: string): void {
    this.violations.push(what);
    this.tell("VIOLATION", what);
  }
}
