import type { Cloud } from "../cloud/cloud.ts";
import { CloudError } from "../cloud/errors.ts";
import { KEPT_BYTES } from "../pipelines/output-tail.ts";
import { hasEnded } from "./job-json.ts";
import type { OutputRow } from "./job-rows.ts";
import type { OutputJson } from "./json.ts";
import { ApiProblem } from "./problems.ts";

/** Longest wait for the cloud, in milliseconds: well below the function's own timeout. */
const CLOUD_MS = 15_000;

/**
 * What a job has written from a byte on: by the cloud while it runs, from its row when it has ended. The row keeps the
 * last 64 KiB, whose place in a longer output is not known: who has read a part of one already gets the rest from the
 * cloud, as long as it has it.
 * @throws OUTPUT_UNREACHABLE
 */
export async function readJobOutput(id: string, row: OutputRow, from: number, cloud: () => Cloud): Promise<OutputJson> {
  const ended = hasEnded(row);
  const kept = Buffer.from(row.output ?? "");
  const wholeKept = kept.length < KEPT_BYTES - 3;
  if (ended && (from === 0 || wholeKept)) {
    return { text: kept.subarray(from).toString("utf8"), next: Math.max(from, kept.length), ended };
  }
  if (row.command_id === null) return { text: "", next: from, ended };
  const { text, next } = await readCloud(id, row.command_id, from, cloud);
  return { text, next, ended: ended && next === from };
}

async function readCloud(id: string, commandId: string, from: number, cloud: () => Cloud) {
  try {
    return await cloud().readOutput(commandId, from, { signal: AbortSignal.timeout(CLOUD_MS) });
  } catch (error) {
    // the cloud has nothing of the command any more
    if (error instanceof CloudError && error.code === "CLOUD_REFUSED") return { text: "", next: from };
    const timedOut = error instanceof DOMException && error.name === "TimeoutError";
    if (!timedOut && !(error instanceof CloudError && error.code !== "CLOUD_SETTING")) throw error;
    const reason = timedOut ? `no answer within ${CLOUD_MS / 1000} s` : (error as CloudError).code;
    throw new ApiProblem("OUTPUT_UNREACHABLE", { id, reason });
  }
}
