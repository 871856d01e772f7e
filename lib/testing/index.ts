/*
 * What an application's own tests may import. Beside `lib/index.ts`, not in it: none of this belongs in a bundle.
 */
export { describePipeline, type PipelineTests } from "./describe-pipeline.ts";
export { explainPage, type PagePlan } from "./explain-page.ts";
export type { PipelineDatabase } from "./pass.ts";
export { type Undecided, undecidedColumns } from "./undecided-columns.ts";
