import { ApiFailure } from "./failure.ts";

/** The hints that make a string parameter something other than text. */
export const TYPE_HINTS = ["JSON", "UUID", "TIMESTAMP", "DATE", "TIME", "DECIMAL"] as const;
export type TypeHint = (typeof TYPE_HINTS)[number];

const DAY = String.raw`(\d{4})-(\d\d)-(\d\d)`;
const CLOCK = String.raw`([01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,3})?`;
const FORMATS: Record<Exclude<TypeHint, "JSON">, RegExp> = {
  UUID: /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i,
  TIMESTAMP: new RegExp(`^${DAY} ${CLOCK}$`),
  DATE: new RegExp(`^${DAY}$`),
  TIME: new RegExp(`^${CLOCK}$`),
  DECIMAL: /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i,
};
const NOUN: Record<TypeHint, string> = {
  JSON: "JSON",
  UUID: "UUID",
  TIMESTAMP: "date or time",
  DATE: "date or time",
  TIME: "date or time",
  DECIMAL: "decimal",
};

/**
 * Refuses a string that is not in the format its hint prescribes: dates as `YYYY-MM-DD`, times as `HH:MM:SS[.FFF]`,
 * timestamps as both with a blank between (so no `T`, no `Z`, no offset, no microseconds).
 */
export function checkHint(hint: TypeHint, value: string): void {
  if (!fits(hint, value)) throw new ApiFailure("BadRequestException", `Cannot parse ${NOUN[hint]} "${value}"`);
}

function fits(hint: TypeHint, value: string): boolean {
  if (hint === "JSON") return isJson(value);
  const match = FORMATS[hint].exec(value);
  if (!match || (hint !== "DATE" && hint !== "TIMESTAMP")) return match !== null;
  const [year, month, day] = match.slice(1, 4).map(Number) as [number, number, number];
  const date = new Date(Date.UTC(2000, month - 1, day));
  date.setUTCFullYear(year, month - 1, day);
  return date.getUTCMonth() === month - 1 && date.getUTCDate() === day;
}

function isJson(value: string): boolean {
  try {
    JSON.parse(value);
    return true;
  } catch {
    return false;
  }
}
