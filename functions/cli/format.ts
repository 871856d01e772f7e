import type { EngineJson, ListJson } from "../api/json.ts";

/** `2026-11-30 22:23:21 UTC (in 4 s)`; a dash when there is no such time. */
export function time(iso: string | null, now: Date): string {
  if (iso === null) return "-";
  const at = new Date(iso);
  return `${at.toISOString().slice(0, 19).replace("T", " ")} UTC (${distance(at.getTime() - now.getTime())})`;
}

/** `in 4 s`, `3 min ago`, from milliseconds ahead; the largest unit that fits, rounded down. */
export function distance(milliseconds: number): string {
  const seconds = Math.floor(Math.abs(milliseconds) / 1000);
  if (seconds === 0) return "now";
  const [unit, size] = UNITS.find(([, size]) => seconds >= size) ?? ["s", 1];
  const text = `${Math.floor(seconds / size)} ${unit}`;
  return milliseconds > 0 ? `in ${text}` : `${text} ago`;
}

const UNITS = [
  ["d", 86_400],
  ["h", 3_600],
  ["min", 60],
  ["s", 1],
] as const;

/** Columns wide enough for their longest cell, headings first. */
export function table(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [headings, ...rows];
  const widths = headings.map((_, column) => Math.max(...lines.map((line) => (line[column] ?? "").length)));
  return lines
    .map((line) => line.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  "))
    .map((line) => `${line.trimEnd()}\n`)
    .join("");
}

/** One `label  value` line for each pair. */
export function fields(pairs: readonly (readonly [label: string, value: string])[]): string {
  const width = Math.max(...pairs.map(([label]) => label.length));
  return pairs.map(([label, value]) => `${label.padEnd(width)}  ${value}\n`).join("");
}

/** A row that is held and due is being worked on; its `nextTryAt` lies in the past. */
export function nextTry({ nextTryAt, lockExpiresAt }: EngineJson, now: Date): string {
  const held = lockExpiresAt !== null && new Date(lockExpiresAt) > now;
  return held && nextTryAt !== null && new Date(nextTryAt) <= now ? "under way" : time(nextTryAt, now);
}

/** What all rows of pipelines share, for `fields`. */
export function engineFields(row: EngineJson, now: Date): readonly (readonly [label: string, value: string])[] {
  return [
    ["attempts", `${row.attempts}`],
    ["last error", row.lastError ?? "-"],
    ["next try", nextTry(row, now)],
    ["lock owner", row.lockOwner ?? "-"],
    ["lock expires", time(row.lockExpiresAt, now)],
    ["created", time(row.createdAt, now)],
    ["last processed", time(row.lastProcessedAt, now)],
  ];
}

/** A table and how to go on, or that there is nothing. */
export function pageText<T>(
  { items, nextCursor }: ListJson<T>,
  what: string,
  headings: readonly string[],
  row: (item: T) => readonly string[],
): string {
  if (items.length === 0) return `no ${what}\n`;
  const text = table(headings, items.map(row));
  return nextCursor === null ? text : `${text}more: --cursor ${nextCursor}\n`;
}
