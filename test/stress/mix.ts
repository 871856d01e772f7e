import { finish } from "./finishing.ts";
import { lockRelated, lookAtLists } from "./locking.ts";
import {
  countInTransaction,
  insertMissing,
  moveTime,
  pauseOrResume,
  request,
  seize,
  sweep,
  writePlainly,
} from "./outside.ts";
import { seededRandom } from "./random.ts";
import { insertChild, referTo } from "./relating.ts";
import { claim, fetchAndSend, heartbeat, renew } from "./taking.ts";
import type { Actor, World } from "./world.ts";
import { writeAsApi } from "./writing.ts";

/** What the actors do, and how often in a hundred. */
const DEEDS: readonly (readonly [number, (actor: Actor) => Promise<void>])[] = [
  [14, fetchAndSend],
  [15, claim],
  [15, lockRelated],
  [21, finish],
  [3, renew],
  [3, heartbeat],
  [3, sweep],
  [2, request],
  [1, pauseOrResume],
  [2, writePlainly],
  [3, insertMissing],
  [3, countInTransaction],
  [2, moveTime],
  [1, lookAtLists],
  [3, insertChild],
  [2, seize],
  [3, writeAsApi],
  [4, referTo],
];

/** Lets every actor do one thing after another until the signal. */
export async function mix(world: World, connections: number, seed: number, stop: AbortSignal): Promise<void> {
  await Promise.all(
    Array.from({ length: connections }, async (_, n) => {
      const random = seededRandom(seed * 1009 + n);
      const actor = { world, random, sender: world.senders[n % world.senders.length]! };
      while (!stop.aborted) await anyDeed(random.below(100))(actor);
    }),
  );
}

function anyDeed(at: number): (actor: Actor) => Promise<void> {
  let left = at;
  for (const [share, deed] of DEEDS) {
    if (left < share) return deed;
    left -= share;
  }
  throw new RangeError("the shares of the deeds make a hundred");
}
