import { expect, test } from "vitest";
import { pipelines } from "../../../functions/pipelines/index.ts";
import { undecidedColumns } from "../../../lib/testing/index.ts";
import { useWorld } from "./world.ts";

const the = useWorld();

test("somebody has decided about every column of every table whose rows are locked", async () => {
  expect(await undecidedColumns(the().api, pipelines)).toEqual([]);
});

test("a job that somebody holds loses the names of its fleet and its instance when these go", async () => {
  const fleet = await the().fleet(0);
  const job = await the().job(fleet);
  await the().sql("update jobs set lock_token = gen_random_uuid() where id = $1", [job]);
  await the().sql("delete from fleets where id = $1", [fleet]);
  expect(await the().row("jobs", job)).toMatchObject({ fleet_id: null });
});
