import { pipelines } from "../../../functions/pipelines/index.ts";
import { describePipeline } from "../../../lib/testing/index.ts";
import { described, readyRows } from "./ready-rows.ts";
import { useWorld } from "./world.ts";

const world = useWorld();
const { fleet, instance } = readyRows(world);

describePipeline(pipelines.get("fleets"), {
  ...described(world),
  rows: {
    // one instance too few: without a need it locks none
    active: async () => {
      const id = await fleet(2);
      await instance(id);
      return id;
    },
    deleting: async () => {
      const id = await fleet(1);
      await instance(id);
      await world().want("fleets", id);
      return id;
    },
  },
});
