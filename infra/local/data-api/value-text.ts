import { ApiFailure } from "./failure.ts";
import type { Travels } from "./pg-types.ts";

/** PostgreSQL's text of a value as the service words it. */
export function serviceText(travels: Travels, text: string): string {
  switch (travels) {
    case "date":
      return finite(text);
    case "time":
    case "timestamp":
      return padFraction(finite(text));
    case "timestamptz":
      return padFraction(withoutOffset(finite(text)));
    case "jsonb":
      return compactJson(text);
    default:
      return text;
  }
}

function finite(text: string): string {
  // The service breaks on these, without a message.
  if (text === "infinity" || text === "-infinity") throw new ApiFailure("InternalFailure");
  return text;
}

/** No fraction, three digits or six. */
function padFraction(text: string): string {
  return text.replace(/\.(\d+)/, (_, digits: string) => `.${digits.padEnd(digits.length > 3 ? 6 : 3, "0")}`);
}

/** The wall clock in UTC, its offset dropped. */
function withoutOffset(text: string): string {
  const match = /^(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(\.\d+)?([+-])(\d\d)(?::(\d\d))?(?::(\d\d))?$/.exec(text);
  if (!match) return text.replace(/\+00(?= BC$|$)/, "");
  const [, year, month, day, hour, minute, second, fraction = "", sign, ...offset] = match;
  const seconds = offset.reduce((sum, part) => sum * 60 + Number(part ?? 0), 0);
  if (seconds === 0) return text.slice(0, text.lastIndexOf(sign as string));
  const wall = Date.UTC(Number(year), Number(month) - 1, Number(day), Number(hour), Number(minute), Number(second));
  const utc = new Date(wall - (sign === "-" ? -seconds : seconds) * 1000);
  return utc.toISOString().slice(0, 19).replace("T", " ") + fraction;
}

/** jsonb without the blanks that PostgreSQL prints after `:` and `,`. */
export function compactJson(text: string): string {
  return text.replace(/"(?:[^"\\]|\\.)*"|\s+/g, (part) => (part.startsWith('"') ? part : ""));
}
