import { describe, expect, test } from "vitest";
import { failure, instancesAre, runAws, volumesAre, xml } from "./aws.ts";

const { signal } = new AbortController();
const attachment = { volumeId: "vol-0a", instanceId: "i-0a" };
const free = volumesAre({ id: "vol-0a" });
const on = (instanceId: string, status: string) => volumesAre({ id: "vol-0a", attached: { instanceId, status } });
const attached = xml("AttachVolume", "<volumeId>vol-0a</volumeId><status>attaching</status>");
const detached = xml("DetachVolume", "<volumeId>vol-0a</volumeId><status>detaching</status>");
const taken = failure(
  400,
  "InvalidParameterValue",
  "Invalid value '/dev/sdg' for unixDevice. Attachment point /dev/sdg is already in use",
);
const inUse = expect.objectContaining({
  code: "CLOUD_REFUSED",
  details: expect.objectContaining({ code: "VOLUME_IN_USE" }),
});

describe("attachVolume", () => {
  test("takes the first name that is free", async () => {
    const instance = instancesAre({ id: "i-0a", state: "running", devices: ["/dev/xvda", "/dev/sdf", "/dev/sdh"] });
    const aws = await runAws({ DescribeVolumes: [free], DescribeInstances: [instance], AttachVolume: [attached] });
    await aws.cloud.attachVolume(attachment, { signal });
    expect(aws.requests).toEqual([
      ["DescribeVolumes", { "Filter.1.Name": "volume-id", "Filter.1.Value.1": "vol-0a" }],
      ["DescribeInstances", { "InstanceId.1": "i-0a" }],
      ["AttachVolume", { Device: "/dev/sdg", InstanceId: "i-0a", VolumeId: "vol-0a" }],
    ]);
  });

  test("goes on to the next name when another volume was faster", async () => {
    const aws = await runAws({
      DescribeVolumes: [free],
      DescribeInstances: [instancesAre({ id: "i-0a", state: "running" })],
      AttachVolume: [taken, taken, attached],
    });
    await aws.cloud.attachVolume(attachment, { signal });
    expect(aws.sent("AttachVolume").map(({ Device }) => Device)).toEqual(["/dev/sdf", "/dev/sdg", "/dev/sdh"]);
  });

  test("says when every name is taken", async () => {
    const devices = [..."fghijklmnop"].map((letter) => `/dev/sd${letter}`);
    const full = instancesAre({ id: "i-0a", state: "running", devices });
    const aws = await runAws({ DescribeVolumes: [free], DescribeInstances: [full] });
    await expect(aws.cloud.attachVolume(attachment, { signal })).rejects.toMatchObject({
      details: { code: "NO_DEVICE" },
    });
  });

  test.each(["attached", "attaching"])("has nothing to do when it is %s there", async (status) => {
    const aws = await runAws({ DescribeVolumes: [on("i-0a", status)] });
    await aws.cloud.attachVolume(attachment, { signal });
    expect(aws.actions()).toEqual(["DescribeVolumes"]);
  });

  test.each([
    ["i-0b", "attached"],
    ["i-0b", "detaching"],
    ["i-0a", "detaching"],
  ])("is refused while %s has it %s", async (instanceId, status) => {
    const aws = await runAws({ DescribeVolumes: [on(instanceId, status)] });
    await expect(aws.cloud.attachVolume(attachment, { signal })).rejects.toEqual(inUse);
  });

  test("of two at the same time for one volume, the one that lost looks who won", async () => {
    const lost = {
      DescribeInstances: [instancesAre({ id: "i-0a", state: "running" })],
      AttachVolume: [failure(400, "VolumeInUse")],
    };
    const here = await runAws({ ...lost, DescribeVolumes: [free, on("i-0a", "attaching")] });
    await here.cloud.attachVolume(attachment, { signal });
    const elsewhere = await runAws({ ...lost, DescribeVolumes: [free, on("i-0b", "attaching")] });
    await expect(elsewhere.cloud.attachVolume(attachment, { signal })).rejects.toEqual(inUse);
  });

  test("other refusals are told", async () => {
    const aws = await runAws({
      DescribeVolumes: [free],
      DescribeInstances: [instancesAre()],
      AttachVolume: [failure(400, "InvalidVolume.ZoneMismatch")],
    });
    await expect(aws.cloud.attachVolume(attachment, { signal })).rejects.toMatchObject({
      code: "CLOUD_REFUSED",
      details: { code: "InvalidVolume.ZoneMismatch" },
    });
    expect(aws.sent("AttachVolume")).toHaveLength(1);
  });
});

describe("detachVolume", () => {
  test("detaches, and waits until it is", async () => {
    const looks = [on("i-0a", "attached"), on("i-0a", "detaching"), free];
    const aws = await runAws({ DescribeVolumes: looks, DetachVolume: [detached] });
    await aws.cloud.detachVolume(attachment, { signal });
    expect(aws.sent("DetachVolume")).toEqual([{ InstanceId: "i-0a", VolumeId: "vol-0a" }]);
    expect(aws.sent("DescribeVolumes")).toHaveLength(3);
  });

  test.each([
    ["it is not attached", free],
    ["it is gone", volumesAre()],
    ["another instance has it", on("i-0b", "attached")],
  ])("has nothing to do when %s", async (_, answer) => {
    const aws = await runAws({ DescribeVolumes: [answer] });
    await aws.cloud.detachVolume(attachment, { signal });
    expect(aws.actions()).toEqual(["DescribeVolumes"]);
  });

  test.each(["IncorrectState", "InvalidAttachment.NotFound", "InvalidInstanceID.NotFound", "InvalidVolume.NotFound"])(
    "takes %s for done if the next look shows it",
    async (code) => {
      const looks = [on("i-0a", "attached"), free];
      const aws = await runAws({ DescribeVolumes: looks, DetachVolume: [failure(400, code)] });
      await aws.cloud.detachVolume(attachment, { signal });
      expect(aws.actions()).toEqual(["DescribeVolumes", "DetachVolume", "DescribeVolumes"]);
    },
  );

  test("says that it may be repeated when it takes too long", async () => {
    const aws = await runAws({ DescribeVolumes: [on("i-0a", "detaching")] });
    await expect(aws.cloud.detachVolume(attachment, { signal })).rejects.toMatchObject({
      code: "CLOUD_FAILED",
      details: { code: "DETACHING" },
    });
  });
});
