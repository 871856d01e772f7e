import type { Made } from "./messages.ts";
import type { Pool } from "./pool.ts";

/** What many runs came to. */
export interface Campaign {
  readonly seeds: number;
  readonly steps: number;
  readonly statements: number;
  readonly accepted: number;
  readonly faults: ReadonlyMap<string, number>;
  readonly seconds: number;
  readonly failed: readonly Made[];
}

export interface CampaignOptions {
  readonly from: number;
  readonly seeds: number;
  /** Stop after so many failing seeds. @default all are run */
  readonly mostFailures?: number;
  readonly signal?: AbortSignal;
  readonly progress?: (line: string) => void;
}

const PROGRESS_MS = 5_000;

/** Runs seeds side by side, as many as there are processes. */
export async function campaign(pool: Pool, workers: number, options: CampaignOptions): Promise<Campaign> {
  const { from, seeds, mostFailures = Number.POSITIVE_INFINITY, signal, progress = () => undefined } = options;
  const started = performance.now();
  const faults = new Map<string, number>();
  const failed: Made[] = [];
  const sum = { seeds: 0, steps: 0, statements: 0, accepted: 0 };
  let told = started;
  let next = from;
  const add = (made: Made) => {
    sum.seeds += 1;
    sum.steps += made.steps;
    sum.statements += made.statements;
    sum.accepted += made.accepted;
    for (const [kind, count] of made.faults) faults.set(kind, (faults.get(kind) ?? 0) + count);
    if (made.violations.length > 0) failed.push(made);
    const now = performance.now();
    if (now - told < PROGRESS_MS) return;
    told = now;
    progress(
      `${sum.seeds} of ${seeds} seeds, ${sum.statements} statements, ${failed.length} failed, ${perSecond(sum.seeds, now - started)} seeds/s`,
    );
  };
  const over = () => next >= from + seeds || failed.length >= mostFailures || signal?.aborted === true;
  await Promise.all(
    Array.from({ length: workers }, async () => {
      while (!over()) add(await pool.run({ seed: next++, tell: false }));
    }),
  );
  return { ...sum, faults, failed, seconds: (performance.now() - started) / 1000 };
}

export const perSecond = (n: number, ms: number): string => (n / (ms / 1000)).toFixed(1);
