import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import { type AssemblyOptions, synthesize } from "../../infra/aws/assembly.ts";
import { type HandlerName, handlerNames } from "../../infra/aws/bundle.ts";
import type { Manifest, PipelineManifest } from "../../lib/index.ts";

// CDK's own rules take two seconds a synthesis; stages.test.ts runs them.
// Assemblies and code go to a folder of this test file's own, which goes with it.
const scratch = mkdtempSync(join(tmpdir(), "stack-test-"));
Object.assign(process.env, { CDK_VALIDATION: "false", TMPDIR: scratch });
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

/** One pipeline as the registry would describe it. */
export const volumes: PipelineManifest = {
  name: "volumes",
  table: "volumes",
  workers: 20,
  batchSize: 10,
  maxConcurrency: 2,
  processTimeoutSeconds: 60,
  functionTimeoutSeconds: 90,
};

export const manifest: Manifest = {
  pipelines: [volumes, { ...volumes, name: "jobs-running", table: "jobs", maxConcurrency: 3 }],
  fetcher: { timeoutSeconds: 60, hintBatchSize: 10, hintConcurrency: 5 },
  heartbeater: { timeoutSeconds: 90 },
};

/** A folder of code for each handler. The text makes the code, and so its hash, differ. */
export function bundlesOf(text = ""): Record<HandlerName, string> {
  const root = mkdtempSync(join(scratch, "bundles-"));
  return Object.fromEntries(
    handlerNames.map((name) => {
      const folder = join(root, name);
      mkdirSync(folder);
      writeFileSync(join(folder, "index.mjs"), `export const handler = async () => "${name}${text}";\n`);
      return [name, folder];
    }),
  ) as Record<HandlerName, string>;
}

const folders = bundlesOf();

// biome-ignore lint/suspicious/noExplicitAny: a template is whatever CloudFormation takes
export type Resource = { Type: string; Properties: any; DependsOn?: string[]; Metadata?: Record<string, string> };
export type Resources = Record<string, Resource>;

/** The resources of the template, by logical id. */
export function resourcesOf(options: Partial<AssemblyOptions> = {}): Resources {
  return synthesize({ manifest, folders, ...options }).stacks[0]!.template.Resources;
}

export function ofType(resources: Resources, type: string): [string, Resource][] {
  return Object.entries(resources).filter(([, resource]) => resource.Type === type);
}

/** The resources of a type by the name that the stack gave them. */
export function byName(resources: Resources, type: string): Record<string, Resource> {
  return Object.fromEntries(
    ofType(resources, type)
      .filter(([, { Metadata }]) => Metadata?.["millrace:name"])
      .map(([, resource]) => [resource.Metadata!["millrace:name"]!, resource]),
  );
}

/** A logical id without CDK's hashes. */
export function plain(id: string): string {
  return id.replace(/[0-9a-f]{40}$/i, "").replace(/[0-9A-F]{8}$/, "");
}

/** What a value of a template refers to, short enough to compare: `{Fn::GetAtt: [X, Arn]}` → `X.Arn`. */
export function short(value: unknown): string {
  if (typeof value === "string") return value;
  const call = value as { Ref?: string; "Fn::GetAtt"?: [string, string]; "Fn::Join"?: [string, unknown[]] };
  if (call.Ref !== undefined) return plain(call.Ref);
  if (call["Fn::GetAtt"]) return `${plain(call["Fn::GetAtt"][0])}.${call["Fn::GetAtt"][1]}`;
  if (call["Fn::Join"]) return call["Fn::Join"][1].map(short).join(call["Fn::Join"][0]);
  throw new Error(`no short form of ${JSON.stringify(value)}`);
}
