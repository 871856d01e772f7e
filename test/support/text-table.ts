/** Columns wide enough for their longest cell, headings first; numbers to the right. */
export function textTable(headings: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  const lines = [headings, ...rows].map((row) => row.map(String));
  const widths = headings.map((_, column) => Math.max(...lines.map((line) => (line[column] ?? "").length)));
  const right = headings.map((_, column) => rows.some((row) => typeof row[column] === "number"));
  return lines
    .map((line) => line.map((cell, n) => (right[n] ? cell.padStart(widths[n]!) : cell.padEnd(widths[n]!))).join("  "))
    .map((line) => `${line.trimEnd()}\n`)
    .join("");
}
