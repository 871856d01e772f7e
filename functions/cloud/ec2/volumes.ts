import {
  CreateVolumeCommand,
  DeleteVolumeCommand,
  DescribeVolumesCommand,
  type DescribeVolumesRequest,
  type Volume,
} from "@aws-sdk/client-ec2";
import type { Cloud } from "../cloud.ts";
import { CloudError } from "../errors.ts";
import { type Aws, accept, call, isRefusal, pause, tokenOf } from "./calls.ts";
import { madeWith, ofStack, ownedBy, tagsOf } from "./tags.ts";

/** States of a volume that is not on its way out. */
const ALIVE = { Name: "status", Values: ["creating", "available", "in-use", "error"] };

/** A deletion looks at most this often for what it has to delete. */
const LOOKS = 3;

type Volumes = Pick<Cloud, "createVolume" | "deleteVolume" | "findVolumes">;

/** Volumes are EBS volumes: gp3, encrypted. */
export function ec2Volumes(aws: Aws): Volumes {
  const { ec2, settings } = aws;

  async function find(op: string, tag: ReturnType<typeof ownedBy>, signal: AbortSignal): Promise<string[]> {
    const volumes = await describeVolumes(aws, op, { Filters: [ofStack(settings), tag, ALIVE] }, signal);
    return volumes.map(({ VolumeId }) => VolumeId!).sort();
  }

  return {
    /**
     * A client token makes repeated calls safe, but how long Amazon remembers that of a volume is nowhere said, and a
     * repeated call with other parameters (a zone that a deployment has changed) is an error. So the tag is asked
     * first: it lasts as long as the volume. Looking is eventually consistent; the token covers calls close in time.
     * https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html
     */
    async createVolume(request, { signal }) {
      const op = "createVolume";
      const [earlier] = await find(op, madeWith(request.key), signal);
      if (earlier !== undefined) return { id: earlier };

      const command = new CreateVolumeCommand({
        AvailabilityZone: settings.availabilityZone,
        ClientToken: tokenOf(request.key),
        Encrypted: true,
        Size: request.sizeGb,
        TagSpecifications: [tagsOf(request, settings, "volume")],
        VolumeType: "gp3",
      });
      const { VolumeId } = await call(op, signal, () => ec2.send(command, { abortSignal: signal }));
      if (VolumeId !== undefined) return { id: VolumeId };
      throw new CloudError("CLOUD_ANSWER", { op, url: "EC2", reason: "a created volume without an id" });
    },

    /**
     * EC2 cannot close a tag, so a creation that arrives later is not refused. What was created shortly before and
     * not to be seen at once is found by looking again; docs/operations.md says what remains.
     */
    async deleteVolume({ tag }, { signal }) {
      const op = "deleteVolume";
      for (let look = 1; look <= LOOKS; look++) {
        const ids = await find(op, ownedBy(tag), signal);
        if (ids.length === 0 && look > 1) return;
        for (const VolumeId of ids) await remove(op, VolumeId, signal);
        if (look < LOOKS) await pause(aws, signal);
      }
    },

    findVolumes: (tag, { signal }) => find("findVolumes", ownedBy(tag), signal),
  };

  async function remove(op: string, VolumeId: string, signal: AbortSignal): Promise<void> {
    const deletion = call(op, signal, () => ec2.send(new DeleteVolumeCommand({ VolumeId }), { abortSignal: signal }));
    try {
      await accept(deletion, "InvalidVolume.NotFound");
    } catch (error) {
      if (isRefusal(error, "VolumeInUse")) throw volumeInUse(op, VolumeId, error);
      throw error;
    }
  }
}

/** The refusal that means: detach it first, or wait until another instance has given it back. */
export function volumeInUse(op: string, volumeId: string, cause?: unknown): CloudError {
  const reason = `${volumeId} is attached to an instance`;
  return new CloudError("CLOUD_REFUSED", { op, status: 400, code: "VOLUME_IN_USE", reason }, { cause });
}

/** Every page of volumes. */
export async function describeVolumes(
  { ec2 }: Aws,
  op: string,
  request: DescribeVolumesRequest,
  signal: AbortSignal,
): Promise<Volume[]> {
  const found: Volume[] = [];
  let NextToken: string | undefined;
  do {
    const command = new DescribeVolumesCommand({ ...request, ...(NextToken === undefined ? {} : { NextToken }) });
    const answer = await call(op, signal, () => ec2.send(command, { abortSignal: signal }));
    found.push(...(answer.Volumes ?? []));
    NextToken = answer.NextToken;
  } while (NextToken !== undefined && NextToken !== "");
  return found;
}
