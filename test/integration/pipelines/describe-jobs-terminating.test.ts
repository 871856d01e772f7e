import { pipelines } from "../../../functions/pipelines/index.ts";
import { describePipeline } from "../../../lib/testing/index.ts";
import { described, readyRows } from "./ready-rows.ts";
import { useWorld } from "./world.ts";

const world = useWorld();
const { placed } = readyRows(world);

describePipeline(pipelines.get("jobs-terminating"), {
  ...described(world),
  rows: { terminating: () => placed({ status: "terminating", status_message: "instance 1 is gone" }) },
});
