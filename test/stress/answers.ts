import type { Pipeline } from "../../lib/index.ts";
import type { ApplyItem } from "../../lib/sql/apply.ts";
import type { InsertGroup } from "../../lib/sql/insert.ts";
import type { RelatedGroup, RequestGroup } from "../../lib/sql/touched.ts";
import type { TableName } from "./pipelines.ts";
import { type Actor, type Held, rememberMember } from "./world.ts";

/** What one pass answers. */
export interface Answered {
  readonly item: ApplyItem;
  readonly related: readonly { readonly table: string; readonly row: RelatedGroup["rows"][number] }[];
  readonly requests: readonly { readonly table: string; readonly row: RequestGroup["rows"][number] }[];
  readonly inserts: InsertGroup["rows"];
  /** What it adds to `busy` of related rows, by id. */
  readonly changes: Readonly<Record<string, number>>;
}

const STATUS: Readonly<Record<TableName, readonly string[]>> = {
  bits: [],
  groups: ["active", "active", "closing"],
  members: ["idle", "idle", "idle", "gone"],
  parts: ["on", "on", "off"],
  tasks: ["waiting", "running", "running", "ending", "ending", "done"],
  things: ["active", "submitted"],
};
/** A group gets no more than about so many. */
export const MOST_MEMBERS = 5;
const COUNTED: readonly TableName[] = ["members", "parts", "things"];

/** `alone`: requests may go with it. */
export function answerOf(actor: Actor, p: Pipeline, h: Held, alone: boolean): Answered {
  const { world, random } = actor;
  const { id, token, seen, state } = h;
  const table = p.table as TableName;
  const locks = Object.entries(h.related ?? {});
  // a parent goes with all of its children, and only then
  const goes = state === "remove" || (state === "closing" && locks.length > 0);
  const leaves = goes && !world.lasting.has(id);
  const related: Answered["related"][number][] = [];
  const changes: Record<string, number> = {};
  for (const [, { table: name, children, rows }] of locks)
    for (const { id: other, busy } of rows) {
      const dies = children && !world.lasting.has(other) && (leaves || random.percent(15));
      const by = COUNTED.includes(name) && !dies && random.percent(60) ? random.pick([-1, 1]) : 0;
      if (by !== 0) changes[other] = by;
      const set = {
        ...(by === 0 ? {} : { busy: busy + by }),
        ...(random.percent(20) ? { note: token } : {}),
        ...(name !== "bits" && !children && random.percent(10) ? { status: random.pick(STATUS[name]) } : {}),
      };
      related.push({ table: name, row: { item: id, token, id: other, set, nows: [], delete: dies } });
    }
  const status = state === "closing" && random.percent(85) ? "closing" : random.pick(STATUS[table]);
  const member = table === "tasks" ? h.related?.["member"]?.rows[0]?.id : undefined;
  return {
    item: {
      id,
      token,
      seen,
      set: {
        ...random.pick<ApplyItem["set"]>([{}, { note: token }, { note: token, status }]),
        ...(member === undefined ? {} : { member_id: member }),
      },
      nows: table === "things" && random.percent(50) ? ["seen_at"] : [],
      delete: leaves,
      due: random.pick([0, 0, 0.05, 0.2, null]),
      due_by_default: random.percent(50),
      locks: locks.map(([name]) => `${state}.${name}`),
    },
    related,
    requests:
      alone && random.percent(30)
        ? wishes(
            actor,
            h,
            related.map(({ row }) => row.id),
          )
        : [],
    inserts:
      table === "groups" && !leaves && related.length < MOST_MEMBERS && random.percent(25) ? newMember(actor, h) : [],
    changes,
  };
}

/** Of rows that the pass does not write itself; some of its own table. */
function wishes({ world, random }: Actor, { id, token }: Held, own: readonly string[]): Answered["requests"] {
  const names = random.some(["groups", "members", "parts", "tasks", "things"] as const, 2);
  return names.flatMap((table) =>
    random
      .some(world.ids[table], 2)
      .filter((other) => other !== id && !own.includes(other))
      .map((other) => {
        const set = table === "things" && random.percent(30) ? { to_be_deleted: random.percent(50) } : {};
        return { table, row: { item: id, token, id: other, set } };
      }),
  );
}

function newMember({ world }: Actor, { id, token }: Held): Answered["inserts"] {
  const member = crypto.randomUUID();
  rememberMember(world, member);
  return [{ item: id, token, row: { id: member, group_id: id }, nows: [] }];
}
