/* What each operation does to the disk and to the processes. Up to its first wait a step is alone. */

import { lstatSync, mkdirSync, readdirSync, readlinkSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import type { CommandRequest, CommandStore } from "./commands.ts";
import type { InstanceRequest, Instances } from "./instances.ts";
import type { Ended, Result } from "./operations.ts";
import type { VolumeStore } from "./volumes.ts";

export interface AttachmentRequest {
  readonly volumeId: string;
  readonly instanceId: string;
}

export const refusal = (status: number, code: string, message: string): Result => ({
  kind: "failed",
  status,
  code,
  message,
});
const refused = (status: number, code: string, message: string): Ended => ({
  outcome: "failed",
  result: refusal(status, code, message),
});
const DONE: Result = { kind: "deleted" };

/** The steps of instances, attachments and commands. */
export function createSteps(volumes: VolumeStore, instances: Instances, commands: CommandStore) {
  /** The instance that has the volume; one that is gone has nothing. */
  function holder(volumeId: string): string | undefined {
    const id = volumes.holder(volumeId);
    return id === undefined || instances.state(id) === "gone" ? undefined : id;
  }

  function createInstance(request: InstanceRequest): Ended {
    if (instances.isClosed(request.tag)) {
      return refused(409, "TAG_CLOSED", `the instances of tag ${request.tag} have been deleted; it gets no new ones`);
    }
    const { instance, made } = instances.create(request);
    const kind = made ? "created" : "existing";
    return { outcome: kind, result: { kind, body: instance } };
  }

  async function deleteInstance(tag: string): Promise<Ended> {
    // Closed before it looks: a create of this tag that is still under way makes nothing after this.
    instances.closeTag(tag);
    const found = instances.byTag(tag);
    await Promise.all(found.map(({ id }) => instances.remove(id)));
    return { outcome: found.length > 0 ? "deleted" : "missing", key: found[0]?.key ?? null, result: DONE };
  }

  function attach({ volumeId, instanceId }: AttachmentRequest): Ended {
    if (volumes.get(volumeId) === undefined) return refused(409, "VOLUME_GONE", `there is no volume ${volumeId}`);
    if (instances.state(instanceId) === "gone") return refused(409, "INSTANCE_GONE", `${instanceId} is gone`);
    const other = holder(volumeId);
    if (other === instanceId) return { outcome: "existing", result: DONE };
    if (other !== undefined) return refused(409, "VOLUME_IN_USE", `${volumeId} is attached to ${other}`);
    volumes.setHolder(volumeId, instanceId);
    return { outcome: "attached", result: DONE };
  }

  function detach({ volumeId, instanceId }: AttachmentRequest): Ended {
    const known = volumes.get(volumeId) !== undefined;
    if (!known || volumes.holder(volumeId) !== instanceId) return { outcome: "missing", result: DONE };
    if (instances.get(instanceId) !== undefined) unlink(instances.work(instanceId), volumes.dataOf(volumeId));
    volumes.setHolder(volumeId, undefined);
    return { outcome: "detached", result: DONE };
  }

  function run(request: CommandRequest): Ended {
    const earlier = commands.byKey(request.key);
    if (earlier !== undefined) return { outcome: "existing", result: { kind: "existing", body: { id: earlier.id } } };
    const { instanceId } = request;
    if (instances.state(instanceId) === "gone") return refused(409, "INSTANCE_GONE", `${instanceId} is gone`);
    const work = instances.work(instanceId);
    for (const { id, name } of request.volumes) {
      if (volumes.get(id) === undefined || holder(id) !== instanceId) {
        return refused(409, "VOLUME_NOT_ATTACHED", `${id} is not attached to ${instanceId}`);
      }
      if (isTaken(join(work, name))) {
        return refused(409, "NAME_TAKEN", `the instance has a file ${name} of its own, which cannot be volume ${id}`);
      }
    }
    for (const { id, name } of request.volumes) link(work, name, volumes.dataOf(id));
    const { thing } = commands.create(request);
    instances.tell(instanceId, { kind: "run", commandId: thing.id, command: thing.command });
    return { outcome: "created", result: { kind: "created", body: { id: thing.id } } };
  }

  function stop(commandId: string, graceSeconds: number): Ended {
    const command = commands.get(commandId);
    if (command === undefined || commands.state(commandId).state !== "running") {
      return { outcome: "missing", result: DONE };
    }
    const told = instances.tell(command.instanceId, { kind: "stop", commandId, graceSeconds });
    return { outcome: told ? "stopping" : "missing", result: DONE };
  }

  return { holder, createInstance, deleteInstance, attach, detach, run, stop };
}

/** Whether there is something at the path that is not a link made here. */
function isTaken(path: string): boolean {
  const there = lstatSync(path, { throwIfNoEntry: false });
  return there !== undefined && !there.isSymbolicLink();
}

function link(work: string, name: string, data: string): void {
  mkdirSync(work, { recursive: true }); // a command may have removed it
  rmSync(join(work, name), { force: true });
  symlinkSync(data, join(work, name));
}

function unlink(work: string, data: string): void {
  mkdirSync(work, { recursive: true });
  for (const entry of readdirSync(work, { withFileTypes: true })) {
    const path = join(work, entry.name);
    if (entry.isSymbolicLink() && readlinkSync(path) === data) rmSync(path, { force: true });
  }
}
