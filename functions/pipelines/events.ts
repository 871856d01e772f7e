import type { NewRow } from "../../lib/index.ts";
import type { Database } from "./schema.ts";

type NewEvent = NewRow<Database, "events">;

/** A row of `events`; `message` is one sentence in the past tense. */
export const event = (kind: NewEvent["kind"], { id }: { readonly id: string }, message: string): NewEvent => ({
  kind,
  subject_id: id,
  message,
});
