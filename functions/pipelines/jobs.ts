import { pipelinesFor } from "../../lib/index.ts";
import type { Database } from "./schema.ts";
import type { Services } from "./services.ts";

/** The vocabulary of the three pipelines over jobs. */
export const jobs = pipelinesFor<Database, Services>().on("jobs");

/** A job in one of these has something ahead of it. */
export const UNFINISHED = ["submitted", "provisioning", "running", "terminating"] as const;
