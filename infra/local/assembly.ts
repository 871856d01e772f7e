/* The cloud assembly: what CDK synthesizes, run as `cdk` would run it and read from its files. */

import { spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { LocalError } from "./errors.ts";
import { ROOT } from "./state.ts";
import type { Template } from "./template.ts";

export interface Assembly {
  readonly stackName: string;
  readonly template: Template;
  /** The unpacked folder of an asset, by the key it would have in the bucket (`<hash>.zip`). Throws ASSEMBLY_INCOMPLETE. */
  assetFolder(key: string): string;
}

export interface SynthesizeOptions {
  /** Folder for the assembly; what is in it goes. */
  readonly outdir: string;
  /** The app, run by this Node. Default: the one in cdk.json's place. */
  readonly app?: string;
  /** Default: the app's own, `dev`. */
  readonly stage?: string;
  /** Ends the synthesis early. */
  readonly signal?: AbortSignal;
}

/**
 * Synthesizes the app and reads what came out. Needs no account, no credentials and no network. CDK's own rules are left
 * to `npm run synth`: they take two seconds and change nothing. Throws SYNTH_FAILED.
 */
export async function synthesize({ outdir, app, stage, signal }: SynthesizeOptions): Promise<Assembly> {
  rmSync(outdir, { recursive: true, force: true });
  const child = spawn(process.execPath, [app ?? join(ROOT, "infra/aws/app.ts")], {
    cwd: ROOT,
    env: {
      PATH: process.env["PATH"],
      HOME: process.env["HOME"],
      TMPDIR: process.env["TMPDIR"],
      CDK_OUTDIR: outdir,
      CDK_VALIDATION: "false",
      ...(stage === undefined ? {} : { MILLRACE_STAGE: stage }),
    },
    stdio: ["ignore", "pipe", "pipe"],
    ...(signal ? { signal } : {}),
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
  const outcome = await new Promise<string | undefined>((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("exit", (code, by) => resolve(code === 0 ? undefined : by ? `signal ${by}` : `code ${code}`));
  });
  if (outcome !== undefined) throw new LocalError("SYNTH_FAILED", { outcome, output: output.trim() });
  return readAssembly(outdir);
}

interface AssetManifest {
  readonly files: Readonly<Record<string, { readonly source: { readonly path: string; readonly packaging: string } }>>;
}

/** Reads an assembly that is there. Several stacks are read as one. Throws ASSEMBLY_INCOMPLETE. */
export function readAssembly(outdir: string): Assembly {
  const names = existsSync(outdir) ? readdirSync(outdir).filter((name) => name.endsWith(".template.json")) : [];
  if (names.length === 0) throw new LocalError("ASSEMBLY_INCOMPLETE", { dir: outdir, what: "a template" });
  const read = (name: string) => JSON.parse(readFileSync(join(outdir, name), "utf8"));
  const manifests = readdirSync(outdir).filter((name) => name.endsWith(".assets.json"));
  const assets = Object.assign(
    {},
    ...manifests.map((name) => (read(name) as AssetManifest).files),
  ) as AssetManifest["files"];
  return {
    stackName: names[0]!.replace(/\.template\.json$/, ""),
    template: merge(names.map(read)),
    assetFolder(key) {
      const hash = key.replace(/\.zip$/, "");
      const source = assets[hash]?.source;
      const folder = source ? join(outdir, source.path) : "";
      if (!source || !existsSync(folder))
        throw new LocalError("ASSEMBLY_INCOMPLETE", { dir: outdir, what: `asset ${hash}` });
      return folder;
    },
  };
}

function merge(templates: readonly Template[]): Template {
  const all = <K extends keyof Template>(key: K) => Object.assign({}, ...templates.map((each) => each[key] ?? {}));
  const Resources = all("Resources");
  const count = templates.reduce((sum, each) => sum + Object.keys(each.Resources ?? {}).length, 0);
  if (Object.keys(Resources).length < count) {
    const what = "two stacks have a resource of the same logical id";
    throw new LocalError("TEMPLATE_UNRESOLVED", { path: "Resources", what });
  }
  const rest = { Parameters: all("Parameters"), Conditions: all("Conditions"), Mappings: all("Mappings") };
  return { Resources, ...rest, Outputs: all("Outputs") };
}
