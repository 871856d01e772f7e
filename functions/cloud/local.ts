import type { Cloud, CommandState, InstanceState } from "./cloud.ts";
import { CloudError } from "./errors.ts";
import { callsTo, objectOf } from "./local-http.ts";

/** The provider of the local stack, over HTTP at `url` (no slash at its end). */
export function createLocalCloud(url: string): Cloud {
  const call = callsTo(url);
  const post = async (op: string, path: string, body: unknown, signal: AbortSignal) =>
    call(op, { method: "POST", path, body, signal });
  const get = async (op: string, path: string, signal: AbortSignal) => call(op, { method: "GET", path, signal });
  const remove = async (op: string, path: string, query: Record<string, string>, signal: AbortSignal) => {
    await call(op, { method: "DELETE", path: `${path}?${new URLSearchParams(query)}`, signal });
  };

  /** The answer when it is what was asked for. Errors: CLOUD_ANSWER. */
  function understood<T>(op: string, answer: unknown, read: (answer: unknown) => T | undefined, what: string): T {
    const value = read(answer);
    if (value !== undefined) return value;
    throw new CloudError("CLOUD_ANSWER", { op, url, reason: `no ${what} in ${JSON.stringify(answer)?.slice(0, 200)}` });
  }

  const create = async (op: string, path: string, body: unknown, signal: AbortSignal) =>
    understood(op, await post(op, path, body, signal), idOf, "id");
  const find = async (op: string, path: string, tag: string, signal: AbortSignal) =>
    understood(op, await get(op, `${path}?${new URLSearchParams({ tag })}`, signal), idsOf, "ids");

  return {
    createVolume: async ({ key, tag, name, sizeGb }, { signal }) =>
      create("createVolume", "/volumes", { key, tag, name, sizeGb }, signal),
    deleteVolume: async ({ tag, name }, { signal }) => remove("deleteVolume", "/volumes", { tag, name }, signal),
    findVolumes: async (tag, { signal }) => find("findVolumes", "/volumes", tag, signal),

    createInstance: async ({ key, tag, name }, { signal }) =>
      create("createInstance", "/instances", { key, tag, name }, signal),
    async instanceState(id, { signal }) {
      const op = "instanceState";
      return understood(op, await get(op, `/instances/${encodeURIComponent(id)}`, signal), instanceState, "state");
    },
    deleteInstance: async ({ tag, name }, { signal }) => remove("deleteInstance", "/instances", { tag, name }, signal),
    findInstances: async (tag, { signal }) => find("findInstances", "/instances", tag, signal),

    async attachVolume({ volumeId, instanceId }, { signal }) {
      await post("attachVolume", "/attachments", { volumeId, instanceId }, signal);
    },
    detachVolume: async ({ volumeId, instanceId }, { signal }) =>
      remove("detachVolume", "/attachments", { volumeId, instanceId }, signal),

    runCommand: async ({ key, instanceId, command, volumes }, { signal }) =>
      create("runCommand", "/commands", { key, instanceId, command, volumes }, signal),
    async commandState(id, { signal }) {
      const op = "commandState";
      return understood(op, await get(op, `/commands/${encodeURIComponent(id)}`, signal), commandState, "state");
    },
    async stopCommand(id, graceSeconds, { signal }) {
      await post("stopCommand", `/commands/${encodeURIComponent(id)}/stop`, { graceSeconds }, signal);
    },
    async readOutput(id, from, { signal }) {
      const op = "readOutput";
      const path = `/commands/${encodeURIComponent(id)}/output?from=${from}`;
      return understood(op, await get(op, path, signal), outputOf, "text");
    },
  };
}

function idOf(answer: unknown): { readonly id: string } | undefined {
  const id = objectOf(answer)?.["id"];
  return typeof id === "string" ? { id } : undefined;
}

function idsOf(answer: unknown): readonly string[] | undefined {
  if (!Array.isArray(answer)) return undefined;
  const ids = answer.map((each) => idOf(each)?.id);
  return ids.every((id) => id !== undefined) ? ids : undefined;
}

function instanceState(answer: unknown): InstanceState | undefined {
  const state = objectOf(answer)?.["state"];
  return state === "starting" || state === "running" || state === "gone" ? state : undefined;
}

function commandState(answer: unknown): CommandState | undefined {
  const { state, exitCode, reason } = objectOf(answer) ?? {};
  if (state === "running") return { state };
  if (state === "exited" && typeof exitCode === "number") return { state, exitCode };
  return state === "lost" && typeof reason === "string" ? { state, reason } : undefined;
}

function outputOf(answer: unknown): { readonly text: string; readonly next: number } | undefined {
  const { text, next } = objectOf(answer) ?? {};
  return typeof text === "string" && typeof next === "number" ? { text, next } : undefined;
}
