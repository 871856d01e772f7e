import type { Cloud } from "../cloud/cloud.ts";

/** As much of a job's output is kept: bytes. */
export const KEPT_BYTES = 64 * 1024;

export interface OutputTail {
  readonly text: string;
  /** The byte of the whole output at which the text begins; it has as many bytes as it stands for. */
  readonly from: number;
}

/**
 * The last 64 KiB that a command has written. Finds the end of an output of any length by a few dozen looks, and does
 * not read what is before. A text in PostgreSQL cannot hold the character 0, which becomes a question mark, as do bytes
 * that are no text: whatever is replaced keeps its length, so that bytes of the text can be counted.
 */
export async function outputTail(cloud: Cloud, commandId: string, signal: AbortSignal): Promise<OutputTail> {
  const read = (from: number) => cloud.readOutput(commandId, from, { signal });
  const end = await endOf(async (from) => (await read(from)).next);
  let start = Math.max(0, end - KEPT_BYTES);
  let text = "";
  for (let from = start; from < end; ) {
    const chunk = await read(from);
    const bytes = chunk.next - from;
    if (bytes <= 0) break;
    const cut = from > 0 && from === start && Buffer.byteLength(chunk.text) !== bytes ? restOfCharacter(chunk.text) : 0;
    text += ofLength(chunk.text.slice(cut), bytes - cut);
    start += cut;
    from = chunk.next;
  }
  return { text: text.replaceAll("\0", "?"), from: start };
}

/** Bytes at the beginning that belong to a character before it: each was read as U+FFFD. */
const restOfCharacter = (text: string): number => /^\uFFFD{0,3}/.exec(text)![0].length;

/** The text in so many bytes: what was read as U+FFFD stands for one to three of them, and becomes as many question marks. */
function ofLength(text: string, bytes: number): string {
  let marks = text.split("\uFFFD").length - 1;
  let left = bytes - (Buffer.byteLength(text) - 3 * marks);
  if (left === 3 * marks) return text;
  return text.replaceAll("\uFFFD", () => {
    const length = Math.max(1, left - 3 * --marks);
    left -= length;
    return "?".repeat(length);
  });
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
