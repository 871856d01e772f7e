// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is source text
import type { Mutation } from "../mutation.ts";
import { sql } from "../test-files.ts";

const file = "lib/sql/fetch.ts";
const test = (aspect: string) => sql(`fetch${aspect}`);

export const mutations: readonly Mutation[] = [
  {
    file,
    remove: "f.state in ('locked', 'queued') and f.alive_until > now()",
    by: "f.state = 'queued' and f.alive_until > now()",
    tests: test("-room"),
    guard: "locked items take room",
  },
  {
    file,
    remove: "f.state in ('locked', 'queued') and f.alive_until > now()",
    by: "f.state = 'locked' and f.alive_until > now()",
    tests: test("-room"),
    guard: "queued items take room",
  },
  {
    file,
    remove: "f.state in ('locked', 'queued') and f.alive_until > now()",
    by: "f.alive_until > now()",
    tests: test("-room"),
    guard: "items in process take none",
  },
  {
    file,
    remove: " and f.alive_until > now())",
    by: ")",
    tests: test("-room"),
    guard: "items whose time is over take none",
  },
  {
    file,
    remove: "where i.pipeline = ${name} and i.finished_at is null),\nagain",
    by: "where i.finished_at is null),\nagain",
    tests: test("-room"),
    guard: "another pipeline's items take none",
  },
  {
    file,
    remove: "where i.pipeline = ${name} and i.finished_at is null),\nagain",
    by: "where i.pipeline = ${name}),\nagain",
    tests: test("-room"),
    guard: "finished items take none",
  },
  {
    file,
    remove: "limit greatest(coalesce((select n from room), 0), 0))",
    by: "limit (select n from room))",
    tests: test("-room"),
    guard: "no room is not the same as no limit",
  },
  {
    file,
    remove: "limit greatest(coalesce((select n from room), 0), 0))",
    by: "limit coalesce((select n from room), 0))",
    tests: test("-room"),
    guard: "less than no room is none",
  },
  {
    file,
    remove: " as n from p\n  where p.paused_at is null)",
    by: " as n from p)",
    tests: test("-room"),
    guard: "a paused pipeline takes nothing",
  },
  {
    file,
    remove: ", drain = coalesce((select n from room), 0) - (select count(*) from taken) <= 0",
    tests: test("-room"),
    guard: "a full queue asks for the next fetch",
  },
  {
    file,
    remove: "(select n from room), 0) - (select count(*) from taken) <= 0",
    by: "(select n from room), 0) <= 0",
    tests: test("-room"),
    guard: "so does a fetch that fills it",
  },
  {
    file,
    remove: "where q.name = p.name and p.paused_at is null and",
    by: "where q.name = p.name and",
    tests: test("-room"),
    guard: "a paused fetch leaves the mark alone",
  },
  {
    file,
    remove: "and p.paused_at is null and not exists (select 1 from again))",
    by: "and p.paused_at is null)",
    tests: test("-room"),
    guard: "a repetition leaves the mark alone",
  },
];
