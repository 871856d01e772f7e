import { pipelines } from "../../../functions/pipelines/index.ts";
import { describePipeline } from "../../../lib/testing/index.ts";
import { described, readyRows } from "./ready-rows.ts";
import { useWorld } from "./world.ts";

const world = useWorld();
const { fleet, instance } = readyRows(world);
const inStatus = (status: string) => async () => instance(await fleet(), { status });

describePipeline(pipelines.get("instances"), {
  ...described(world),
  rows: {
    pending: async () => instance(await fleet(), { status: "pending", provider_id: null }),
    provisioning: inStatus("provisioning"),
    serving: inStatus("idle"),
    terminating: inStatus("terminating"),
  },
});
