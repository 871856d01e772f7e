import { join } from "node:path";
import { inspect } from "node:util";
import { createVitest, type Vitest } from "vitest/node";
import type { Mutation } from "./mutation.ts";
import { type Outcome, outcomeOf } from "./outcome.ts";
import type { SourceCopy } from "./source-copy.ts";

/** The tests that mutations name. One Vitest runs them all, so that the test database is started once. */
export class NamedTests implements AsyncDisposable {
  readonly #vitest: Vitest;
  readonly #copy: SourceCopy;

  private constructor(vitest: Vitest, copy: SourceCopy) {
    this.#vitest = vitest;
    this.#copy = copy;
  }

  static async start(copy: SourceCopy): Promise<NamedTests> {
    const config = join(copy.root, "test/vitest.config.ts");
    const options = { root: copy.root, config, watch: false, bail: 1, reporters: [{}] };
    return new NamedTests(await createVitest("test", options), copy);
  }

  /** Only a test that passes on the whole source can catch anything. @throws where one fails */
  async mustPass(mutations: readonly Mutation[]): Promise<void> {
    const files = [...new Set(mutations.flatMap((m) => m.tests))];
    console.log(`${mutations.length} mutations; first their ${files.length} test files, with nothing taken out …`);
    const unchanged = await this.#run(files);
    if (unchanged.kind !== "survived") throw new Error(`tests fail without any mutation: ${inspect(unchanged)}`);
  }

  /** What they say while the mutation's guard is missing. */
  async try(mutation: Mutation): Promise<Outcome> {
    try {
      return await this.#copy.without(
        mutation,
        () => this.of(mutation),
        (path) => this.changed(path),
      );
    } catch (error) {
      return { kind: "error", why: String(error) };
    }
  }

  /** What they say of the copy as it stands. */
  of({ tests }: Mutation): Promise<Outcome> {
    return this.#run(tests);
  }

  /** A file of the copy was written. */
  changed(path: string): void {
    this.#vitest.invalidateFile(path);
  }

  async #run(tests: readonly string[]): Promise<Outcome> {
    const vitest = this.#vitest;
    const specifications = await vitest.globTestSpecifications([...tests]);
    const { testModules, unhandledErrors } = await vitest.runTestSpecifications(specifications);
    const cases = testModules.flatMap((module) => [...module.children.allTests()]);
    const failed = cases.find((c) => c.result().state === "failed");
    const errors = [...testModules.flatMap((module) => module.errors()), ...unhandledErrors].map((e) => inspect(e));
    // `bail` counts what has ever failed
    for (const { project, moduleId } of specifications) vitest.state.clearFiles(project, [moduleId]);
    if (failed === undefined) {
      if (errors.length > 0) return { kind: "error", why: errors.join("\n") };
      return cases.length > 0 ? { kind: "survived" } : { kind: "error", why: "no test ran" };
    }
    const message = (failed.result().errors ?? []).map((error) => error.message).join("\n");
    return outcomeOf(message, failed.fullName);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#vitest.close();
  }
}
