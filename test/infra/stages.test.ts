import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { CfnResource } from "aws-cdk-lib";
import { afterEach, describe, expect, it, vi } from "vitest";
import { pipelines } from "../../functions/pipelines/index.ts";
import { synthesize } from "../../infra/aws/assembly.ts";
import type { MillraceStack } from "../../infra/aws/stack.ts";
import { settingsOf, stageNames } from "../../infra/settings.ts";
import { bundlesOf, manifest, ofType, resourcesOf } from "./assemble.ts";

const folders = bundlesOf();

afterEach(() => vi.unstubAllEnvs());

describe("the stage", () => {
  const nameOf = (context: Record<string, unknown> = {}) =>
    synthesize({ manifest, folders, context }).stacks[0]!.stackName;

  it("is dev by default", () => {
    vi.stubEnv("MILLRACE_STAGE", undefined);
    expect(nameOf()).toBe("millrace-dev");
  });

  it("is taken from the environment, and rather from the context", () => {
    vi.stubEnv("MILLRACE_STAGE", "prod");
    expect(nameOf()).toBe("millrace-prod");
    expect(nameOf({ stage: "staging" })).toBe("millrace-staging");
  });

  it.each(["live", "", "toString"])('named "%s" is refused with the names that exist', (stage) => {
    expect(() => settingsOf(stage)).toThrow(
      expect.objectContaining({
        code: "UNKNOWN_STAGE",
        message: expect.stringContaining(`there is no stage "${stage}"; use one of dev, staging, prod`),
      }),
    );
  });
});

describe.each(stageNames)("stage %s", (stage) => {
  it("passes CDK's own rules without a finding", () => {
    vi.stubEnv("CDK_VALIDATION", "true");
    const { directory } = synthesize({ manifest, folders, settings: settingsOf(stage) });
    const report = JSON.parse(readFileSync(join(directory, "validation-report.json"), "utf8"));
    expect(report.pluginReports).toEqual([]);
  });

  it("has room for the pipelines of this repository", () => {
    const settings = settingsOf(stage);
    expect(() => synthesize({ manifest: pipelines.manifest, folders, settings })).not.toThrow();
  });

  it("deletes data only where it may", () => {
    const [[, cluster]] = ofType(resourcesOf({ settings: settingsOf(stage) }), "AWS::RDS::DBCluster") as [
      [string, object],
    ];
    expect(cluster).toMatchObject({
      DeletionPolicy: stage === "prod" ? "Snapshot" : "Delete",
      Properties: { DeletionProtection: stage === "prod" },
    });
  });
});

it("a template that breaks CDK's own rules fails", () => {
  vi.stubEnv("CDK_VALIDATION", "true");
  const change = ({ api }: MillraceStack) =>
    (api.handler.node.defaultChild as CfnResource).addPropertyOverride("MemorySize", 1);
  expect(() => synthesize({ manifest, folders, change })).toThrow(/validation/i);
});
