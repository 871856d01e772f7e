import { describe, expect, test } from "vitest";
import { failure, instancesAre, pings, runAws, xml } from "./aws.ts";

const { signal } = new AbortController();
const request = { key: "0123456789abcdef0123456789abcdef", tag: "row-1", name: "node 1" };
const search = (name: string, value: string) => ({
  "Filter.1.Name": "tag:millrace:stack",
  "Filter.1.Value.1": "millrace-prod",
  "Filter.2.Name": `tag:millrace:${name}`,
  "Filter.2.Value.1": value,
});
const created = xml(
  "RunInstances",
  "<instancesSet><item><instanceId>i-0a</instanceId><instanceState><code>0</code><name>pending</name></instanceState></item></instancesSet>",
);
const terminated = xml("TerminateInstances", "<instancesSet/>");
const none = instancesAre();
const unknown = failure(400, "InvalidInstanceID.NotFound");

describe("createInstance", () => {
  test("looks for the key, runs one instance of the template, and answers when it is to be seen", async () => {
    const seen = instancesAre({ id: "i-0a", state: "pending" });
    const aws = await runAws({ DescribeInstances: [none, unknown, seen], RunInstances: [created] });
    expect(await aws.cloud.createInstance(request, { signal })).toEqual({ id: "i-0a" });
    expect(aws.requests).toEqual([
      ["DescribeInstances", search("key", request.key)],
      [
        "RunInstances",
        {
          ClientToken: request.key,
          "LaunchTemplate.LaunchTemplateId": "lt-0abcdef0123456789",
          "LaunchTemplate.Version": "7",
          MaxCount: "1",
          MinCount: "1",
          "TagSpecification.1.ResourceType": "instance",
          "TagSpecification.1.Tag.1.Key": "millrace:stack",
          "TagSpecification.1.Tag.1.Value": "millrace-prod",
          "TagSpecification.1.Tag.2.Key": "Name",
          "TagSpecification.1.Tag.2.Value": "node 1",
          "TagSpecification.1.Tag.3.Key": "millrace:owner",
          "TagSpecification.1.Tag.3.Value": "row-1",
          "TagSpecification.1.Tag.4.Key": "millrace:key",
          "TagSpecification.1.Tag.4.Value": request.key,
          // its disk is nobody's volume: no owner
          "TagSpecification.2.ResourceType": "volume",
          "TagSpecification.2.Tag.1.Key": "millrace:stack",
          "TagSpecification.2.Tag.1.Value": "millrace-prod",
          "TagSpecification.2.Tag.2.Key": "Name",
          "TagSpecification.2.Tag.2.Value": "node 1",
        },
      ],
      ["DescribeInstances", { "InstanceId.1": "i-0a" }],
      ["DescribeInstances", { "InstanceId.1": "i-0a" }],
    ]);
  });

  test("says that it may be repeated when the instance is not to be seen yet", async () => {
    const aws = await runAws({ DescribeInstances: [none, unknown], RunInstances: [created] });
    await expect(aws.cloud.createInstance(request, { signal })).rejects.toMatchObject({
      code: "CLOUD_FAILED",
      details: { code: "NOT_SEEN" },
    });
    expect(aws.sent("RunInstances")).toHaveLength(1);
  });

  test("finds what the key has made; a dead one only if there is no other", async () => {
    const both = instancesAre({ id: "i-0a", state: "terminated" }, { id: "i-0b", state: "running" });
    const one = await runAws({ DescribeInstances: [both] });
    expect(await one.cloud.createInstance(request, { signal })).toEqual({ id: "i-0b" });
    const dead = await runAws({ DescribeInstances: [instancesAre({ id: "i-0a", state: "terminated" })] });
    expect(await dead.cloud.createInstance(request, { signal })).toEqual({ id: "i-0a" });
    expect(dead.actions()).toEqual(["DescribeInstances"]);
  });

  test("lack of room is no fault of the request", async () => {
    const full = failure(500, "InsufficientInstanceCapacity");
    const aws = await runAws({ DescribeInstances: [none], RunInstances: [full] });
    await expect(aws.cloud.createInstance(request, { signal })).rejects.toMatchObject({ code: "CLOUD_FAILED" });
  });
});

describe("instanceState", () => {
  test.each([
    ["pending", [], "starting"],
    ["running", ["Online"], "running"],
    ["running", [], "starting"],
    ["running", ["ConnectionLost"], "starting"],
    ["stopping", ["Online"], "gone"],
    ["stopped", [], "gone"],
    ["shutting-down", ["Online"], "gone"],
    ["terminated", [], "gone"],
  ])("%s, with an agent that is %j, is %s", async (state, ping, expected) => {
    const aws = await runAws({
      DescribeInstances: [instancesAre({ id: "i-0a", state })],
      DescribeInstanceInformation: [pings(...ping)],
    });
    expect(await aws.cloud.instanceState("i-0a", { signal })).toBe(expected);
    const asked = state === "running" ? [{ Filters: [{ Key: "InstanceIds", Values: ["i-0a"] }] }] : [];
    expect(aws.sent("DescribeInstanceInformation")).toEqual(asked);
  });

  test("one that nobody knows is gone, but not at the first look", async () => {
    const gone = await runAws({ DescribeInstances: [unknown] });
    expect(await gone.cloud.instanceState("i-0a", { signal })).toBe("gone");
    expect(gone.requests).toHaveLength(3);
    const late = await runAws({ DescribeInstances: [unknown, none, instancesAre({ id: "i-0a", state: "pending" })] });
    expect(await late.cloud.instanceState("i-0a", { signal })).toBe("starting");
  });
});

describe("deleteInstance", () => {
  const target = { tag: "row-1", name: "node 1" };

  test("terminates everything alive with the owner's tag one by one, and looks again", async () => {
    const three = instancesAre(
      { id: "i-0a", state: "running" },
      { id: "i-0b", state: "stopped" },
      { id: "i-0c", state: "shutting-down" },
    );
    const aws = await runAws({
      DescribeInstances: [three, none],
      TerminateInstances: [unknown, terminated],
    });
    await aws.cloud.deleteInstance(target, { signal });
    expect(aws.requests).toEqual([
      ["DescribeInstances", search("owner", "row-1")],
      ["TerminateInstances", { "InstanceId.1": "i-0a" }],
      ["TerminateInstances", { "InstanceId.1": "i-0b" }],
      ["DescribeInstances", search("owner", "row-1")],
    ]);
  });

  test("finds an instance that is to be seen only at the second look", async () => {
    const late = [none, instancesAre({ id: "i-0a", state: "pending" }), none];
    const aws = await runAws({ DescribeInstances: late, TerminateInstances: [terminated] });
    await aws.cloud.deleteInstance(target, { signal });
    expect(aws.sent("TerminateInstances")).toEqual([{ "InstanceId.1": "i-0a" }]);
  });
});

test("findInstances answers the ids of those alive", async () => {
  const some = instancesAre({ id: "i-0b", state: "pending" }, { id: "i-0a", state: "terminated" });
  const aws = await runAws({ DescribeInstances: [some] });
  expect(await aws.cloud.findInstances("row-1", { signal })).toEqual(["i-0b"]);
});
