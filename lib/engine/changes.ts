import { type Changes, type Due, NOW } from "../define/changes.ts";
import { ENGINE_COLUMNS } from "../define/columns.ts";
import type { Pipeline, StateDefinition } from "../define/pipeline.ts";
import { MillraceError } from "../errors.ts";
import type { ApplyItem } from "../sql/apply.ts";
import type { InsertGroup } from "../sql/insert.ts";

// biome-ignore lint/suspicious/noExplicitAny: the engine knows no schema
export type AnyChanges = Changes<any, any>;

interface Holder {
  readonly id: string;
  readonly token: string;
  readonly seen: string | null;
  readonly state: StateDefinition;
  /** The related rows that the pass has locked, by lock. */
  readonly related?: Readonly<Record<string, unknown>>;
}

/** Passes over rows that were inserted together drift apart, or they come due together for ever. */
const EVERY_JITTER = 0.1;

/** An answer as the apply statement takes it. @throws PATCH_COLUMN, VALUE_UNSUPPORTED, OPTION */
export function toApplyItem(pipeline: Pipeline, holder: Holder, changes: AnyChanges, random: number): ApplyItem {
  const set = (changes.set ?? {}) as Readonly<Record<string, unknown>>;
  for (const column of Object.keys(set))
    if ((ENGINE_COLUMNS as readonly string[]).includes(column))
      throw new MillraceError("PATCH_COLUMN", { pipeline: pipeline.name, table: pipeline.table, column });
  const { values, nows } = split(set);
  const every = holder.state.everySeconds * (1 - EVERY_JITTER + 2 * EVERY_JITTER * random);
  return {
    id: holder.id,
    token: holder.token,
    set: values,
    nows,
    delete: changes.delete === true,
    due: changes.due === undefined ? every : dueSeconds(pipeline, changes.due),
    due_by_default: changes.due === undefined,
    seen: holder.seen,
    locks: Object.keys(holder.related ?? {}).map((name) => `${holder.state.name}.${name}`),
  };
}

function dueSeconds(pipeline: Pipeline, due: Due): number | null {
  if (due === null) return null;
  if (due === "now") return 0;
  if (Number.isFinite(due) && due >= 0) return due;
  throw new MillraceError("OPTION", {
    name: pipeline.name,
    option: "due",
    value: due,
    expected: 'seconds from 0, "now" or null',
  });
}

/** New rows of all answers of a batch, grouped by table and columns, so that absent columns get their defaults. */
export function toInsertGroups(
  answers: readonly { readonly id: string; readonly token: string; readonly changes: AnyChanges }[],
): readonly InsertGroup[] {
  const groups = new Map<string, { table: string; columns: readonly string[]; rows: InsertGroup["rows"][number][] }>();
  for (const { id, token, changes } of answers) {
    for (const [table, rows] of Object.entries((changes.insert ?? {}) as Record<string, readonly object[]>)) {
      for (const row of rows) {
        const { values, nows } = split(row as Readonly<Record<string, unknown>>);
        const columns = [...Object.keys(values), ...nows].sort();
        const key = `${table} ${columns.join(" ")}`;
        const group = groups.get(key) ?? { table, columns, rows: [] };
        group.rows.push({ item: id, token, row: values, nows });
        groups.set(key, group);
      }
    }
  }
  return [...groups.values()].sort((a, b) => (a.table < b.table ? -1 : 1));
}

/** What travels as values, and the columns that get the statement's instant. @throws VALUE_UNSUPPORTED */
export function split(row: Readonly<Record<string, unknown>>): { values: Record<string, unknown>; nows: string[] } {
  const values: Record<string, unknown> = {};
  const nows: string[] = [];
  for (const [column, value] of Object.entries(row)) {
    if (value === NOW) nows.push(column);
    else if (value !== undefined) values[column] = jsonValue(value);
  }
  return { values, nows };
}

/** A value as JSON that the column's own input function reads back exactly. */
function jsonValue(value: unknown): unknown {
  if (value instanceof Date) return value.toISOString();
  if (value instanceof Uint8Array) return `\\x${Buffer.from(value).toString("hex")}`;
  if (typeof value === "bigint") return value.toString();
  if (typeof value === "number" && !Number.isFinite(value)) return String(value);
  if (typeof value === "function" || typeof value === "symbol")
    throw new MillraceError("VALUE_UNSUPPORTED", { type: typeof value });
  return value;
}
