import { type PipelineOptions, type Registry, registry, type StateSpec, type TypedPipeline } from "../../lib/index.ts";
import { check, provision, remove, type Schema, things } from "./engine.ts";

// biome-ignore lint/suspicious/noExplicitAny: each test loads what it likes
type Pass = Partial<Omit<StateSpec<Schema, "things", any, any, any>, "ready">>;

/** The pipelines of the tests' database with code of the test's own in their states. */
export function passes(
  { provision: ofProvision = {}, check: ofCheck = {}, remove: ofRemove = {} }: Passes,
  options: PipelineOptions = {},
  more: readonly TypedPipeline<unknown>[] = [],
): Registry<unknown> {
  const states = {
    provision: things.state({ ...provision.spec, ...ofProvision }),
    remove: things.state({ ...remove.spec, ...ofRemove }),
  };
  return registry<unknown>([
    things.pipeline("things", states, { workers: 20, maxAttempts: 5, ...options }),
    things.pipeline("checks", { check: things.state({ ...check.spec, ...ofCheck }) }, { workers: 4 }),
    ...more,
  ]);
}

export interface Passes {
  readonly provision?: Pass;
  readonly check?: Pass;
  readonly remove?: Pass;
}
