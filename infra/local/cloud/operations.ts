import { setTimeout as wait } from "node:timers/promises";
import type { CloudFaults, Fault, Op } from "./faults.ts";
import type { CloudLog, LogLine } from "./log.ts";
import type { Volume, VolumeRequest, VolumeStore } from "./volumes.ts";

/** What an operation comes to. `killCaller`: kill the caller, answer nothing. */
export type Result =
  | { readonly kind: "created" | "existing"; readonly volume: Volume }
  | { readonly kind: "deleted" }
  | { readonly kind: "failed"; readonly status: number; readonly code: string; readonly message: string }
  | { readonly kind: "killCaller" };

export interface Operations {
  createVolume(request: VolumeRequest): Promise<Result>;
  deleteVolume(target: { readonly id: string } | { readonly tag: string; readonly name: string }): Promise<Result>;
  /** Resolves when no operation is under way. */
  idle(): Promise<void>;
}

interface Parts {
  readonly volumes: VolumeStore;
  readonly faults: CloudFaults;
  readonly log: CloudLog;
  /** Aborted when the cloud stops: waits end, and what was still waiting is not done. */
  readonly stopped: AbortSignal;
}

type Started = { readonly op: Op; readonly key: string | null; readonly name: string };
type Ended = { readonly outcome: LogLine["outcome"]; readonly key?: string | null; readonly result: Result };

/**
 * The operations of the provider. They know nothing of the connection they came by: one that has begun
 * completes even when its caller is gone. The step that changes the disk is synchronous, so two operations
 * never see each other half done.
 */
export function createOperations({ volumes, faults, log, stopped }: Parts): Operations {
  const underWay = new Set<Promise<unknown>>();

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
      return { outcome: kind, result: { kind, volume } };
    });
  }

  async function remove(target: { id: string } | { tag: string; name: string }): Promise<Result> {
    const find = () => ("id" in target ? [volumes.get(target.id)].filter(isVolume) : volumes.byTag(target.tag));
    const first = find()[0];
    const name = first?.name ?? ("name" in target ? target.name : "");
    return suffer({ op: "deleteVolume", key: first?.key ?? null, name }, () => {
      // Closed before it looks: a create of this tag that is still under way makes nothing after this.
      if ("tag" in target) volumes.closeTag(target.tag);
      const found = find();
      for (const { id } of found) volumes.remove(id);
      const outcome = found.length > 0 ? "deleted" : "missing";
      return { outcome, key: found[0]?.key ?? null, result: { kind: "deleted" } };
    });
  }

  /** Runs the step under the fault that hits it, if any, and writes exactly one line about it. */
  async function suffer(line: Started, step: () => Ended): Promise<Result> {
    const fault: Fault | undefined = faults.take(line.op, line.name);
    if (fault?.kind === "fail") {
      log.write({ ...line, outcome: "failed" });
      return refusal(500, "FAULT", `${line.op} was made to fail`);
    }
    if (fault?.kind === "delay") await wait(fault.seconds * 1000, undefined, { signal: stopped });

    const { result, outcome, key = line.key } = step();
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
    async idle() {
      await Promise.allSettled(underWay);
    },
  };
}

const refusal = (status: number, code: string, message: string): Result => ({ kind: "failed", status, code, message });
const isVolume = (volume: Volume | undefined): volume is Volume => volume !== undefined;
