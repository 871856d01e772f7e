import type { Hono } from "hono";
import type { Kysely } from "kysely";
import { type DataApiDatabase, type Page, paginate } from "../../lib/index.ts";
import type { Database } from "../pipelines/schema.ts";
import type { EventJson } from "./json.ts";
import { EventQuery, readQuery } from "./requests.ts";

interface EventRow {
  readonly id: string;
  readonly at: Date;
  readonly kind: EventJson["kind"];
  readonly subject_id: string;
  readonly message: string;
}

interface ListQuery {
  readonly limit: number;
  readonly cursor?: string | undefined;
  readonly direction: "asc" | "desc";
  readonly subjectId?: string | undefined;
}

/** The rows behind `/events`. @throws CURSOR_MALFORMED */
export type ListEvents = (query: ListQuery) => Promise<Page<EventRow>>;

export const createEventList =
  (database: DataApiDatabase<Database>): ListEvents =>
  ({ subjectId, ...page }) =>
    database.read("list events", (db) =>
      paginate(events(db), { table: "events", by: "at", filter: { subject_id: subjectId }, ...page }),
    );

export function events(db: Kysely<Database>) {
  return db.selectFrom("events").select(["events.id", "at", "kind", "subject_id", "message"]);
}

/** `/events`: what happened. */
export function addEventRoutes(app: Hono, list: ListEvents): void {
  app.get("/events", async (c) => {
    const { items, nextCursor } = await list(readQuery(c.req.raw, EventQuery));
    return c.json({ items: items.map(eventJson), nextCursor });
  });
}

const eventJson = ({ id, at, kind, subject_id: subjectId, message }: EventRow): EventJson => ({
  id,
  at: at.toISOString(),
  kind,
  subjectId,
  message,
});
