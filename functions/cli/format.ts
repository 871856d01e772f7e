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
