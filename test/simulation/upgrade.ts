import { failOver } from "./calls.ts";
import type { Subject } from "./environment.ts";
import type { Functions } from "./functions.ts";
import type { World } from "./world.ts";

/**
 * A deployment in the middle of a run: the schema and the code change at different moments, in either order, and old
 * processes go on beside new ones, so that all four mixes occur.
 */
export class Upgrade {
  readonly #world: World;
  readonly #subject: Subject;
  readonly #functions: Functions;
  /** After so many steps; never, where there is no deployment. */
  readonly #codeAt: number;
  readonly #schemaAt: number;
  #schema: "old" | "new" = "old";

  constructor(world: World, subject: Subject, functions: Functions, steps: number) {
    this.#world = world;
    this.#subject = subject;
    this.#functions = functions;
    const happens = world.pick([false, true], [6, 1]);
    const at = () => (happens ? world.pick([0.2, 0.4, 0.6, 0.8]) * steps : Number.POSITIVE_INFINITY);
    this.#schemaAt = at();
    this.#codeAt = at();
  }

  get begun(): boolean {
    return Number.isFinite(this.#codeAt);
  }

  async goOn(): Promise<void> {
    const { steps } = this.#world;
    if (steps >= this.#codeAt && this.#functions.versions.length === 1) {
      this.#world.countFault("new code beside old code");
      this.#functions.versions = ["old", "new"];
    }
    // a change of the schema waits for transactions, and whatever comes after it waits for the change
    if (steps >= this.#schemaAt && this.#schema === "old" && this.#world.database.open === 0)
      await this.#changeSchema();
  }

  /** It ends before everything must come to rest. */
  async complete(): Promise<void> {
    if (!this.begun) return;
    await failOver(this.#world);
    if (this.#schema === "old") await this.#changeSchema();
    this.#functions.versions = ["new"];
  }

  async #changeSchema(): Promise<void> {
    this.#world.countFault("schema changed");
    this.#world.tell("deployment", "the schema changes");
    this.#schema = "new";
    await this.#subject.upgrade(this.#world);
  }
}
