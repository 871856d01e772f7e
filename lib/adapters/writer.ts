import { type Writer, type WriterOptions, writerOf } from "../write/writer.ts";
import { systemClock } from "./clock.ts";

/** A writer that waits by the process's own time unless it is given a clock. */
export const createWriter = <DB>(options: WriterOptions<DB>): Writer<DB> =>
  writerOf<DB>({ ...options, clock: options.clock ?? systemClock });
