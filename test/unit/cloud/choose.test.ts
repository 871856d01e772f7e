import { expect, onTestFinished, test, vi } from "vitest";
import { cloudFromEnvironment } from "../../../functions/cloud/choose.ts";
import type { Cloud } from "../../../functions/cloud/cloud.ts";
import { pointAt, runAws, settings, volumesAre } from "./aws.ts";

const environment = {
  CLOUD: "ec2",
  EC2_AVAILABILITY_ZONE: settings.availabilityZone,
  EC2_LAUNCH_TEMPLATE_ID: settings.launchTemplateId,
  EC2_LAUNCH_TEMPLATE_VERSION: settings.launchTemplateVersion,
  EC2_STACK: settings.stack,
};
const { signal } = new AbortController();

test("CLOUD=ec2 makes a cloud of the environment, whose clients are loaded with the first call", async () => {
  const aws = await runAws({ DescribeVolumes: [volumesAre({ id: "vol-0a" })] });
  const cloud = cloudFromEnvironment(environment);
  expect(aws.requests).toEqual([]);
  expect(await cloud.findVolumes("row-1", { signal })).toEqual(["vol-0a"]);
  expect(aws.sent("DescribeVolumes")[0]).toMatchObject({ "Filter.1.Value.1": settings.stack });
});

test("every operation reaches the cloud of EC2", async () => {
  onTestFinished(() => void vi.unstubAllEnvs());
  pointAt("http://127.0.0.1:1");
  const cloud = cloudFromEnvironment({ ...environment, EC2_STACK: "other" });
  const calls: { [Operation in keyof Cloud]: Parameters<Cloud[Operation]> } = {
    createVolume: [{ key: "k", tag: "t", name: "n", sizeGb: 1 }, { signal }],
    deleteVolume: [{ tag: "t", name: "n" }, { signal }],
    findVolumes: ["t", { signal }],
    createInstance: [{ key: "k", tag: "t", name: "n" }, { signal }],
    instanceState: ["i-0a", { signal }],
    deleteInstance: [{ tag: "t", name: "n" }, { signal }],
    findInstances: ["t", { signal }],
    attachVolume: [{ volumeId: "vol-0a", instanceId: "i-0a" }, { signal }],
    detachVolume: [{ volumeId: "vol-0a", instanceId: "i-0a" }, { signal }],
    runCommand: [{ key: "k", instanceId: "i-0a", command: ["true"], volumes: [] }, { signal }],
    commandState: ["i-0a/k", { signal }],
    stopCommand: ["i-0a/k", 1, { signal }],
    readOutput: ["i-0a/k", 0, { signal }],
  };
  for (const [op, args] of Object.entries(calls)) {
    const call = cloud[op as keyof Cloud] as (...args: unknown[]) => Promise<unknown>;
    await expect(call(...args), op).rejects.toMatchObject({ code: "CLOUD_UNREACHABLE", details: { op } });
  }
});

test.each([
  ["EC2_AVAILABILITY_ZONE", undefined],
  ["EC2_AVAILABILITY_ZONE", "here!"],
  ["EC2_LAUNCH_TEMPLATE_ID", "template"],
  ["EC2_LAUNCH_TEMPLATE_VERSION", "$Latest"],
  ["EC2_STACK", ""],
])("%s=%s is an error at start", (name, value) => {
  expect(() => cloudFromEnvironment({ ...environment, [name]: value })).toThrow(
    expect.objectContaining({ code: "CLOUD_SETTING", message: expect.stringContaining(`${name} is `) }),
  );
});
