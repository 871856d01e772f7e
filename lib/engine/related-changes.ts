import { ENGINE_COLUMNS } from "../define/columns.ts";
import type { Pipeline } from "../define/pipeline.ts";
import { MillraceError } from "../errors.ts";
import type { RelatedGroup, RequestGroup } from "../sql/touched.ts";
import { type AnyChanges, split } from "./changes.ts";
import type { Held } from "./claim.ts";

type Answered = Held & { readonly changes: AnyChanges };

interface Change {
  readonly id?: string;
  readonly set?: Readonly<Record<string, unknown>>;
  readonly delete?: true;
}

/**
 * Checks what an answer says of other rows: only rows that the pass has locked, by locks that it has; no column of the
 * engine; no wish for a row that the pass writes itself.
 * @throws LOCK_UNKNOWN, RELATED_CHANGE, PATCH_COLUMN, VALUE_UNSUPPORTED
 */
export function checkRelated(pipeline: Pipeline, held: Held, changes: AnyChanges): void {
  toRelatedGroups(pipeline, [{ ...held, changes }]);
  const locked = new Set(Object.values(held.related ?? {}).flatMap((rows) => rows.map((r) => String(r["id"]))));
  for (const { table, rows } of toRequestGroups([{ ...held, changes }]))
    for (const { id, set } of rows) {
      if (locked.has(id) || id === held.id)
        throw new MillraceError("REQUEST_OWN", { pipeline: pipeline.name, table, id });
      checkColumns(pipeline, table, set);
    }
}

/** The related rows of all answers of a batch by table: every row that a pass has locked, changed or not. */
export function toRelatedGroups(pipeline: Pipeline, answers: readonly Answered[]): readonly RelatedGroup[] {
  const groups = new Map<string, RelatedGroup["rows"][number][]>();
  for (const { id: item, token, state, related = {}, changes } of answers) {
    const given = (changes.related ?? {}) as Readonly<Record<string, Change | readonly Change[] | undefined>>;
    for (const name of Object.keys(given))
      if (related[name] === undefined)
        throw new MillraceError("LOCK_UNKNOWN", {
          name: pipeline.name,
          lock: name,
          locks: Object.keys(related).join(", "),
        });
    for (const [name, rows] of Object.entries(related)) {
      const { table, kind } = state!.locks[name]!;
      const many = kind === "children" || kind === "parents";
      const byId = changesOf(
        pipeline,
        table,
        rows.map((r) => String(r["id"])),
        given[name],
        many,
      );
      const group = groups.get(table) ?? [];
      groups.set(table, group);
      for (const [id, change] of byId) {
        const { values, nows } = split(change.set ?? {});
        checkColumns(pipeline, table, change.set ?? {});
        group.push({ item, token, id, set: values, nows, delete: change.delete === true });
      }
    }
  }
  return [...groups].map(([table, rows]) => ({ table, rows })).filter(({ rows }) => rows.length > 0);
}

function changesOf(
  { name: pipeline }: Pipeline,
  table: string,
  locked: readonly string[],
  given: Change | readonly Change[] | undefined,
  many: boolean,
): ReadonlyMap<string, Change> {
  const changes = new Map<string, Change>(locked.map((id) => [id, {}]));
  if (given === undefined) return changes;
  const list = many ? (given as readonly Change[]) : [{ ...(given as Change), id: locked[0] ?? "" }];
  for (const change of list) {
    const id = String(change.id).toLowerCase();
    const before = changes.get(id);
    if (before === undefined) throw new MillraceError("RELATED_CHANGE", { pipeline, table, id });
    changes.set(id, merged(before, change));
  }
  return changes;
}

/** What an answer says of one row in two places. */
const merged = (before: Change, { set, ...change }: Change): Change => ({
  ...before,
  ...change,
  set: { ...before.set, ...set },
});

/** What answers ask of rows that they have not locked, by table. */
export function toRequestGroups(answers: readonly Answered[]): readonly RequestGroup[] {
  const groups = new Map<string, RequestGroup["rows"][number][]>();
  for (const { id: item, token, changes } of answers)
    for (const [table, wishes] of Object.entries(
      (changes.request ?? {}) as Readonly<Record<string, readonly Change[]>>,
    )) {
      const group = groups.get(table) ?? [];
      groups.set(table, group);
      const byId = new Map<string, Change>();
      for (const wish of wishes) {
        // two wishes for one row are one write, or one of them would be lost
        const id = String(wish.id).toLowerCase();
        byId.set(id, merged(byId.get(id) ?? {}, wish));
      }
      for (const [id, { set = {} }] of byId) group.push({ item, token, id, set: split(set).values });
    }
  return [...groups].map(([table, rows]) => ({ table, rows })).filter(({ rows }) => rows.length > 0);
}

function checkColumns({ name: pipeline }: Pipeline, table: string, set: Readonly<Record<string, unknown>>): void {
  for (const column of Object.keys(set))
    if ((ENGINE_COLUMNS as readonly string[]).includes(column))
      throw new MillraceError("PATCH_COLUMN", { pipeline, table, column });
}
