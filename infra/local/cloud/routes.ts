import { LocalError } from "../errors.ts";
import type { CommandStore } from "./commands.ts";
import type { CloudFaults } from "./faults.ts";
import type { Instances } from "./instances.ts";
import type { CloudLog } from "./log.ts";
import type { Operations, Result } from "./operations.ts";
import {
  parseAttachment,
  parseCommandRequest,
  parseFault,
  parseInstanceRequest,
  parseOffset,
  parseStop,
  parseVolumeRequest,
} from "./requests.ts";
import type { VolumeStore } from "./volumes.ts";

export interface CloudRequest {
  readonly method: string;
  /** Path and query without the sandbox's prefix. */
  readonly url: URL;
  readonly body: string;
}
export type CloudAnswer = { readonly status: number; readonly body?: unknown } | "killCaller";

export interface RouteParts {
  readonly volumes: VolumeStore;
  readonly instances: Instances;
  readonly commands: CommandStore;
  readonly operations: Operations;
  readonly faults: CloudFaults;
  readonly log: CloudLog;
}

/** One request of the cloud's HTTP interface to its answer. */
export async function route(request: CloudRequest, parts: RouteParts): Promise<CloudAnswer> {
  const { method, url } = request;
  const [, collection, id, ...more] = url.pathname.split("/");
  try {
    switch ([`${method} ${collection}`, ...(id === undefined ? [] : [":id"]), ...more].join("/")) {
      case "POST volumes":
        return answer(await parts.operations.createVolume(parseVolumeRequest(json(request.body))));
      case "GET volumes":
        return { status: 200, body: find(url.searchParams, parts.volumes) };
      case "DELETE volumes":
        return answer(await parts.operations.deleteVolume(tagOf(url.searchParams)));
      case "GET volumes/:id": {
        const volume = parts.volumes.get(id ?? "");
        return volume === undefined ? notFound(`volume ${id}`) : { status: 200, body: volume };
      }
      case "DELETE volumes/:id":
        return answer(await parts.operations.deleteVolume({ id: id ?? "" }));
      case "POST instances":
        return answer(await parts.operations.createInstance(parseInstanceRequest(json(request.body))));
      case "GET instances": {
        const tag = url.searchParams.get("tag");
        return { status: 200, body: tag === null ? parts.instances.list() : parts.instances.byTag(tag) };
      }
      case "DELETE instances":
        return answer(await parts.operations.deleteInstance(tagOf(url.searchParams)));
      case "GET instances/:id":
        return { status: 200, body: { ...parts.instances.get(id ?? ""), state: parts.instances.state(id ?? "") } };
      case "POST attachments":
        return answer(await parts.operations.attachVolume(parseAttachment(json(request.body))));
      case "DELETE attachments":
        return answer(await parts.operations.detachVolume(parseAttachment(Object.fromEntries(url.searchParams))));
      case "POST commands":
        return answer(await parts.operations.runCommand(parseCommandRequest(json(request.body))));
      case "GET commands/:id":
        return { status: 200, body: parts.commands.state(id ?? "") };
      case "POST commands/:id/stop":
        return answer(await parts.operations.stopCommand(id ?? "", parseStop(json(request.body))));
      case "GET commands/:id/output":
        return { status: 200, body: parts.commands.output(id ?? "", parseOffset(url.searchParams.get("from"))) };
      case "POST faults": {
        const fault = parseFault(json(request.body));
        parts.faults.add(fault);
        return { status: 201, body: fault };
      }
      case "GET faults":
        return { status: 200, body: parts.faults.list() };
      case "DELETE faults":
        parts.faults.clear();
        return { status: 204 };
      case "GET log":
        return { status: 200, body: parts.log.lines() };
      default:
        return notFound(`${method} ${url.pathname}`);
    }
  } catch (error) {
    if (error instanceof LocalError && error.code === "BAD_REQUEST") return failure(400, error.code, error.message);
    throw error;
  }
}

function answer(result: Result): CloudAnswer {
  switch (result.kind) {
    case "created":
      return { status: 201, body: result.body };
    case "existing":
      return { status: 200, body: result.body };
    case "deleted":
      return { status: 204 };
    case "failed":
      return failure(result.status, result.code, result.message);
    case "killCaller":
      return "killCaller";
  }
}

function find(query: URLSearchParams, volumes: VolumeStore) {
  const key = query.get("key");
  const tag = query.get("tag");
  if (key !== null) return [volumes.byKey(key)].filter((volume) => volume !== undefined);
  return tag === null ? volumes.list() : volumes.byTag(tag);
}

function tagOf(query: URLSearchParams) {
  const tag = query.get("tag");
  // Without a tag this would be "delete everything of everybody".
  if (tag === null || tag === "")
    throw new LocalError("BAD_REQUEST", { field: "tag", problem: "must say whose things to delete" });
  return { tag, name: query.get("name") ?? "" };
}

function json(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    throw new LocalError("BAD_REQUEST", { field: "body", problem: "must be JSON" });
  }
}

export const failure = (status: number, code: string, message: string) => ({ status, body: { code, message } });
const notFound = (what: string) => failure(404, "NOT_FOUND", `${what}: no such thing`);
