// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is source text
import type { Mutation } from "../mutation.ts";
import { sql } from "../test-files.ts";

const file = "lib/sql/fetch.ts";
const test = (aspect: string) => sql(`fetch${aspect}`);

export const mutations: readonly Mutation[] = [
  {
    file,
    remove: " and t.due_at <= now() and ${freeFor(p)}${yields}`",
    by: " and ${freeFor(p)}${yields}`",
    tests: test(""),
    guard: "only due rows are fetched",
  },
  {
    file,
    remove: '`${readyAny(p, "t")} and t.due_at <= now() and ${freeFor(p)}${yields}`',
    by: "`t.due_at <= now() and ${freeFor(p)}${yields}`",
    tests: test(""),
    guard: "only ready rows are fetched",
  },
  {
    file: "lib/sql/parts.ts",
    remove: "(t.lock_expires_at is null or t.lock_expires_at < now()) and ",
    tests: test(""),
    guard: "a live lock is respected",
  },
  {
    file: "lib/sql/parts.ts",
    remove: " and (t.lock_owner is null or t.lock_owner = ${text(p.name)})`",
    by: "`",
    tests: test(""),
    guard: "another pipeline's owner is respected, its lock expired or not",
  },
  {
    file: "lib/sql/parts.ts",
    remove: "(t.lock_owner is null or t.lock_owner = ${text(p.name)})`",
    by: "t.lock_owner is null`",
    tests: test(""),
    guard: "our own owner does not shut us out",
  },
  {
    file,
    remove: "where ${eligible} order by t.due_at, t.id limit",
    by: "where ${eligible} order by t.id limit",
    tests: test(""),
    guard: "the longest due comes first",
  },
  {
    file,
    remove: "where ${eligible} order by t.due_at, t.id limit",
    by: "where ${eligible} order by t.due_at, t.id desc limit",
    tests: test(""),
    guard: "among equals the smaller id comes first",
  },
  {
    file,
    remove: "where t.id = s.id and ${eligible} for no key update skip locked",
    by: "where t.id = s.id for no key update skip locked",
    tests: test("-race"),
    guard: "the whole condition is repeated under the lock",
  },
  {
    file,
    remove: "where t.id = s.id and ${eligible} for no key update skip locked",
    by: "where t.id = s.id and ${eligible} for no key update",
    tests: test("-race"),
    guard: "a locked row is left out without waiting",
  },
  {
    file,
    remove: "and q.xmin = s.version for no key update skip locked",
    by: "and q.xmin = s.version",
    tests: test("-race"),
    guard: "one fetcher of a pipeline at a time",
  },
  {
    file,
    remove: "and q.xmin = s.version for no key update skip locked",
    by: "and q.xmin = s.version for no key update",
    tests: test("-race"),
    guard: "a second fetcher does not wait",
  },
  {
    file,
    remove: " and q.xmin = s.version for no key update",
    by: " for no key update",
    tests: test("-race"),
    guard: "a snapshot older than the last fetch is not used",
  },
];
