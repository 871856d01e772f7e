import type { Process } from "./process.ts";
import type { Services } from "./subject.ts";
import type { Move, Pending, World } from "./world.ts";

/** A pass that stands in `process`. */
class Pass implements Pending {
  readonly owner: Process;
  readonly what: string;
  readonly #world: World;
  readonly #settle: (outcome: "apply" | "retry" | Error) => void;

  constructor(world: World, owner: Process, id: string, settle: (outcome: "apply" | "retry" | Error) => void) {
    this.#world = world;
    this.owner = owner;
    this.what = `pass over ${id.slice(-4)}`;
    this.#settle = settle;
  }

  moves(): readonly Move[] {
    if (!this.owner.runs) {
      if (this.owner.state !== "running") this.#world.pending.delete(this);
      return [];
    }
    return [
      { what: "is done", weight: 12, run: () => this.#end("apply") },
      { what: "takes its time", weight: 6, run: () => this.#wait() },
      { what: "answers retry", weight: 1, run: () => this.#end("retry") },
      { what: "throws", weight: 1, fault: "process threw", run: () => this.#end(new Error("boom")) },
      { what: "blocks the event loop", weight: 0.7, fault: "event loop blocked", run: () => this.#block() },
    ];
  }

  #wait(): void {
    const world = this.#world;
    world.pending.delete(this);
    const seconds = world.pick([2, 12, 35, 70]);
    world.time.after(seconds * 1000, this.owner, `${this.what} is done`, () => this.#settle("apply"));
  }

  /** Renewals and batch-mates of the process stand still as well. */
  #block(): void {
    this.owner.freeze(this.#world.pick([8, 25, 50]));
  }

  #end(outcome: "apply" | "retry" | Error): void {
    this.#world.pending.delete(this);
    this.#settle(outcome);
  }
}

/** What passes get as services: each stands still until a move lets it go on. */
export function passServices(world: World, process: Process, undone: (pass: number) => void): Services {
  return {
    work: (id) =>
      new Promise((resolve, reject) => {
        const pass = ++world.passes;
        world.pending.add(
          new Pass(world, process, id, (outcome) =>
            outcome instanceof Error ? reject(outcome) : resolve({ how: outcome, pass }),
          ),
        );
      }),
    undone,
  };
}
