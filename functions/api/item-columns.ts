/** The engine's memory of items, as far as the API needs it. */
export type WithItems = {
  "millrace.items": {
    item_id: string;
    pipeline: string;
    state: string;
    attempts: number;
    last_error: string | null;
  };
};

/** What a row shows of its item, `i`. */
export const ITEM_COLUMNS = ["i.state as item_state", "i.attempts", "i.last_error"] as const;

/** The engine's columns that a row shows. */
export const ENGINE_COLUMNS = ["due_at", "lock_owner", "lock_expires_at", "created_at", "last_processed_at"] as const;
