import type { Migration } from "kysely";
import { createVolumes } from "./0001-volumes.ts";

/** The application's migrations, by name; they run in this order, each once. */
export const migrations: Readonly<Record<string, Migration>> = {
  "0001_volumes": createVolumes,
};
