import { describe, expect, test } from "vitest";
import { CloudError } from "../../../functions/cloud/errors.ts";
import { until } from "../../support/until.ts";
import { type Answers, failure, runAws, volumesAre, xml } from "./aws.ts";

const { signal } = new AbortController();
const request = { key: "0123456789abcdef0123456789abcdef", tag: "row-1", name: "data", sizeGb: 10 };
const created = xml("CreateVolume", "<volumeId>vol-0a</volumeId><size>10</size><status>creating</status>");
const deleted = xml("DeleteVolume", "<return>true</return>");

const alive = {
  "Filter.3.Name": "status",
  "Filter.3.Value.1": "creating",
  "Filter.3.Value.2": "available",
  "Filter.3.Value.3": "in-use",
  "Filter.3.Value.4": "error",
};
const search = (name: string, value: string) => ({
  "Filter.1.Name": "tag:millrace:stack",
  "Filter.1.Value.1": "millrace-prod",
  "Filter.2.Name": `tag:millrace:${name}`,
  "Filter.2.Value.1": value,
  ...alive,
});

describe("createVolume", () => {
  test("looks for the key, then creates with a token of it, encrypted and tagged", async () => {
    const aws = await runAws({ DescribeVolumes: [volumesAre()], CreateVolume: [created] });
    expect(await aws.cloud.createVolume(request, { signal })).toEqual({ id: "vol-0a" });
    expect(aws.requests).toEqual([
      ["DescribeVolumes", search("key", request.key)],
      [
        "CreateVolume",
        {
          AvailabilityZone: "eu-west-1a",
          ClientToken: request.key,
          Encrypted: "true",
          Size: "10",
          VolumeType: "gp3",
          "TagSpecification.1.ResourceType": "volume",
          "TagSpecification.1.Tag.1.Key": "millrace:stack",
          "TagSpecification.1.Tag.1.Value": "millrace-prod",
          "TagSpecification.1.Tag.2.Key": "Name",
          "TagSpecification.1.Tag.2.Value": "data",
          "TagSpecification.1.Tag.3.Key": "millrace:owner",
          "TagSpecification.1.Tag.3.Value": "row-1",
          "TagSpecification.1.Tag.4.Key": "millrace:key",
          "TagSpecification.1.Tag.4.Value": request.key,
        },
      ],
    ]);
  });

  test("answers what an earlier call with the key has made, however long ago", async () => {
    const aws = await runAws({ DescribeVolumes: [volumesAre({ id: "vol-0b" }, { id: "vol-0a" })] });
    expect(await aws.cloud.createVolume(request, { signal })).toEqual({ id: "vol-0a" });
    expect(aws.actions()).toEqual(["DescribeVolumes"]);
  });

  test("reads every page", async () => {
    const first = xml("DescribeVolumes", "<volumeSet/><nextToken>page2</nextToken>");
    const aws = await runAws({ DescribeVolumes: [first, volumesAre({ id: "vol-0a" })] });
    expect(await aws.cloud.createVolume(request, { signal })).toEqual({ id: "vol-0a" });
    expect(aws.sent("DescribeVolumes")[1]).toEqual({ ...search("key", request.key), NextToken: "page2" });
  });

  test.each(["k".repeat(65), "key with spaces", "schlüssel"])("a key that is no token is hashed: %s", async (key) => {
    const aws = await runAws({ DescribeVolumes: [volumesAre()], CreateVolume: [created] });
    await aws.cloud.createVolume({ ...request, key }, { signal });
    const [{ ClientToken, ...sent }] = aws.sent("CreateVolume") as [Record<string, string>];
    expect(ClientToken).toMatch(/^[0-9a-f]{64}$/);
    expect(sent["TagSpecification.1.Tag.4.Value"]).toBe(key);
  });
});

describe("deleteVolume", () => {
  const target = { tag: "row-1", name: "data" };

  test("deletes everything with the owner's tag, and looks again", async () => {
    const two = volumesAre({ id: "vol-0a" }, { id: "vol-0b" });
    const aws = await runAws({ DescribeVolumes: [two, volumesAre()], DeleteVolume: [deleted] });
    await aws.cloud.deleteVolume(target, { signal });
    expect(aws.requests).toEqual([
      ["DescribeVolumes", search("owner", "row-1")],
      ["DeleteVolume", { VolumeId: "vol-0a" }],
      ["DeleteVolume", { VolumeId: "vol-0b" }],
      ["DescribeVolumes", search("owner", "row-1")],
    ]);
  });

  test("finds a volume that is to be seen only at the second look", async () => {
    const answers = [volumesAre(), volumesAre({ id: "vol-0a" }), volumesAre()];
    const aws = await runAws({ DescribeVolumes: answers, DeleteVolume: [deleted] });
    await aws.cloud.deleteVolume(target, { signal });
    expect(aws.sent("DeleteVolume")).toEqual([{ VolumeId: "vol-0a" }]);
  });

  test("takes a volume that is gone for deleted", async () => {
    const aws = await runAws({
      DescribeVolumes: [volumesAre({ id: "vol-0a" }), volumesAre()],
      DeleteVolume: [failure(400, "InvalidVolume.NotFound")],
    });
    await aws.cloud.deleteVolume(target, { signal });
    expect(aws.actions()).toEqual(["DescribeVolumes", "DeleteVolume", "DescribeVolumes"]);
  });

  test("refuses for a volume that is attached, with the code that every cloud has for it", async () => {
    const aws = await runAws({
      DescribeVolumes: [volumesAre({ id: "vol-0a" })],
      DeleteVolume: [failure(400, "VolumeInUse")],
    });
    await expect(aws.cloud.deleteVolume(target, { signal })).rejects.toMatchObject({
      code: "CLOUD_REFUSED",
      details: { code: "VOLUME_IN_USE" },
    });
  });
});

test("findVolumes answers ids, sorted", async () => {
  const aws = await runAws({ DescribeVolumes: [volumesAre({ id: "vol-0b" }, { id: "vol-0a" })] });
  expect(await aws.cloud.findVolumes("row-1", { signal })).toEqual(["vol-0a", "vol-0b"]);
  expect(aws.sent("DescribeVolumes")).toEqual([search("owner", "row-1")]);
});

describe("errors", () => {
  test.each([
    [400, "InvalidParameterValue", "CLOUD_REFUSED"],
    [403, "UnauthorizedOperation", "CLOUD_REFUSED"],
    [400, "IncorrectState", "CLOUD_FAILED"],
    [400, "RequestExpired", "CLOUD_FAILED"],
    [503, "RequestLimitExceeded", "CLOUD_FAILED"],
    [400, "Throttling", "CLOUD_FAILED"],
    [500, "InternalError", "CLOUD_FAILED"],
    [503, "Unavailable", "CLOUD_FAILED"],
  ])("%i %s is %s, with the code of AWS", async (status, awsCode, code) => {
    const aws = await runAws({ DescribeVolumes: [failure(status, awsCode)] });
    const error = await aws.cloud.findVolumes("row-1", { signal }).catch((each: unknown) => each);
    expect(error).toBeInstanceOf(CloudError);
    expect(error).toMatchObject({ code, details: { op: "findVolumes", status, code: awsCode } });
    expect((error as Error).message).toContain(`${awsCode}, says EC2`);
  });

  test("no answer at all is CLOUD_UNREACHABLE", async () => {
    const cut: Answers["x"][number] = () => Promise.reject(new Error("cut"));
    const aws = await runAws({ DescribeVolumes: [cut] });
    await expect(aws.cloud.findVolumes("row-1", { signal })).rejects.toMatchObject({ code: "CLOUD_UNREACHABLE" });
  });

  test("an aborted signal ends the wait with its own reason", async () => {
    const aws = await runAws({ DescribeVolumes: [() => new Promise<never>(() => {})] });
    const gone = new AbortController();
    const call = aws.cloud.findVolumes("row-1", { signal: gone.signal });
    await until(() => aws.requests.length === 1, { what: "the call" });
    const reason = new Error("the lock is gone");
    gone.abort(reason);
    await expect(call).rejects.toBe(reason);
  });

  test("an aborted signal sends nothing", async () => {
    const aws = await runAws({ DescribeVolumes: [volumesAre()] });
    const reason = new Error("the lock is gone");
    await expect(aws.cloud.findVolumes("row-1", { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    expect(aws.requests).toEqual([]);
  });
});
