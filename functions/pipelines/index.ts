import { registry } from "../../lib/index.ts";
import { volumes } from "./volumes.ts";

/** Every pipeline of this application. */
export const pipelines = registry([volumes]);
