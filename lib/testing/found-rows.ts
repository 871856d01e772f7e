import { sql } from "kysely";
import type { Sql } from "../sql/parts.ts";
import { text } from "../sql/parts.ts";
import { held } from "./pass.ts";

/** Rows as a fetch finds them. */
export const ROWS: readonly {
  readonly row: string;
  readonly fetched: boolean;
  readonly set?: (name: string) => Sql;
}[] = [
  { row: "due and free", fetched: true },
  { row: "given back for retry", fetched: true, set: (name) => sql`lock_owner = ${text(name)}` },
  { row: "its own, expired", fetched: true, set: (name) => held(name, crypto.randomUUID(), -1) },
  { row: "not due yet", fetched: false, set: () => sql`due_at = now() + interval '1 hour'` },
  { row: "never due", fetched: false, set: () => sql`due_at = null` },
  { row: "held", fetched: false, set: (name) => held(name, crypto.randomUUID()) },
  { row: "owned by another", fetched: false, set: () => sql`lock_owner = 'somebody-else'` },
];
