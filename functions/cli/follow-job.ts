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
}

/** Reads a job's output until it has ended, by short requests. Answers the job, or undefined when interrupted. */
export async function followJob(session: Session, id: string, { onStatus, onText }: Following) {
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
      const { text, next, ended } = await client.call<OutputJson>("GET", `${path}/output?from=${from}`);
      from = next;
      failures = 0;
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

/** All that there is of a job's output now. */
export async function readOutput(session: Session, id: string): Promise<OutputJson> {
  let text = "";
  for (let from = 0; ; ) {
    const part = await session.client.call<OutputJson>("GET", `/jobs/${encodeURIComponent(id)}/output?from=${from}`);
    text += part.text;
    if (part.ended || part.next === from) return { ...part, text };
    from = part.next;
  }
}
