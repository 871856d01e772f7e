import { MillraceError } from "../errors.ts";

/** Reads a variable that must be there. @throws ENVIRONMENT */
export function required(variable: string, environment = process.env): string {
  const value = environment[variable];
  if (value === undefined || value === "") throw new MillraceError("ENVIRONMENT", { variable, problem: "not set" });
  return value;
}

/** Reads a whole number above 0. @throws ENVIRONMENT */
export function wholeNumber(variable: string, byDefault: number, environment = process.env): number {
  const value = environment[variable];
  if (value === undefined || value === "") return byDefault;
  const number = Number(value);
  if (!Number.isSafeInteger(number) || number < 1)
    throw new MillraceError("ENVIRONMENT", { variable, problem: `${value}, but must be a whole number from 1` });
  return number;
}

/** Reads a JSON object of strings. @throws ENVIRONMENT */
export function stringMap(variable: string, environment = process.env): Readonly<Record<string, string>> {
  const text = required(variable, environment);
  try {
    const value: unknown = JSON.parse(text);
    if (
      typeof value === "object" &&
      value !== null &&
      !Array.isArray(value) &&
      Object.values(value).every((v) => typeof v === "string")
    )
      return value as Record<string, string>;
  } catch (cause) {
    throw new MillraceError("ENVIRONMENT", { variable, problem: "no JSON" }, { cause });
  }
  throw new MillraceError("ENVIRONMENT", { variable, problem: "no JSON object of strings" });
}
