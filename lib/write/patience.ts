import type { Clock } from "../engine/ports.ts";
import { MillraceError } from "../errors.ts";

const FIRST_MS = 100;
const MOST_MS = 500;
const LOCK_NOT_AVAILABLE = "55P03";

/**
 * Tries again until an attempt answers something, at growing distances (100 to 500 ms), for so many seconds; the wait
 * holds no transaction. A row that an open transaction keeps from us counts as not to be had. Answers undefined when the
 * time is up.
 * @throws OPTION
 */
export async function untilHad<T>(
  clock: Clock,
  waitSeconds: number,
  attempt: () => Promise<T | undefined>,
): Promise<T | undefined> {
  checkSeconds("waitSeconds", waitSeconds, 0);
  const end = clock.now() + waitSeconds * 1000;
  for (let pause = FIRST_MS; ; pause = Math.min(MOST_MS, pause * 1.5)) {
    const answer = await attempt().catch((error: unknown) => {
      if (error instanceof MillraceError && error.details["sqlState"] === LOCK_NOT_AVAILABLE) return undefined;
      throw error;
    });
    if (answer !== undefined) return answer;
    const left = end - clock.now();
    if (left <= 0) return undefined;
    await clock.wait(Math.min(pause, left));
  }
}

/** @throws OPTION */
export function checkSeconds(option: string, value: number, least: number): void {
  if (!Number.isFinite(value) || value < least)
    throw new MillraceError("OPTION", { name: "writer", option, value, expected: `seconds from ${least}` });
}
