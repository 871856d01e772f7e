/**
 * What a caller of the cloud can be made to suffer.
 * `delay`: the operation takes `seconds`; it completes even when its caller goes away meanwhile.
 * `fail`: nothing is done, the answer is an error.
 * `killCaller`: the operation is done, then (after `seconds`) its caller is killed instead of being answered.
 */
export type FaultKind = "delay" | "fail" | "killCaller";

/** The operations of the cloud, by the names that the log and the faults use. */
export type Op =
  | "createVolume"
  | "deleteVolume"
  | "createInstance"
  | "deleteInstance"
  | "attachVolume"
  | "detachVolume"
  | "runCommand"
  | "stopCommand";

export interface Fault {
  /** An operation's name, or a part of the name of a volume or an instance; null matches every operation. */
  readonly match: string | null;
  readonly kind: FaultKind;
  readonly seconds: number;
  /** How many more operations it will hit. */
  count: number;
}

export interface CloudFaults {
  add(fault: Fault): void;
  /** The fault that hits this operation, one of its count used up; undefined when none does. Oldest first. */
  take(op: Op, name: string): Fault | undefined;
  list(): readonly Readonly<Fault>[];
  clear(): void;
}

export function createFaults(): CloudFaults {
  let faults: Fault[] = [];
  return {
    add(fault) {
      faults.push({ ...fault });
    },
    take(op, name) {
      const hit = faults.find(({ match }) => match === null || match === op || name.includes(match));
      if (hit === undefined) return undefined;
      hit.count -= 1;
      faults = faults.filter(({ count }) => count > 0);
      return { ...hit };
    },
    list: () => faults.map((fault) => ({ ...fault })),
    clear() {
      faults = [];
    },
  };
}
