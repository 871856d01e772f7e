import type { JobJson, OutputJson } from "../api/json.ts";
import { ApiError } from "./client.ts";
import type { Session } from "./session.ts";

/** Between two looks, in milliseconds: at first, and when nothing happens for long. */
const SOON = 300;
const LATE = 2_000;
/** As many looks in a row may fail because something cannot answer now. */
const PATIENCE = 20;

export interface Following {
  /** Called when the job has another status than before. */
  readonly onStatus: (job: JobJson) => void;
  readonly onText: (text: string) => void;
  /** Called when so many bytes of the output come no more. */
  readonly onSkipped: (bytes: number) => void;
}

/** Reads a job's output until it has ended, by short requests. Answers the job, or undefined when interrupted. */
export async function followJob(session: Session, id: string, { onStatus, onText, onSkipped }: Following) {
  const { client, interrupted } = session;
  const path = `/jobs/${encodeURIComponent(id)}`;
  let status: JobJson["status"] | undefined;
  let from = 0;
  let wait = SOON;
  let failures = 0;
  while (!interrupted.aborted) {
    try {
      const job = await client.call<JobJson>("GET", path);
      const changed = job.status !== status;
      status = job.status;
      if (changed) onStatus(job);
      const { text, skipped, next, ended } = await client.call<OutputJson>("GET", `${path}/output?from=${from}`);
      from = next;
      failures = 0;
      if (skipped !== undefined) onSkipped(skipped);
      if (text !== "") onText(text);
      // The output may have ended after the job was read.
      if (ended) return job.finishedAt === null ? await client.call<JobJson>("GET", path) : job;
      wait = changed || text !== "" ? SOON : Math.min(LATE, wait * 1.5);
    } catch (error) {
      const passing = error instanceof ApiError && error.problem.status === 503;
      if (!passing || ++failures > PATIENCE) throw error;
      wait = LATE;
    }
    await session.pause(wait);
  }
  return undefined;
}

/** What to tell of bytes that come no more. */
export const skippedText = (bytes: number): string => `${bytes} bytes of the output before this are no longer kept`;

/** All that there is of a job's output now. */
export async function readOutput(session: Session, id: string): Promise<OutputJson> {
  let text = "";
  let begin = 0;
  for (let from = 0; ; ) {
    const part = await session.client.call<OutputJson>("GET", `/jobs/${encodeURIComponent(id)}/output?from=${from}`);
    // Before a gap, which opens when the job ends meanwhile, is what belongs to another place.
    if (part.skipped !== undefined) [text, begin] = ["", from + part.skipped];
    text += part.text;
    if (part.ended || part.next === from) return { ...part, text, ...(begin === 0 ? {} : { skipped: begin }) };
    from = part.next;
  }
}
