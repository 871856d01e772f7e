// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is source text
import type { Mutation } from "../mutation.ts";
import { sql } from "../test-files.ts";

const file = "lib/sql/fetch.ts";
const test = (aspect: string) => sql(`fetch${aspect}`);

export const mutations: readonly Mutation[] = [
  {
    file,
    remove: "where not exists (select 1 from again) limit",
    by: "limit",
    tests: test("-marks"),
    guard: "a repetition takes no other rows",
  },
  {
    file,
    remove: "union all select id from again) r",
    by: "union all select id from again where false) r",
    tests: test("-marks"),
    guard: "a repetition answers the same rows",
  },
  {
    file,
    remove: "where f.state = 'locked' and f.lock_token",
    by: "where f.lock_token",
    tests: test("-marks"),
    guard: "a repetition leaves out what is queued already",
  },
  {
    file,
    remove: "and i.lock_token = k.token and i.state = 'locked' and i.pipeline = k.pipeline",
    by: "and i.lock_token = k.token and i.pipeline = k.pipeline",
    tests: test("-marks"),
    guard: "a mark is for a locked item",
  },
  {
    file,
    remove: "and i.lock_token = k.token and i.state = 'locked' and i.pipeline = k.pipeline",
    by: "and i.state = 'locked' and i.pipeline = k.pipeline",
    tests: test("-marks"),
    guard: "a mark is for the item under its token",
  },
  {
    file,
    remove: " where not exists (select 1 from picked k where k.id = a.id)",
    tests: test("-marks"),
    guard: "a row that is fetched anew drops its late mark",
  },
  {
    file,
    remove: "and i.state = 'locked' and i.pipeline = k.pipeline returning 1",
    by: "and i.state = 'locked' returning 1",
    tests: test("-marks"),
    guard: "a mark is for its own pipeline",
  },
  {
    file,
    remove: "alive_until = now() + ${seconds(queueWaitSeconds(p.options))}",
    by: "alive_until = i.alive_until",
    tests: test("-marks"),
    guard: "a queued item may wait for long",
  },
];
