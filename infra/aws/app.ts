import { pipelines } from "../../functions/pipelines/index.ts";
import { MillraceError } from "../../lib/index.ts";
import { synthesize } from "./assembly.ts";
import { bundleHandlers } from "./bundle.ts";
import { InfraError } from "./errors.ts";

try {
  using bundles = bundleHandlers();
  synthesize({ manifest: pipelines.manifest, folders: bundles.folders });
} catch (error) {
  // What a coded error says is all that is needed; any other is a defect, shown whole.
  if (!(error instanceof InfraError || error instanceof MillraceError)) throw error;
  console.error(error.message);
  process.exitCode = 1;
}
