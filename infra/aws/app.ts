import { pipelines } from "../../functions/pipelines/index.ts";
import { synthesize } from "./assembly.ts";
import { bundleHandlers } from "./bundle.ts";

using bundles = bundleHandlers();
synthesize({ manifest: pipelines.manifest, folders: bundles.folders });
