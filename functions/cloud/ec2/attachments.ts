import { AttachVolumeCommand, DetachVolumeCommand, type VolumeAttachment } from "@aws-sdk/client-ec2";
import type { Attachment, Cloud } from "../cloud.ts";
import { CloudError } from "../errors.ts";
import { type Aws, accept, call, isRefusal, pause } from "./calls.ts";
import { instancesById } from "./instances.ts";
import { describeVolumes, volumeInUse } from "./volumes.ts";

/**
 * Names that EC2 recommends for volumes besides the root; on Nitro instances the kernel does not use them, but EC2
 * wants each to be free. https://docs.aws.amazon.com/ebs/latest/userguide/ebs-using-volumes.html
 */
const DEVICES = [..."fghijklmnop"].map((letter) => `/dev/sd${letter}`);

/** Looks at a volume that is being detached; a mounted one can stay so for ever. */
const LOOKS = 20;

/** Attachments of volumes to instances. */
export function ec2Attachments(aws: Aws): Pick<Cloud, "attachVolume" | "detachVolume"> {
  const { ec2 } = aws;
  return {
    async attachVolume(attachment, { signal }) {
      const op = "attachVolume";
      if (await isHere(op, attachment, signal)) return;
      const used = await usedDevices(op, attachment.instanceId, signal);
      for (const device of DEVICES) {
        if (used.has(device)) continue;
        try {
          await attach(op, attachment, device, signal);
          return;
        } catch (error) {
          // Another volume got this name since the look; it is found in the message alone.
          if (isNameTaken(error)) continue;
          if (isRefusal(error, "VolumeInUse") && (await isHere(op, attachment, signal))) return;
          throw error;
        }
      }
      const reason = `${attachment.instanceId} has ${DEVICES.length} volumes, as many as there are names`;
      throw new CloudError("CLOUD_REFUSED", { op, status: 400, code: "NO_DEVICE", reason });
    },

    /** Waits until it is detached: before that it can neither be attached elsewhere nor deleted. */
    async detachVolume(attachment, { signal }) {
      const op = "detachVolume";
      for (let look = 1; look <= LOOKS; look++) {
        const state = (await attachmentsOf(op, attachment.volumeId, signal)).find(isOn(attachment))?.State;
        if (state === undefined || state === "detached") return;
        if (state !== "detaching") await detach(op, attachment, signal);
        await pause(aws, signal);
      }
      const reason = `${attachment.volumeId} is still being detached; is it mounted?`;
      throw new CloudError("CLOUD_FAILED", { op, status: 200, code: "DETACHING", reason });
    },
  };

  /** True when it is attached there. Errors: VOLUME_IN_USE when it is attached elsewhere, or is leaving. */
  async function isHere(op: string, attachment: Attachment, signal: AbortSignal): Promise<boolean> {
    const all = (await attachmentsOf(op, attachment.volumeId, signal)).filter(({ State }) => State !== "detached");
    if (all.length === 0) return false;
    if (all.some((each) => isOn(attachment)(each) && each.State !== "detaching")) return true;
    throw volumeInUse(op, attachment.volumeId);
  }

  /** By filter: unlike by id, a volume that is gone is an empty answer, not an error. */
  async function attachmentsOf(op: string, volumeId: string, signal: AbortSignal): Promise<VolumeAttachment[]> {
    const volumes = await describeVolumes(aws, op, { Filters: [{ Name: "volume-id", Values: [volumeId] }] }, signal);
    return volumes.flatMap(({ Attachments }) => Attachments ?? []);
  }

  async function usedDevices(op: string, instanceId: string, signal: AbortSignal): Promise<Set<string>> {
    const [instance] = await instancesById(aws, op, instanceId, signal);
    return new Set((instance?.BlockDeviceMappings ?? []).map(({ DeviceName }) => DeviceName ?? ""));
  }

  async function attach(op: string, { volumeId, instanceId }: Attachment, Device: string, signal: AbortSignal) {
    const command = new AttachVolumeCommand({ Device, InstanceId: instanceId, VolumeId: volumeId });
    await call(op, signal, () => ec2.send(command, { abortSignal: signal }));
  }

  async function detach(op: string, { volumeId, instanceId }: Attachment, signal: AbortSignal): Promise<void> {
    const command = new DetachVolumeCommand({ InstanceId: instanceId, VolumeId: volumeId });
    await accept(
      call(op, signal, () => ec2.send(command, { abortSignal: signal })),
      "IncorrectState",
      "InvalidAttachment.NotFound",
      "InvalidInstanceID.NotFound",
      "InvalidVolume.NotFound",
    );
  }
}

const isOn = (attachment: Attachment) => (each: VolumeAttachment) => each.InstanceId === attachment.instanceId;

function isNameTaken(error: unknown): boolean {
  return isRefusal(error, "InvalidParameterValue") && /already in use/i.test((error as CloudError).message);
}
