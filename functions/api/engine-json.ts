import type { EngineJson } from "./json.ts";

/** What the engine keeps with a row, and remembers of its last item; the item's columns are null before its first. */
export interface EngineRow {
  readonly due_at: Date | null;
  readonly lock_owner: string | null;
  readonly lock_expires_at: Date | null;
  readonly created_at: Date;
  readonly last_processed_at: Date;
  readonly item_state: string | null;
  readonly attempts: number | null;
  readonly last_error: string | null;
}

/** The fields that all rows of pipelines share. A row in no pipeline's state has no pass ahead, whatever its due_at says. */
export function engineJson(row: EngineRow, { passAhead }: { readonly passAhead: boolean }): EngineJson {
  return {
    attempts: row.attempts ?? 0,
    lastError: row.last_error,
    nextTryAt: passAhead ? iso(row.due_at) : null,
    lockOwner: row.lock_owner,
    lockExpiresAt: iso(row.lock_expires_at),
    createdAt: row.created_at.toISOString(),
    lastProcessedAt: row.last_processed_at.toISOString(),
  };
}

export const iso = (date: Date | null): string | null => date?.toISOString() ?? null;
