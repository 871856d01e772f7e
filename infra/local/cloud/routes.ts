import { LocalError } from "../errors.ts";
import type { CloudFaults } from "./faults.ts";
import type { CloudLog } from "./log.ts";
import type { Operations, Result } from "./operations.ts";
import { parseFault, parseVolumeRequest } from "./requests.ts";
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
  readonly operations: Operations;
  readonly faults: CloudFaults;
  readonly log: CloudLog;
}

/** One request of the cloud's HTTP interface to its answer. */
export async function route(request: CloudRequest, parts: RouteParts): Promise<CloudAnswer> {
  const { method, url } = request;
  const [, collection, id, ...rest] = url.pathname.split("/");
  if (rest.length > 0) return notFound(url.pathname);
  try {
    switch (`${method} ${collection}${id === undefined ? "" : "/:id"}`) {
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
      return { status: 201, body: result.volume };
    case "existing":
      return { status: 200, body: result.volume };
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
  // Without a tag this would be "delete every volume of everybody".
  if (tag === null || tag === "")
    throw new LocalError("BAD_REQUEST", { field: "tag", problem: "must say whose volumes to delete" });
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
