import type { Generated } from "kysely";
import type { Intent, PipelineColumns } from "../../lib/index.ts";

/** A disk at the cloud, wanted by somebody. */
interface Volume extends PipelineColumns {
  id: Generated<string>;
  name: string;
  size_gb: number;
  status: Generated<"submitted" | "active">;
  status_message: string | null;
  /** Somebody wants it gone; the row goes when the cloud has nothing of it any more. */
  to_be_deleted: Intent<boolean>;
  /** The cloud's id of it; null until the creation was applied. */
  provider_id: string | null;
  activated_at: Date | null;
}

export interface Database {
  volumes: Volume;
}
