import type { Cloud } from "../cloud/cloud.ts";

/** As much of a job's output is kept: bytes. */
export const KEPT_BYTES = 64 * 1024;

/**
 * The last 64 KiB that a command has written. Finds the end of an output of any length by a few dozen looks, and does
 * not read what is before. A text in PostgreSQL cannot hold the character 0, which becomes U+FFFD.
 */
export async function outputTail(cloud: Cloud, commandId: string, signal: AbortSignal): Promise<string> {
  const read = (from: number) => cloud.readOutput(commandId, from, { signal });
  const end = await endOf(async (from) => (await read(from)).next);
  const start = Math.max(0, end - KEPT_BYTES);
  let text = "";
  for (let from = start; from < end; ) {
    const chunk = await read(from);
    if (chunk.next <= from) break;
    text += chunk.text;
    from = chunk.next;
  }
  // it may begin inside a character
  return (start === 0 ? text : text.replace(/^\uFFFD+/, "")).replaceAll("\0", "\uFFFD");
}

/** The first offset at which there is nothing to read; `nextOf(offset)` is the offset itself there. */
async function endOf(nextOf: (from: number) => Promise<number>): Promise<number> {
  let known = await nextOf(0);
  if (known === 0) return 0;
  let beyond = known + KEPT_BYTES;
  for (let step = KEPT_BYTES; ; step *= 2) {
    const next = await nextOf(beyond);
    if (next <= beyond) break;
    known = next;
    beyond = known + step;
  }
  while (beyond - known > KEPT_BYTES) {
    const middle = known + Math.floor((beyond - known) / 2);
    const next = await nextOf(middle);
    if (next > middle) known = next;
    else beyond = middle;
  }
  for (;;) {
    const next = await nextOf(known);
    if (next <= known) return known;
    known = next;
  }
}
