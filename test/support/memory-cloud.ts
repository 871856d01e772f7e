import type { Cloud, CommandState, InstanceState } from "../../functions/cloud/cloud.ts";
import { CloudError } from "../../functions/cloud/errors.ts";

interface Command {
  readonly instanceId: string;
  readonly command: readonly string[];
  readonly volumes: readonly string[];
  state: CommandState;
  output: Buffer;
}

/** A provider in memory that refuses what the real ones refuse; tests move its instances and commands on. */
export interface MemoryCloud extends Cloud {
  /** Operations in the order in which they were done. */
  readonly calls: string[];
  readonly instances: Map<string, { readonly tag: string; readonly name: string; state: InstanceState }>;
  readonly volumes: Map<string, { readonly tag: string; readonly name: string; holder: string | undefined }>;
  readonly commands: Map<string, Command>;
  /** Ends a command. */
  exit(commandId: string, exitCode: number): void;
  /** An instance dies, and what runs on it is lost. */
  die(instanceId: string): void;
  /** The next call of this operation is done, but its answer does not arrive. */
  loseAnswer(op: keyof Cloud): void;
  /** The next call of this operation waits here, undone, until the work given ends. */
  during(op: keyof Cloud, work: () => Promise<void>): void;
}

export function memoryCloud(): MemoryCloud {
  const calls: string[] = [];
  const instances: MemoryCloud["instances"] = new Map();
  const volumes: MemoryCloud["volumes"] = new Map();
  const commands: MemoryCloud["commands"] = new Map();
  const closed = new Set<string>();
  const lost: string[] = [];
  const during = new Map<string, () => Promise<void>>();

  const refuse = (op: string, code: string) => {
    throw new CloudError("CLOUD_REFUSED", { op, status: 409, code, reason: code });
  };
  /** Does a step as a call does. */
  async function call<T>(op: keyof Cloud, signal: AbortSignal, step: () => T): Promise<T> {
    signal.throwIfAborted();
    const first = during.get(op);
    during.delete(op);
    await first?.();
    calls.push(op);
    const result = step();
    const n = lost.indexOf(op);
    if (n < 0) return result;
    lost.splice(n, 1);
    throw new CloudError("CLOUD_UNREACHABLE", { op, url: "memory", reason: "the answer was lost" });
  }
  const stateOf = (id: string): InstanceState => instances.get(id)?.state ?? "gone";
  const holderOf = (volumeId: string) => {
    const holder = volumes.get(volumeId)?.holder;
    return holder === undefined || stateOf(holder) === "gone" ? undefined : holder;
  };
  const lose = (instanceId: string) => {
    for (const command of commands.values())
      if (command.instanceId === instanceId && command.state.state === "running")
        command.state = { state: "lost", reason: "its instance ended" };
  };

  return {
    calls,
    instances,
    volumes,
    commands,
    exit(commandId, exitCode) {
      commands.get(commandId)!.state = { state: "exited", exitCode };
    },
    die(id) {
      instances.get(id)!.state = "gone";
      lose(id);
    },
    loseAnswer: (op) => void lost.push(op),
    during: (op, work) => void during.set(op, work),

    createVolume: ({ key, tag, name }, { signal }) =>
      call("createVolume", signal, () => {
        if (closed.has(tag)) refuse("createVolume", "TAG_CLOSED");
        const id = `vol-${key}`;
        if (!volumes.has(id)) volumes.set(id, { tag, name, holder: undefined });
        return { id };
      }),
    deleteVolume: ({ tag }, { signal }) =>
      call("deleteVolume", signal, () => {
        const found = [...volumes].filter(([, volume]) => volume.tag === tag);
        if (found.some(([id]) => holderOf(id) !== undefined)) refuse("deleteVolume", "VOLUME_IN_USE");
        closed.add(tag);
        for (const [id] of found) volumes.delete(id);
      }),
    findVolumes: (tag, { signal }) =>
      call("findVolumes", signal, () => [...volumes].filter(([, v]) => v.tag === tag).map(([id]) => id)),

    createInstance: ({ key, tag, name }, { signal }) =>
      call("createInstance", signal, () => {
        if (closed.has(tag)) refuse("createInstance", "TAG_CLOSED");
        const id = `i-${key}`;
        if (!instances.has(id)) instances.set(id, { tag, name, state: "running" });
        return { id };
      }),
    instanceState: (id, { signal }) => call("instanceState", signal, () => stateOf(id)),
    deleteInstance: ({ tag }, { signal }) =>
      call("deleteInstance", signal, () => {
        closed.add(tag);
        for (const [id, instance] of instances)
          if (instance.tag === tag) {
            lose(id);
            instances.delete(id);
          }
      }),
    findInstances: (tag, { signal }) =>
      call("findInstances", signal, () => [...instances].filter(([, i]) => i.tag === tag).map(([id]) => id)),

    attachVolume: ({ volumeId, instanceId }, { signal }) =>
      call("attachVolume", signal, () => {
        const volume = volumes.get(volumeId);
        if (volume === undefined) return refuse("attachVolume", "VOLUME_GONE");
        if (stateOf(instanceId) === "gone") refuse("attachVolume", "INSTANCE_GONE");
        const other = holderOf(volumeId);
        if (other !== undefined && other !== instanceId) refuse("attachVolume", "VOLUME_IN_USE");
        volume.holder = instanceId;
      }),
    detachVolume: ({ volumeId, instanceId }, { signal }) =>
      call("detachVolume", signal, () => {
        const volume = volumes.get(volumeId);
        if (volume?.holder === instanceId) volume.holder = undefined;
      }),

    runCommand: ({ key, instanceId, command, volumes: wanted }, { signal }) =>
      call("runCommand", signal, () => {
        const id = `cmd-${key}`;
        if (commands.has(id)) return { id };
        if (stateOf(instanceId) === "gone") refuse("runCommand", "INSTANCE_GONE");
        if (wanted.some((volume) => holderOf(volume.id) !== instanceId)) refuse("runCommand", "VOLUME_NOT_ATTACHED");
        if (command.length === 0) refuse("runCommand", "BAD_COMMAND");
        const names = wanted.map(({ name }) => name);
        commands.set(id, { instanceId, command, volumes: names, state: { state: "running" }, output: Buffer.alloc(0) });
        return { id };
      }),
    commandState: (id, { signal }) =>
      call("commandState", signal, () => commands.get(id)?.state ?? { state: "lost", reason: `${id} is not known` }),
    stopCommand: (id, _graceSeconds, { signal }) =>
      call("stopCommand", signal, () => {
        const command = commands.get(id);
        if (command?.state.state === "running") command.state = { state: "exited", exitCode: 143 };
      }),
    readOutput: (id, from, { signal }) =>
      call("readOutput", signal, () => {
        const chunk = (commands.get(id)?.output ?? Buffer.alloc(0)).subarray(from, from + 16_000);
        return { text: chunk.toString("utf8"), next: from + chunk.length };
      }),
  };
}
