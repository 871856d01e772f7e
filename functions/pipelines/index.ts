import { registry } from "../../lib/index.ts";
import { fleets } from "./fleets.ts";
import { instances } from "./instances.ts";
import { jobsRunning } from "./jobs-running.ts";
import { jobsSubmitted } from "./jobs-submitted.ts";
import { jobsTerminating } from "./jobs-terminating.ts";
import { volumes } from "./volumes.ts";

/** Every pipeline of this application. */
export const pipelines = registry([volumes, fleets, instances, jobsSubmitted, jobsRunning, jobsTerminating]);
