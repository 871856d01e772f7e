/* Random bodies of messages: an item's, a hint's, nearly one, or anything. */

import fc from "fast-check";
import { named } from "./known.ts";
import { bodyLike } from "./values.ts";

const NAMES = ["volumes", "fleets", "instances", "jobs-submitted", "jobs-running", "jobs-terminating", "ghosts"];

const id = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.constantFrom(named("itemId"), named("volume"), named("job"), named("fleet"), named("instance")),
  },
  { weight: 1, arbitrary: fc.uuid() },
);
/** Seldom the token that holds the row: a second delivery. Mostly an old one, or nobody's. */
const token = fc.oneof(
  { weight: 4, arbitrary: fc.constant(named("itemOldToken")) },
  { weight: 4, arbitrary: fc.uuid() },
  { weight: 1, arbitrary: fc.constant(named("itemToken")) },
);
const pipeline = fc.oneof(fc.constant(named("itemPipeline")), fc.constantFrom(...NAMES));

/** Bodies for an item queue. */
export const itemLike: fc.Arbitrary<string> = bodyLike(fc.record({ v: fc.constant(1), pipeline, id, token }), 25);

const at = fc.oneof(
  fc.date({ noInvalidDate: true }).map((time) => time.toISOString()),
  fc.constantFrom("now", "2026-02-30", "+275760-09-13T00:00:00.000Z", "-271821-04-20T00:00:00.000Z", "0", "1e999"),
);

/** Bodies for the hint queue. */
export const hintLike: fc.Arbitrary<string> = bodyLike(
  fc.oneof(
    fc.record({ v: fc.constant(1), pipeline: fc.constantFrom(...NAMES), at }, { requiredKeys: ["v", "pipeline"] }),
    fc.record({
      v: fc.constant(1),
      table: fc.constantFrom("volumes", "fleets", "instances", "jobs", "events", "ghosts"),
    }),
  ),
  25,
);
