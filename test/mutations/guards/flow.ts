// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is source text
import type { Mutation } from "../mutation.ts";

const unit = (name: string) => [`test/unit/engine/${name}.test.ts`];
const hinted = "lib/engine/hinted-fetch.ts";
const hint = "lib/engine/hint.ts";
const item = "lib/engine/item.ts";
const changes = "lib/engine/changes.ts";

/** Decisions of the engine that run without a database. */
export const mutations: readonly Mutation[] = [
  {
    file: hinted,
    remove: "      if (found) memory.allowance.delete(pipeline);\n",
    tests: unit("hinted-fetch"),
    guard: "only fetches in vain are held back",
  },
  {
    file: hinted,
    remove: "if (ms > 0 && ms < 2_000) await",
    by: "if (ms > 0) await",
    tests: unit("hinted-fetch"),
    guard: "a fetcher does not wait for the end of a chain of wake-ups",
  },
  {
    file: hinted,
    remove: "known.at === undefined || at === undefined ? undefined : Math.min(at, known.at)",
    by: "known.at === undefined || at === undefined ? undefined : Math.max(at, known.at)",
    tests: unit("hinted-fetch"),
    guard: "among wake-ups the earliest counts",
  },
  {
    file: hinted,
    remove: "known.at === undefined || at === undefined ? undefined",
    by: "known.at === undefined || at === undefined ? (at ?? known.at)",
    tests: unit("hinted-fetch"),
    guard: "a plain hint means now, whatever wake-ups come with it",
  },
  {
    file: hint,
    remove: "[...new Set(pipelines)].map",
    by: "[...pipelines].map",
    tests: unit("hint"),
    guard: "one hint a pipeline",
  },
  {
    file: hint,
    remove: "Math.min(MOST_DELAY_SECONDS, Math.floor(inSeconds))",
    by: "Math.floor(inSeconds)",
    tests: unit("hint"),
    guard: "no delay that the queue refuses",
  },
  {
    file: hint,
    remove: "Math.max(0, Math.min(",
    by: "Math.max(-9999, Math.min(",
    tests: unit("hint"),
    guard: "no delay below zero",
  },
  {
    file: hint,
    remove: 'typeof at !== "string" || Number.isNaN(Date.parse(at))',
    by: 'typeof at !== "string"',
    tests: unit("hint"),
    guard: "a wake-up names a time",
  },
  {
    file: hint,
    remove: "(pipeline === undefined) === (table === undefined)",
    by: "pipeline === undefined && table === undefined",
    tests: unit("hint"),
    guard: "a hint names one pipeline or one table",
  },
  {
    file: item,
    remove: "  if (v !== 1) throw",
    by: "  if (v === 99) throw",
    tests: unit("item"),
    guard: "an item message of another version is refused",
  },
  {
    file: item,
    remove: "if (!isUuid(id)) throw",
    by: "if (id === undefined) throw",
    tests: unit("item"),
    guard: "an item's id is checked",
  },
  {
    file: item,
    remove: "if (!isUuid(token)) throw",
    by: "if (token === undefined) throw",
    tests: unit("item"),
    guard: "an item's token is checked",
  },
  {
    file: item,
    remove: "id: id.toLowerCase(), token: token.toLowerCase()",
    by: "id, token",
    tests: unit("item"),
    guard: "ids and tokens are compared as PostgreSQL writes them",
  },
  {
    file: "lib/engine/key.ts",
    remove: "${id}\\n${state}\\n",
    by: "${id}\\n",
    tests: unit("key"),
    guard: "each state has keys of its own",
  },
  {
    file: changes,
    remove: "if (Number.isFinite(due) && due >= 0) return due;",
    by: "return due;",
    tests: unit("changes"),
    guard: "a due time is seconds from 0",
  },
  {
    file: changes,
    remove: 'if (typeof value === "number" && !Number.isFinite(value)) return String(value);',
    tests: unit("changes"),
    guard: "NaN and Infinity travel as such",
  },
  {
    file: changes,
    remove: 'if (typeof value === "bigint") return value.toString();',
    tests: unit("changes"),
    guard: "bigints travel exactly",
  },
  {
    file: changes,
    remove: "(1 - EVERY_JITTER + 2 * EVERY_JITTER * random)",
    by: "(1 + 0 * random)",
    tests: unit("changes"),
    guard: "passes drift apart",
  },
];
