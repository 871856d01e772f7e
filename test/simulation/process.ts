import type { LimitFunction } from "p-limit";
import { callLimiter } from "../../lib/index.ts";
import type { World } from "./world.ts";

export type Version = "old" | "new";

/** A running program: a function's sandbox, or a service that calls the API. */
export class Process {
  /** Which function or service it runs, */
  readonly kind: string;
  /** and which of its processes this is. */
  readonly name: string;
  readonly version: Version;
  readonly limiter: LimitFunction = callLimiter(2);
  /** Its clock is ahead by so many milliseconds. */
  skew = 0;
  state: "running" | "ended" | "killed" = "running";
  /** Stands still until then. */
  frozenUntil = 0;
  /** When it is stopped, in virtual time. */
  readonly deadline: number;
  readonly #world: World;

  constructor(world: World, kind: string, version: Version, seconds: number) {
    this.#world = world;
    this.kind = kind;
    this.name = `${kind} ${++world.started}`;
    this.version = version;
    this.deadline = world.time.now + seconds * 1000;
    world.processes.add(this);
    world.time.after(seconds * 1000, this, "its time is up", () => this.kill());
  }

  get runs(): boolean {
    return this.state === "running" && this.frozenUntil <= this.#world.time.now;
  }

  timeLeft = (): number => this.deadline - this.#world.time.now;

  /** Stands still for so many seconds, whatever is due meanwhile. */
  freeze(seconds: number): void {
    this.frozenUntil = Math.max(this.frozenUntil, this.#world.time.now + seconds * 1000);
  }

  /** Dies at once. What it has sent goes on without it. */
  kill(): void {
    this.#over("killed");
  }

  end(): void {
    this.#over("ended");
  }

  #over(state: "ended" | "killed"): void {
    if (this.state !== "running") return;
    this.state = state;
    this.#world.time.forget(this);
    this.#world.processes.delete(this);
  }
}
