import {
  createHints,
  createOperator,
  createWriter,
  type DataApiDatabase,
  type HintQueue,
  type Registry,
} from "../../lib/index.ts";
import type { Cloud } from "../cloud/cloud.ts";
import type { Database } from "../pipelines/schema.ts";
import type { ApiPorts } from "./app.ts";
import { createEventList } from "./event-routes.ts";
import { createFleetRows } from "./fleet-rows.ts";
import { createInstanceRows } from "./instance-rows.ts";
import { createJobRows } from "./job-rows.ts";
import { createPipelineControl } from "./pipeline-control.ts";
import { createVolumeRows } from "./volume-rows.ts";

export interface ApiParts {
  readonly database: DataApiDatabase<Database>;
  readonly registry: Registry;
  readonly hintQueue: HintQueue;
  readonly cloud: () => Cloud;
  readonly logError: ApiPorts["logError"];
}

/** Everything the API works with, over one database. */
export function createApiPorts({ database, registry, hintQueue, cloud, logError }: ApiParts): ApiPorts {
  const writer = createWriter<Database>({ database, registry, hints: hintQueue });
  const hints = createHints(registry, hintQueue);
  const operator = createOperator({ database, registry, hints: hintQueue });
  return {
    volumes: createVolumeRows({ database, writer, hints }),
    fleets: createFleetRows({ database, writer, hints }),
    instances: createInstanceRows({ database, writer }),
    jobs: createJobRows({ database, writer, hints }),
    events: createEventList(database),
    pipelines: createPipelineControl({ database, registry, operator, hints }),
    cloud,
    logError,
  };
}
