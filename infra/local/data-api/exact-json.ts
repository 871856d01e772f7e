/** JSON in which a 64-bit `longValue` keeps all its digits, which the numbers of JavaScript do not. */

type Reviver = (this: unknown, key: string, value: unknown, context: { source?: string }) => unknown;
const json = JSON as unknown as {
  parse(text: string, reviver: Reviver): unknown;
  rawJSON(text: string): object;
};

/** Parses a request; a whole `longValue` becomes a bigint. SyntaxError if it is not JSON. */
export function parseRequest(text: string): unknown {
  return json.parse(text, (key, value, { source }) =>
    key === "longValue" && typeof value === "number" && source && /^-?\d+$/.test(source) ? BigInt(source) : value,
  );
}

/** A whole number of any size, to be written into an answer as it is. */
export function rawNumber(digits: string): object {
  return json.rawJSON(digits);
}
