import type { Mutation } from "../mutation.ts";
import { sql } from "../test-files.ts";

/* A row has an item for each of its pipelines: what becomes of one leaves the others alone. */

const tests = sql("other-items");
const guard = (what: string) => `${what} is the pipeline's own`;

export const mutations: readonly Mutation[] = [
  {
    file: "lib/sql/apply.ts",
    remove:
      "from ok join done d on d.id = ok.id and d.token = ok.token where i.item_id = d.id and i.pipeline = d.pipeline",
    by: "from ok join done d on d.id = ok.id and d.token = ok.token where i.item_id = d.id",
    tests,
    guard: guard("the item that an accepted answer ends"),
  },
  {
    file: "lib/sql/apply.ts",
    remove:
      "from back b join done d on d.id = b.id and d.token = b.token where i.item_id = d.id and i.pipeline = d.pipeline",
    by: "from back b join done d on d.id = b.id and d.token = b.token where i.item_id = d.id",
    tests,
    guard: guard("the item of an answer that is given back"),
  },
  {
    file: "lib/sql/end.ts",
    remove: "where i.item_id = m.id and i.pipeline = m.pipeline returning",
    by: "where i.item_id = m.id returning",
    tests,
    guard: guard("the item that a failure, a reset or a release ends"),
  },
  {
    file: "lib/sql/end.ts",
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is source text
    remove: "where i.item_id = m.id and i.pipeline = ${text(p.name)})`;",
    by: "where i.item_id = m.id)`;",
    tests,
    guard: guard("the item whose list of related rows is compared at the end"),
  },
  {
    file: "lib/sql/fetch.ts",
    remove: "from judged k join backed b on b.id = k.id where i.item_id = k.id and i.pipeline = k.pipeline",
    by: "from judged k join backed b on b.id = k.id where i.item_id = k.id",
    tests,
    guard: guard("the item that a fetch lets back off"),
  },
  {
    file: "lib/sql/sweep.ts",
    remove: "from orphans o where o.finished_at is null and i.item_id = o.item_id and i.pipeline = o.pipeline",
    by: "from orphans o where o.finished_at is null and i.item_id = o.item_id",
    tests,
    guard: guard("the item that a sweep ends"),
  },
  {
    file: "lib/sql/sweep.ts",
    remove: "from orphans o where o.finished_at is not null and i.item_id = o.item_id and i.pipeline = o.pipeline",
    by: "from orphans o where o.finished_at is not null and i.item_id = o.item_id",
    tests,
    guard: guard("the item that a sweep looks at no longer"),
  },
  {
    file: "lib/sql/sweep.ts",
    remove: "where i.item_id = o.item_id and i.pipeline = o.pipeline returning 1",
    by: "where i.item_id = o.item_id returning 1",
    tests,
    guard: guard("the item that a scan deletes"),
  },
  {
    file: "lib/sql/claim.ts",
    remove: "from begun m where i.item_id = m.id and i.pipeline = m.pipeline",
    by: "from begun m where i.item_id = m.id",
    tests: sql("claim"),
    guard: guard("the item that a claim begins"),
  },
];
