/* Asynchronous invocations: accepted at once, repeated and given up as the function's settings say. */

import { setTimeout as wait } from "node:timers/promises";
import type { LambdaFunction } from "./lambda-function.ts";

/** An `EventInvokeConfig`. */
export interface AsyncSettings {
  /** How often a failed invocation is repeated. */
  readonly maxRetries: number;
  /** How long an event may wait before it is dropped. */
  readonly maxAgeSeconds: number;
}

/** What applies without an `EventInvokeConfig`. */
export const ASYNC_DEFAULTS: AsyncSettings = { maxRetries: 2, maxAgeSeconds: 21_600 };

const RETRY_AFTER_SECONDS = [60, 120] as const;
const THROTTLED_FIRST_SECONDS = 1;
const THROTTLED_LONGEST_SECONDS = 300;

/** The events that wait for a function. */
export class AsyncInvokes {
  readonly #settings: (fn: LambdaFunction) => AsyncSettings;
  readonly #closing = new AbortController();

  constructor(settings: (fn: LambdaFunction) => AsyncSettings) {
    this.#settings = settings;
  }

  /** Accepts an event and answers the request's id; every attempt carries the same. */
  send(fn: LambdaFunction, payload: string): string {
    const requestId = crypto.randomUUID();
    void this.#run(fn, payload, requestId).catch(() => {}); // rejects only when the stack closes
    return requestId;
  }

  close(): void {
    this.#closing.abort();
  }

  async #run(fn: LambdaFunction, payload: string, requestId: string): Promise<void> {
    const { maxRetries, maxAgeSeconds } = this.#settings(fn);
    const signal = this.#closing.signal;
    const expires = Date.now() + maxAgeSeconds * 1000;
    const drop = (reason: string) => fn.log.platform("platform.eventDropped", { requestId, reason });
    let failures = 0;
    let backOff = THROTTLED_FIRST_SECONDS;
    while (!signal.aborted) {
      const result = await fn.invoke(payload, requestId);
      if (result === "throttled") {
        if (Date.now() + backOff * 1000 > expires) return drop("EventAgeExceeded");
        await wait(backOff * 1000, undefined, { signal, ref: false });
        backOff = Math.min(backOff * 2, THROTTLED_LONGEST_SECONDS);
        continue;
      }
      if (result.ok) return;
      const seconds = RETRY_AFTER_SECONDS[failures] ?? 120;
      failures += 1;
      if (failures > maxRetries) return drop("RetriesExhausted");
      if (Date.now() + seconds * 1000 > expires) return drop("EventAgeExceeded");
      await wait(seconds * 1000, undefined, { signal, ref: false });
    }
  }
}
