/*
 * What an application's own tests may import. Beside `lib/index.ts`, not in it: none of this belongs in a bundle.
 */
export { explainPage, type PagePlan } from "./explain-page.ts";
