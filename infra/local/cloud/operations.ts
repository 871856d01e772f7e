import { setTimeout as wait } from "node:timers/promises";
import type { CommandRequest, CommandStore } from "./commands.ts";
import type { CloudFaults, Fault, Op } from "./faults.ts";
import type { InstanceRequest, Instances } from "./instances.ts";
import type { CloudLog, LogLine } from "./log.ts";
import { type AttachmentRequest, createSteps, refusal } from "./steps.ts";
import type { Volume, VolumeRequest, VolumeStore } from "./volumes.ts";

/** What an operation comes to. `killCaller`: kill the caller, answer nothing. */
export type Result =
  | { readonly kind: "created" | "existing"; readonly body: unknown }
  | { readonly kind: "deleted" }
  | { readonly kind: "failed"; readonly status: number; readonly code: string; readonly message: string }
  | { readonly kind: "killCaller" };

export interface Operations {
  createVolume(request: VolumeRequest): Promise<Result>;
  deleteVolume(target: { readonly id: string } | { readonly tag: string; readonly name: string }): Promise<Result>;
  createInstance(request: InstanceRequest): Promise<Result>;
  deleteInstance(target: { readonly tag: string; readonly name: string }): Promise<Result>;
  attachVolume(request: AttachmentRequest): Promise<Result>;
  detachVolume(request: AttachmentRequest): Promise<Result>;
  runCommand(request: CommandRequest): Promise<Result>;
  stopCommand(id: string, graceSeconds: number): Promise<Result>;
  /** Resolves when no operation is under way. */
  idle(): Promise<void>;
}

interface Parts {
  readonly volumes: VolumeStore;
  readonly instances: Instances;
  readonly commands: CommandStore;
  readonly faults: CloudFaults;
  readonly log: CloudLog;
  /** Aborted when the cloud stops: waits end, and what was still waiting is not done. */
  readonly stopped: AbortSignal;
}

type Started = { readonly op: Op; readonly key: string | null; readonly name: string };
/** How a step ended; `key` when it is known only then. */
export type Ended = { readonly outcome: LogLine["outcome"]; readonly key?: string | null; readonly result: Result };

/**
 * The operations of the provider. They know nothing of the connection they came by: one that has begun
 * completes even when its caller is gone. The step that changes the disk is synchronous, so two operations
 * never see each other half done.
 */
export function createOperations({ volumes, instances, commands, faults, log, stopped }: Parts): Operations {
  const underWay = new Set<Promise<unknown>>();
  const steps = createSteps(volumes, instances, commands);

  function track(work: Promise<Result>): Promise<Result> {
    underWay.add(work);
    const forget = () => underWay.delete(work);
    work.then(forget, forget);
    return work;
  }

  async function create(request: VolumeRequest): Promise<Result> {
    return suffer({ op: "createVolume", key: request.key, name: request.name }, () => {
      if (request.tag !== null && volumes.isClosed(request.tag)) {
        const message = `the volumes of tag ${request.tag} have been deleted; it gets no new ones`;
        return { outcome: "failed", result: refusal(409, "TAG_CLOSED", message) };
      }
      const { volume, made } = volumes.create(request);
      const kind = made ? "created" : "existing";
      return { outcome: kind, result: { kind, body: volume } };
    });
  }

  async function remove(target: { id: string } | { tag: string; name: string }): Promise<Result> {
    const find = () => ("id" in target ? [volumes.get(target.id)].filter(isVolume) : volumes.byTag(target.tag));
    const first = find()[0];
    const name = first?.name ?? ("name" in target ? target.name : "");
    return suffer({ op: "deleteVolume", key: first?.key ?? null, name }, () => {
      const used = find().find(({ id }) => steps.holder(id) !== undefined);
      if (used !== undefined) {
        const message = `${used.id} is attached to ${steps.holder(used.id)}`;
        return { outcome: "failed", result: refusal(409, "VOLUME_IN_USE", message) };
      }
      // Closed before it looks: a create of this tag that is still under way makes nothing after this.
      if ("tag" in target) volumes.closeTag(target.tag);
      const found = find();
      for (const { id } of found) volumes.remove(id);
      const outcome = found.length > 0 ? "deleted" : "missing";
      return { outcome, key: found[0]?.key ?? null, result: { kind: "deleted" } };
    });
  }

  const instanceName = (id: string | undefined) => instances.get(id ?? "")?.name ?? "";
  /** Both names, so that a fault can be meant for either. */
  const attachment = (op: Op, { volumeId, instanceId }: AttachmentRequest): Started => ({
    op,
    key: null,
    name: `${volumes.get(volumeId)?.name ?? ""} ${instanceName(instanceId)}`.trim(),
  });

  /** Runs the step under the fault that hits it, if any, and writes exactly one line about it. */
  async function suffer(line: Started, step: () => Ended | Promise<Ended>): Promise<Result> {
    const fault: Fault | undefined = faults.take(line.op, line.name);
    if (fault?.kind === "fail") {
      log.write({ ...line, outcome: "failed" });
      return refusal(500, "FAULT", `${line.op} was made to fail`);
    }
    if (fault?.kind === "delay") await wait(fault.seconds * 1000, undefined, { signal: stopped });

    const { result, outcome, key = line.key } = await step();
    if (fault?.kind !== "killCaller" || result.kind === "failed") {
      log.write({ ...line, key, outcome });
      return result;
    }
    await wait(fault.seconds * 1000, undefined, { signal: stopped });
    log.write({ ...line, key, outcome: "killed" });
    return { kind: "killCaller" };
  }

  return {
    createVolume: (request) => track(create(request)),
    deleteVolume: (target) => track(remove(target)),
    createInstance: (request) =>
      track(
        suffer({ op: "createInstance", key: request.key, name: request.name }, () => steps.createInstance(request)),
      ),
    deleteInstance({ tag, name }) {
      const first = instances.byTag(tag)[0];
      const line: Started = { op: "deleteInstance", key: first?.key ?? null, name: first?.name ?? name };
      return track(suffer(line, () => steps.deleteInstance(tag)));
    },
    attachVolume: (request) => track(suffer(attachment("attachVolume", request), () => steps.attach(request))),
    detachVolume: (request) => track(suffer(attachment("detachVolume", request), () => steps.detach(request))),
    runCommand(request) {
      const line: Started = { op: "runCommand", key: request.key, name: instanceName(request.instanceId) };
      return track(suffer(line, () => steps.run(request)));
    },
    stopCommand(id, graceSeconds) {
      const command = commands.get(id);
      const line: Started = { op: "stopCommand", key: command?.key ?? null, name: instanceName(command?.instanceId) };
      return track(suffer(line, () => steps.stop(id, graceSeconds)));
    },
    async idle() {
      await Promise.allSettled(underWay);
    },
  };
}

const isVolume = (volume: Volume | undefined): volume is Volume => volume !== undefined;
