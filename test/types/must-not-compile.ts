import type { Generated } from "kysely";
import { createWriter, type Intent, NOW, type PipelineColumns, pipelinesFor, type Writer } from "../../lib/index.ts";

/* Each line below an expected error compiles if a type is loosened, and then this file does not. */

interface Box extends PipelineColumns {
  id: Generated<string>;
  status: "new" | "done";
  size: number;
  ends_at: Date | null;
  wanted: Intent<boolean>;
}
interface Event {
  id: Generated<string>;
  at: Date;
  message: string;
}
interface Schema {
  boxes: Box;
  events: Event;
}

const app = pipelinesFor<Schema, { readonly clock: () => number }>();
// @ts-expect-error events has no pipeline columns
app.on("events");

const { state } = app.on("boxes");
const ready: Parameters<typeof state>[0]["ready"] = (eb) => eb("status", "=", "new");

// @ts-expect-error not a status
state({ ready: (eb) => eb("status", "=", "nope"), process: ({ apply }) => apply({}) });
// @ts-expect-error not a status
state({ ready, process: ({ apply }) => apply({ set: { status: "gone" } }) });
// @ts-expect-error no such column
state({ ready, process: ({ apply }) => apply({ set: { statuss: "done" } }) });
// @ts-expect-error the engine owns the lock columns
state({ ready, process: ({ apply }) => apply({ set: { lock_token: null } }) });
// @ts-expect-error due_at is set by due
state({ ready, process: ({ apply }) => apply({ set: { due_at: null } }) });
// @ts-expect-error NOW fits dates only
state({ ready, process: ({ apply }) => apply({ set: { size: NOW } }) });
// @ts-expect-error a new row lacks its message
state({ ready, process: ({ apply }) => apply({ insert: { events: [{ at: NOW }] } }) });
// @ts-expect-error no such service
state({ ready, process: ({ apply }, { cloud }) => apply({ due: cloud }) });
// @ts-expect-error an answer is apply() or retry()
state({ ready, process: () => undefined });
// @ts-expect-error load can only read
state({ ready, load: (db) => db.deleteFrom("events").execute(), process: ({ apply }) => apply({}) });

const writer: Writer<Schema> = createWriter<Schema>({} as never);
// @ts-expect-error status is no intent column
writer.request("boxes", "1", { status: "done" });
// @ts-expect-error nobody processes events
writer.request("events", "1", {});
writer.request("boxes", "1", { wanted: true });
writer.request("boxes", "1", {}, { insert: { events: [{ at: NOW, message: "m" }] } });
// @ts-expect-error nobody processes events
writer.update("events", "1", {});
// @ts-expect-error not a status
writer.update("boxes", "1", { status: "gone" });
// @ts-expect-error the engine owns the lock columns
writer.update("boxes", "1", { lock_token: null });
// @ts-expect-error a new row lacks its message
writer.update("boxes", "1", {}, { insert: { events: [{ at: NOW }] } });
// @ts-expect-error a new row lacks its message
writer.emit("events", [{ at: NOW }]);
writer.update("boxes", "1", { status: "done", ends_at: NOW }).then(({ size }) => size + 1);
writer.withLock("boxes", ["1"], { waitSeconds: 1 }, async ([box], held) => {
  // @ts-expect-error there may be none
  box.size;
  // @ts-expect-error not a status
  await held.update("1", { status: "gone" });
  return (await held.update("1", { size: 2 })).size + 1;
});
writer.withUniqueName("boxes", "b", (tx) => tx.selectFrom("boxes").select("id").execute());

state({
  ready,
  load: async (db, { row }) => ({
    twins: await db.selectFrom("boxes").select("id").where("size", "=", row.size).execute(),
  }),
  process: ({ extra, apply }) => apply({ set: { ends_at: NOW, size: extra.twins.length }, due: "now" }),
});
