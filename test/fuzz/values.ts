/* Values that nobody expects, and valid ones gone wrong in one place. */

import fc from "fast-check";

/** Names that mean something to JavaScript. */
const TRAPS = ["__proto__", "constructor", "prototype", "toString", "valueOf", "hasOwnProperty", "then", "length"];
/** Numbers that are hard to hold; as JSON text, as some are no number of JavaScript. */
const HARD_NUMBERS = [
  "1e999",
  "-1e999",
  "-0",
  "1e-400",
  "9007199254740993",
  "123456789012345678901234567890",
  "0.1",
  "1E2",
];
const HARD_TEXTS = [
  ...TRAPS,
  "",
  " ",
  ".",
  "..",
  "../../etc/passwd",
  "a/b",
  "\0",
  "a\0b",
  "\ud800",
  "\udfff x",
  "\ufeff",
  "\u202e\u200b",
  ":p0 $1 ? %s %00",
  "'; drop table fleets --",
  "null",
  "NaN",
  "-1",
  "00000000-0000-0000-0000-000000000000",
  "2026-02-30T25:61:61Z",
  "+275760-09-13T00:00:00.001Z",
];

const long = fc
  .tuple(fc.constantFrom("x", "é", "𝄞", "\0", '"', "\\"), fc.constantFrom(201, 256, 5_000, 40_000))
  .map(([unit, times]) => unit.repeat(times));

/** Any text, half characters and control characters too; seldom a long one. */
export const anyText: fc.Arbitrary<string> = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom(...HARD_TEXTS) },
  { weight: 4, arbitrary: fc.string({ unit: "binary", maxLength: 30 }) },
  { weight: 2, arbitrary: fc.string({ unit: "grapheme", maxLength: 30 }) },
  {
    weight: 2,
    arbitrary: fc.array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 20 }).map((u) => String.fromCharCode(...u)),
  },
  { weight: 1, arbitrary: long },
);

const hardNumber = fc.constantFrom(...HARD_NUMBERS).map((text) => ({ [RAW]: text }));
/** Stands for JSON text that no value has. */
const RAW = "\u0001raw";

/** Any JSON value; also an object with keys that mean something to JavaScript. */
export const anyValue: fc.Arbitrary<unknown> = fc.oneof(
  { weight: 5, arbitrary: anyText },
  { weight: 3, arbitrary: fc.oneof(fc.integer(), fc.double(), fc.maxSafeInteger(), hardNumber) },
  { weight: 3, arbitrary: fc.constantFrom(null, true, false, [], {}, [null], [[]], 0, -1) },
  {
    weight: 2,
    arbitrary: fc.dictionary(fc.constantFrom(...TRAPS, "v", "id"), fc.constantFrom(1, null, "x", {}), { maxKeys: 3 }),
  },
  { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 3 }) },
);

type Path = readonly (string | number)[];

function places(value: unknown, at: Path = []): Path[] {
  if (typeof value !== "object" || value === null) return [at];
  return [
    at,
    ...Object.entries(value).flatMap(([key, of]) => places(of, [...at, Array.isArray(value) ? Number(key) : key])),
  ];
}

function put(value: unknown, [first, ...rest]: Path, change: (old: unknown) => unknown): unknown {
  if (first === undefined) return change(value);
  if (Array.isArray(value)) return value.map((item, n) => (n === first ? put(item, rest, change) : item));
  const entries = Object.entries(value as object).map(([key, of]) => [key, key === first ? put(of, rest, change) : of]);
  return Object.fromEntries(entries);
}

/** A value with something else in one place, without it, or with more than belongs there. */
const wrongInOnePlace = (valid: unknown): fc.Arbitrary<unknown> =>
  fc
    .tuple(
      fc.constantFrom(...places(valid)),
      anyValue,
      fc.constantFrom(...TRAPS, "more", "id"),
      fc.integer({ min: 0, max: 3 }),
    )
    .map(([place, other, name, how]) =>
      put(valid, place, (old) => {
        if (how === 0 && typeof old === "object" && old !== null && !Array.isArray(old))
          return Object.fromEntries([...Object.entries(old), [name, other]]);
        if (how === 1 && Array.isArray(old)) return [...old, ...old, other];
        if (how === 2) return undefined;
        return other;
      }),
    );

/** JSON text of a value, in which raw numbers stand as they are. */
const jsonOf = (value: unknown): string =>
  (JSON.stringify(value) ?? "").replaceAll(/\{"\\u0001raw":"([^"]*)"\}/g, "$1");

const deep = fc
  .tuple(fc.constantFrom(["[", "]"], ['{"v":', "}"]), fc.constantFrom(100, 5_000, 20_000), fc.boolean())
  .map(([[open, close], times, closed]) => open!.repeat(times) + (closed ? `1${close!.repeat(times)}` : ""));

/** Text that stands where JSON of `valid` should: right, wrong in one place, cut off, nested deeply, or anything else. */
export function bodyLike(valid: fc.Arbitrary<unknown>, rightPercent = 15): fc.Arbitrary<string> {
  const right = valid.map(jsonOf);
  const cut = fc.tuple(right, fc.nat()).map(([text, n]) => text.slice(0, n % Math.max(1, text.length)));
  const spliced = fc
    .tuple(right, fc.nat(), fc.constantFrom("\0", "\ud800", "\\ud800", "\ufeff", '"', "}", ",", "\\u0000", " "))
    .map(([text, n, what]) => text.slice(0, n % (text.length + 1)) + what + text.slice(n % (text.length + 1)));
  const twice = right.map((text) => text.replace(/^\{(.+)\}$/s, "{$1,$1}"));
  return fc.oneof(
    { weight: rightPercent, arbitrary: right },
    { weight: 45, arbitrary: valid.chain(wrongInOnePlace).map(jsonOf) },
    { weight: 8, arbitrary: cut },
    { weight: 8, arbitrary: spliced },
    { weight: 3, arbitrary: twice },
    { weight: 1, arbitrary: deep },
    { weight: 10, arbitrary: anyValue.map(jsonOf) },
    { weight: 10, arbitrary: anyText },
  );
}

/** `count` of them from a seed, always the same. */
export const sample = <T>(of: fc.Arbitrary<T>, count: number, seed: number): readonly T[] =>
  fc.sample(of, { numRuns: count, seed });
