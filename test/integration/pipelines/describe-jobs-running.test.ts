import { pipelines } from "../../../functions/pipelines/index.ts";
import { describePipeline } from "../../../lib/testing/index.ts";
import { described, readyRows } from "./ready-rows.ts";
import { useWorld } from "./world.ts";

const world = useWorld();
const { placed } = readyRows(world);

describePipeline(pipelines.get("jobs-running"), {
  ...described(world),
  rows: {
    preparing: () => placed({ status: "provisioning" }),
    starting: () => placed({ status: "provisioning", command_key: crypto.randomUUID() }),
    running: async () => {
      const id = await placed({ status: "running" });
      const { instance_id } = await world().row("jobs", id);
      const { provider_id: instanceId } = await world().row("instances", instance_id);
      const { signal } = new AbortController();
      const command = await world().cloud.runCommand(
        { key: id, instanceId, command: ["true"], volumes: [] },
        { signal },
      );
      await world().sql("update jobs set command_id = $1, started_at = now() where id = $2", [command.id, id]);
      return id;
    },
  },
});
