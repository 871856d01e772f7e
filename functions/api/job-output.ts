import type { Cloud } from "../cloud/cloud.ts";
import { CloudError } from "../cloud/errors.ts";
import { hasEnded } from "./job-json.ts";
import type { OutputRow } from "./job-rows.ts";
import type { OutputJson } from "./json.ts";
import { ApiProblem } from "./problems.ts";

/** Longest wait for the cloud, in milliseconds: well below the function's own timeout. */
const CLOUD_MS = 15_000;

/**
 * What a job has written from a byte on: by the cloud while it runs, from its row when it has ended. The row keeps the
 * last 64 KiB. Who has read a part before them gets the rest from the cloud as long as it has it; then, and when all is
 * asked for, the answer says how many bytes it leaves out.
 * @throws OUTPUT_UNREACHABLE
 */
export async function readJobOutput(id: string, row: OutputRow, from: number, cloud: () => Cloud): Promise<OutputJson> {
  const ended = hasEnded(row);
  if (row.command_id !== null && (!ended || (from > 0 && from < row.output_from))) {
    const { text, next } = await readCloud(id, row.command_id, from, cloud);
    if (!ended || next > from) return { text, next, ended: false };
  }
  return ended ? keptOutput(row, from) : { text: "", next: from, ended };
}

function keptOutput({ output, output_from: begin }: OutputRow, from: number): OutputJson {
  const kept = Buffer.from(output ?? "");
  const text = kept.subarray(Math.max(0, from - begin)).toString("utf8");
  const answer = { text, next: Math.max(from, begin + kept.length), ended: true };
  return from < begin ? { ...answer, skipped: begin - from } : answer;
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
