import { pipelines } from "../../../functions/pipelines/index.ts";
import { describePipeline } from "../../../lib/testing/index.ts";
import { described, readyRows } from "./ready-rows.ts";
import { useWorld } from "./world.ts";

const world = useWorld();
const { fleet, instance, volume, job } = readyRows(world);

describePipeline(pipelines.get("jobs-submitted"), {
  ...described(world),
  rows: {
    waiting: async () => {
      const fleetId = await fleet();
      await instance(fleetId);
      return job(fleetId, { volume_ids: [await volume(), await volume()] });
    },
    cancelled: async () => job(await fleet(), { stop_requested: true }),
  },
});
