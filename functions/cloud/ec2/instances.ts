import {
  DescribeInstancesCommand,
  type DescribeInstancesRequest,
  type Filter,
  type Instance,
  RunInstancesCommand,
  TerminateInstancesCommand,
} from "@aws-sdk/client-ec2";
import { DescribeInstanceInformationCommand } from "@aws-sdk/client-ssm";
import type { Cloud, InstanceState } from "../cloud.ts";
import { CloudError } from "../errors.ts";
import { type Aws, accept, call, isRefusal, pause, tokenOf } from "./calls.ts";
import { diskTags, madeWith, ofStack, ownedBy, tagsOf } from "./tags.ts";

/** States of an instance that is not on its way out. */
const ALIVE = ["pending", "running", "stopping", "stopped"];

/** Looks for an instance that nobody knows, before that is believed. */
const LOOKS = 3;

type Instances = Pick<Cloud, "createInstance" | "instanceState" | "deleteInstance" | "findInstances">;

/** Instances are EC2 instances of the stack's launch template, managed by Systems Manager. */
export function ec2Instances(aws: Aws): Instances {
  const { ec2, settings } = aws;

  const find = (op: string, tag: Filter, signal: AbortSignal) =>
    describeInstances(aws, op, { Filters: [ofStack(settings), tag] }, signal);

  /** What the key has made. A dead one counts if there is no other: the client token answers the same. */
  async function madeBefore(op: string, key: string, signal: AbortSignal): Promise<string | undefined> {
    const found = await find(op, madeWith(key), signal);
    const alive = idsOf(found.filter(isAlive));
    return alive[0] ?? idsOf(found)[0];
  }

  async function alive(op: string, tag: string, signal: AbortSignal): Promise<string[]> {
    const found = await find(op, ownedBy(tag), signal);
    return idsOf(found.filter(isAlive));
  }

  return {
    /**
     * The token of an instance is valid until at least 24 hours after its end; the tag is looked at first, because a
     * deployment in between changes the template's version, and with it the parameters.
     *
     * The id is answered when describing knows it, which can be later than its creation: a caller would take "not
     * found" for an instance that is gone. Until then the call can be repeated.
     * https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html
     * https://docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html
     */
    async createInstance(request, { signal }) {
      const op = "createInstance";
      const earlier = await madeBefore(op, request.key, signal);
      if (earlier !== undefined) return { id: earlier };

      const command = new RunInstancesCommand({
        ClientToken: tokenOf(request.key),
        LaunchTemplate: {
          LaunchTemplateId: settings.launchTemplateId,
          Version: settings.launchTemplateVersion,
        },
        MaxCount: 1,
        MinCount: 1,
        TagSpecifications: [tagsOf(request, settings, "instance"), diskTags(request, settings)],
      });
      const answer = await call(op, signal, () => ec2.send(command, { abortSignal: signal }));
      const [id] = idsOf(answer.Instances ?? []);
      if (id === undefined)
        throw new CloudError("CLOUD_ANSWER", { op, url: "EC2", reason: "a created instance without an id" });
      if ((await look(op, id, signal)) !== undefined) return { id };
      throw new CloudError("CLOUD_FAILED", {
        op,
        status: 200,
        code: "NOT_SEEN",
        reason: `${id} is not to be seen yet`,
      });
    },

    async instanceState(id, { signal }) {
      const op = "instanceState";
      const instance = await look(op, id, signal);
      switch (instance?.State?.Name) {
        case "pending":
          return "starting";
        case "running":
          return (await isOnline(op, id, signal)) ? "running" : "starting";
        default:
          return "gone" satisfies InstanceState;
      }
    },

    /** Looks again, as for volumes. What is shutting down already needs no further call. */
    async deleteInstance({ tag }, { signal }) {
      const op = "deleteInstance";
      for (let round = 1; round <= LOOKS; round++) {
        const ids = await alive(op, tag, signal);
        if (ids.length === 0 && round > 1) return;
        // one by one: a single id that is not known any more would have all the others refused
        for (const id of ids) await terminate(op, id, signal);
        if (round < LOOKS) await pause(aws, signal);
      }
    },

    findInstances: (tag, { signal }) => alive("findInstances", tag, signal),
  };

  /** An instance by id; looks again when it is not known, which just after its creation proves nothing. */
  async function look(op: string, id: string, signal: AbortSignal): Promise<Instance | undefined> {
    for (let round = 1; ; round++) {
      const [instance] = await instancesById(aws, op, id, signal);
      if (instance !== undefined || round === LOOKS) return instance;
      await pause(aws, signal);
    }
  }

  async function isOnline(op: string, id: string, signal: AbortSignal): Promise<boolean> {
    const command = new DescribeInstanceInformationCommand({ Filters: [{ Key: "InstanceIds", Values: [id] }] });
    const answer = await call(op, signal, () => aws.ssm.send(command, { abortSignal: signal }));
    return answer.InstanceInformationList?.[0]?.PingStatus === "Online";
  }

  async function terminate(op: string, id: string, signal: AbortSignal): Promise<void> {
    const command = new TerminateInstancesCommand({ InstanceIds: [id] });
    await accept(
      call(op, signal, () => ec2.send(command, { abortSignal: signal })),
      "InvalidInstanceID.NotFound",
    );
  }
}

const isAlive = ({ State }: Instance) => ALIVE.includes(State?.Name ?? "");
const idsOf = (instances: readonly Instance[]) => instances.map(({ InstanceId }) => InstanceId!).sort();

/** The instance in a list, or nothing when it is not known. */
export async function instancesById(aws: Aws, op: string, id: string, signal: AbortSignal): Promise<Instance[]> {
  try {
    return await describeInstances(aws, op, { InstanceIds: [id] }, signal);
  } catch (error) {
    if (isRefusal(error, "InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed")) return [];
    throw error;
  }
}

/** Every page of instances. */
async function describeInstances(
  { ec2 }: Aws,
  op: string,
  request: DescribeInstancesRequest,
  signal: AbortSignal,
): Promise<Instance[]> {
  const found: Instance[] = [];
  let NextToken: string | undefined;
  do {
    const command = new DescribeInstancesCommand({ ...request, ...(NextToken === undefined ? {} : { NextToken }) });
    const answer = await call(op, signal, () => ec2.send(command, { abortSignal: signal }));
    found.push(...(answer.Reservations ?? []).flatMap(({ Instances }) => Instances ?? []));
    NextToken = answer.NextToken;
  } while (NextToken !== undefined && NextToken !== "");
  return found;
}
