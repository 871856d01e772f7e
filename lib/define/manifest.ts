import { FUNCTION_MARGIN_SECONDS, maxConcurrency } from "./options.ts";
import type { Pipeline } from "./pipeline.ts";

/** What the infrastructure needs to know of one pipeline. */
export interface PipelineManifest {
  readonly name: string;
  readonly table: string;
  readonly workers: number;
  readonly batchSize: number;
  /** Functions at once: the event source's MaximumConcurrency. */
  readonly maxConcurrency: number;
  readonly processTimeoutSeconds: number;
  readonly functionTimeoutSeconds: number;
}

/** Plain data: what to deploy for a registry. */
export interface Manifest {
  readonly pipelines: readonly PipelineManifest[];
  readonly fetcher: {
    readonly timeoutSeconds: number;
    readonly hintBatchSize: number;
    readonly hintConcurrency: number;
  };
  readonly heartbeater: { readonly timeoutSeconds: number };
}

export function manifestOf(pipelines: readonly Pipeline[]): Manifest {
  return {
    pipelines: pipelines.map(({ name, table, options }) => ({
      name,
      table,
      workers: options.workers,
      batchSize: options.batchSize,
      maxConcurrency: maxConcurrency(options),
      processTimeoutSeconds: options.processTimeoutSeconds,
      functionTimeoutSeconds: options.processTimeoutSeconds + FUNCTION_MARGIN_SECONDS,
    })),
    fetcher: { timeoutSeconds: 60, hintBatchSize: 10, hintConcurrency: 5 },
    heartbeater: { timeoutSeconds: 90 },
  };
}
