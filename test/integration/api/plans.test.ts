import { sql } from "kysely";
import { beforeAll, describe, expect, test } from "vitest";
import { events } from "../../../functions/api/event-routes.ts";
import { fleets } from "../../../functions/api/fleet-rows.ts";
import { instances } from "../../../functions/api/instance-rows.ts";
import { jobs } from "../../../functions/api/job-rows.ts";
import { JOB_STATUSES } from "../../../functions/api/requests.ts";
import { volumes } from "../../../functions/api/volume-rows.ts";
import { explainPage } from "../../../lib/testing/index.ts";
import { useApi } from "./running-api.ts";

const api = useApi();
const ID = "6a1f7c1e-8c0e-4a52-9d0f-0f0e6c9a1b2d";
const db = () => api().database.kysely;

/** What a page shows of items is looked up row by row once there are some; of a few the planner takes all. */
beforeAll(async () => {
  await api().admin(`insert into millrace.items (item_id, pipeline, state)
    select gen_random_uuid(), p, 'applied' from generate_series(1, 2000), unnest('{volumes,fleets,instances}'::text[]) p`);
  await api().admin("insert into fleets (name, nodes) select 'f' || n, 0 from generate_series(1, 2000) n");
  await api().admin("analyze millrace.items, fleets");
});

describe("every page of a list costs its own rows only", () => {
  test.each([
    [{}, "volumes_newest"],
    [{ name: "data" }, "volumes_newest_by_name"],
  ])("volumes with %j", async (filter, index) => {
    expect(await explainPage(db(), volumes(db()), { table: "volumes", filter })).toEqual({ index });
  });

  test("fleets", async () => {
    expect(await explainPage(db(), fleets(db()), { table: "fleets" })).toEqual({ index: "fleets_newest" });
  });

  test("fleets of a name: there is one at most, found by the index that makes it unique", async () => {
    const named = fleets(db()).where("name", "=", "f7").orderBy("fleets.created_at", "desc").orderBy("fleets.id");
    const plan = JSON.stringify(await named.limit(11).explain("json", sql`costs off`));
    expect(plan).toContain('"fleets_name_key"');
    expect(plan).not.toContain('"fleets_newest"');
  });

  test("instances of a fleet", async () => {
    const plan = await explainPage(db(), instances(db()), { table: "instances", filter: { fleet_id: ID } });
    expect(plan).toEqual({ index: "instances_newest_of_fleet" });
  });

  test.each([
    [{}, "jobs_newest"],
    [{ fleet_id: ID }, "jobs_newest_of_fleet"],
    ...JOB_STATUSES.map((status) => [{ status }, "jobs_newest_by_status"] as const),
    [{ fleet_id: ID, status: "done" as const }, "jobs_newest_of_fleet_by_status"],
  ] as const)("jobs with %j", async (filter, index) => {
    expect(await explainPage(db(), jobs(db()), { table: "jobs", filter })).toEqual({ index });
  });

  test.each(["asc", "desc"] as const)("events, %s", async (direction) => {
    const list = { table: "events", by: "at", direction } as const;
    expect(await explainPage(db(), events(db()), list)).toEqual({ index: "events_newest" });
    expect(await explainPage(db(), events(db()), { ...list, filter: { subject_id: ID } })).toEqual({
      index: "events_newest_of_subject",
    });
  });
});

test.each([
  ["active", "volumes_newest_by_status"],
  ["failed", "volumes_newest_by_status"],
  ["deleting", "volumes_newest_deleting"],
] as const)("volumes that are %s are read by status", async (status, index) => {
  expect(await explainPage(db(), volumes(db(), status), { table: "volumes" })).toEqual({ index });
});

test("of volumes that are submitted a page drops those that were given up, and no others", async () => {
  const plan = explainPage(db(), volumes(db(), "submitted"), { table: "volumes" });
  const problem = expect.stringMatching(/^reads rows only to drop them: \(i\.state IS DISTINCT FROM 'dead'::text\)$/);
  await expect(plan).rejects.toMatchObject({ code: "PAGE_INDEX", details: { problem } });
});
