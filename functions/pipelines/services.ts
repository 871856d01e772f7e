import type { Cloud } from "../cloud/cloud.ts";

/** What the pipelines of this application work with; made once per cold start. */
export interface Services {
  readonly cloud: Cloud;
}
