import { ApiFailure } from "./failure.ts";

/** SQL as PostgreSQL takes it, and the name behind each `$n`, in order. */
export interface ScannedSql {
  readonly text: string;
  readonly names: readonly string[];
}

/**
 * What may not be looked into, one alternative each: quoted strings, quoted identifiers, comments, casts; and a
 * parameter. The service knows neither dollar quotes nor array slices nor `\'` nor nested comments, and so do we not:
 * `:name` in a function body is replaced, `a[1:2]` has a parameter named 2.
 */
const TOKEN = /'[^']*(?:'|$)|"[^"]*(?:"|$)|--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|::|:(\$?[\p{L}\p{N}_]+)/gu;

/** Rewrites `:name` to `$n`, one for each occurrence. ValidationException for a name outside `[A-Za-z0-9_]`. */
export function scanParameters(sql: string): ScannedSql {
  const names: string[] = [];
  const text = sql.replace(TOKEN, (token, name: string | undefined) => {
    if (name === undefined) return token;
    names.push(checkName(name));
    return `$${names.length}`;
  });
  return { text, names };
}

/** The name itself if it is one. */
export function checkName(name: string): string {
  if (/^[A-Za-z0-9_]+$/.test(name)) return name;
  throw new ApiFailure("ValidationException", `Named parameter syntax is invalid, input: ${name}`);
}
