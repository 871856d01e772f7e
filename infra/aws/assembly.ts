import { readFileSync } from "node:fs";
import { App } from "aws-cdk-lib";
import * as lambda from "aws-cdk-lib/aws-lambda";
import type { CloudAssembly } from "aws-cdk-lib/cx-api";
import type { Manifest } from "../../lib/index.ts";
import { type Settings, settingsOf } from "../settings.ts";
import { type HandlerName, handlerNames } from "./bundle.ts";
import { checkTemplate } from "./check-template.ts";
import { MillraceStack } from "./stack.ts";

export interface AssemblyOptions {
  readonly manifest: Manifest;
  /** The folder with each handler's bundle. */
  readonly folders: Readonly<Record<HandlerName, string>>;
  /** Default: those of the stage, which is context `stage`, else MILLRACE_STAGE, else `dev`. */
  readonly settings?: Settings;
  /** Added to the context of cdk.json. */
  readonly context?: Readonly<Record<string, unknown>>;
  /** The place for overrides of single resources. */
  readonly change?: (stack: MillraceStack) => void;
}

/**
 * Builds the app, writes the cloud assembly and checks the template that came out, overrides included.
 * It reads cdk.json itself, so that the template is the same with and without the CDK command line.
 */
export function synthesize(options: AssemblyOptions): CloudAssembly {
  const { context } = JSON.parse(readFileSync(new URL("../../cdk.json", import.meta.url), "utf8"));
  const app = new App({ context: { ...context, ...options.context }, autoSynth: false });
  const { MILLRACE_STAGE } = process.env;
  const stage = app.node.tryGetContext("stage") ?? MILLRACE_STAGE ?? "dev";
  const settings = options.settings ?? settingsOf(stage);
  const stack = new MillraceStack(app, `millrace-${settings.stage}`, {
    manifest: options.manifest,
    code: codeOf(options.folders),
    settings,
  });
  options.change?.(stack);
  const assembly = app.synth();
  checkTemplate(assembly.getStackByName(stack.stackName).template, settings.concurrency.connectionBudget);
  return assembly;
}

function codeOf(folders: AssemblyOptions["folders"]): Record<HandlerName, lambda.Code> {
  const code = handlerNames.map((name) => [name, lambda.Code.fromAsset(folders[name])]);
  return Object.fromEntries(code);
}
