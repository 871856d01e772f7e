import { beforeEach } from "vitest";
import { createLocalCloud } from "../../../functions/cloud/local.ts";
import { pipelines } from "../../../functions/pipelines/index.ts";
import { describePipeline } from "../../../lib/testing/index.ts";
import { useApi } from "../api/running-api.ts";
import { type RunningCloud, runCloud } from "../cloud/running.ts";

const api = useApi();
let running: RunningCloud;
beforeEach(async () => {
  running = await runCloud();
});

const volume = async (columns = "default, default") => {
  const [row] = await api().sql(
    `insert into volumes (name, size_gb, status, to_be_deleted) values ('data', 1, ${columns}) returning id`,
  );
  return row!["id"] as string;
};

describePipeline(pipelines.get("volumes"), {
  database: () => api().database,
  registry: pipelines,
  services: () => ({ cloud: createLocalCloud(running.cloud.url) }),
  clear: async () => void (await api().sql("truncate volumes cascade")),
  rows: {
    submitted: () => volume(),
    deleting: () => volume("'active', true"),
  },
});
