/* One function: its sandboxes, reused last in first out, and how many may run at once. */

import { EventEmitter, once } from "node:events";
import type { FunctionLog } from "./function-log.ts";
import type { FunctionSpec } from "./function-spec.ts";
import { type Outcome, Sandbox, type SandboxHost } from "./sandbox.ts";

/** `stopped` is what a reserved concurrency of 0 is on AWS: every invocation is throttled. */
export type FunctionState = "running" | "stopped" | "frozen";

export type InvokeResult = Outcome | "throttled";

/** Idle processes are ended after so long; AWS does so after some minutes as well. */
const IDLE_MS = 5 * 60_000;

export interface FunctionOptions {
  readonly spec: FunctionSpec;
  readonly log: FunctionLog;
  environment(sandboxId: string): Readonly<Record<string, string>>;
  started(pid: number): void;
}

/** A deployed function. */
export class LambdaFunction {
  readonly spec: FunctionSpec;
  readonly log: FunctionLog;
  readonly #host: SandboxHost;
  readonly #sandboxes = new Set<Sandbox>();
  readonly #idle: Sandbox[] = [];
  /** Started, still loading. */
  readonly #loading = new Set<Sandbox>();
  /** Invocations without a sandbox yet: the first one that is free takes the first of them, new or not. */
  readonly #waiting: { readonly requestId: string; resolve(got: Sandbox | Outcome): void }[] = [];
  readonly #idleTimers = new Map<Sandbox, NodeJS.Timeout>();
  readonly #events = new EventEmitter().setMaxListeners(0);
  #state: FunctionState = "running";
  #inFlight = 0;

  constructor(options: FunctionOptions) {
    this.spec = options.spec;
    this.log = options.log;
    this.#host = {
      ...options,
      environment: (id) => options.environment(id),
      started: (pid) => options.started(pid),
      idle: (sandbox) => this.#becameIdle(sandbox),
      leaving: (sandbox) => this.#notIdle(sandbox),
      ended: (sandbox, initFailure) => this.#forget(sandbox, initFailure),
    };
  }

  get state(): FunctionState {
    return this.#state;
  }

  /** Process ids of all sandboxes. */
  get pids(): readonly number[] {
    return [...this.#sandboxes].flatMap(({ pid }) => pid ?? []);
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  /** Runs an invocation in a sandbox that is free, or in the first that is: one started for it, or another. */
  async invoke(payload: string, requestId: string = crypto.randomUUID()): Promise<InvokeResult> {
    const limit = this.spec.reservedConcurrency ?? Number.POSITIVE_INFINITY;
    if (this.#state === "stopped" || this.#inFlight >= limit) return "throttled";
    this.#inFlight += 1;
    try {
      const got = this.#takeIdle() ?? (await this.#nextFree(requestId));
      return got instanceof Sandbox ? await got.invoke({ requestId, arn: this.spec.arn, payload }) : got;
    } finally {
      this.#inFlight -= 1;
    }
  }

  /** Starts a sandbox ahead of the first invocation; resolves when it has loaded the function, or has ended. */
  async warm(): Promise<void> {
    if (this.#sandboxes.size > 0 || this.#state === "stopped") return;
    const sandbox = this.#create();
    while (this.#loading.has(sandbox)) await once(this.#events, "loaded");
  }

  /** Nothing runs from now on: processes are ended, invocations throttled. */
  stop(): void {
    this.#setState("stopped");
    for (const sandbox of this.#sandboxes) sandbox.kill();
  }

  /** Runs again after `stop` or `freeze`. */
  start(): void {
    for (const sandbox of this.#sandboxes) sandbox.thaw();
    this.#setState("running");
  }

  /** Holds every running process where it is; later invocations get other sandboxes. Answers the pids held. */
  freeze(): readonly number[] {
    const held = [...this.#sandboxes].filter(({ busy }) => busy);
    for (const sandbox of held) sandbox.hold();
    this.#setState("frozen");
    return held.flatMap(({ pid }) => pid ?? []);
  }

  /** Kills every process, or the one sandbox with this id. Answers the pids killed. */
  kill(sandboxId?: string): readonly number[] {
    const hit = [...this.#sandboxes].filter(({ id }) => sandboxId === undefined || id === sandboxId);
    return hit.flatMap((sandbox) => sandbox.kill() ?? []);
  }

  /** Resolves when the function runs (or when the signal aborts). */
  async whenRunning(signal: AbortSignal): Promise<void> {
    while (this.#state === "stopped" && !signal.aborted) {
      await once(this.#events, "state", { signal }).catch(() => {});
    }
  }

  /** Calls back at every change between stopped and running. */
  onState(listener: (state: FunctionState) => void): void {
    this.#events.on("state", listener);
  }

  /** Ends everything and waits until the processes are gone. */
  async close(): Promise<void> {
    this.stop();
    while (this.#sandboxes.size > 0) await once(this.#events, "forgotten");
    this.log.close();
  }

  #setState(state: FunctionState): void {
    if (state === this.#state) return;
    this.#state = state;
    this.#events.emit("state", state);
  }

  #create(): Sandbox {
    const sandbox = new Sandbox(this.#host);
    this.#sandboxes.add(sandbox);
    this.#loading.add(sandbox);
    void sandbox.start().catch(() => sandbox.kill());
    return sandbox;
  }

  #takeIdle(): Sandbox | undefined {
    const sandbox = this.#idle.at(-1);
    if (sandbox) this.#notIdle(sandbox);
    return sandbox;
  }

  #loaded(sandbox: Sandbox): void {
    if (this.#loading.delete(sandbox)) this.#events.emit("loaded");
  }

  #notIdle(sandbox: Sandbox): void {
    const at = this.#idle.indexOf(sandbox);
    if (at >= 0) this.#idle.splice(at, 1);
    clearTimeout(this.#idleTimers.get(sandbox));
    this.#idleTimers.delete(sandbox);
  }

  #nextFree(requestId: string): Promise<Sandbox | Outcome> {
    return new Promise((resolve) => {
      this.#waiting.push({ requestId, resolve });
      if (this.#loading.size < this.#waiting.length) this.#create();
    });
  }

  #becameIdle(sandbox: Sandbox): void {
    this.#loaded(sandbox);
    const first = this.#waiting.shift();
    if (first) {
      first.resolve(sandbox);
      return;
    }
    this.#idle.push(sandbox);
    this.#idleTimers.set(sandbox, setTimeout(() => sandbox.kill(), IDLE_MS).unref());
  }

  #forget(sandbox: Sandbox, initFailure: (requestId: string) => Outcome): void {
    this.#sandboxes.delete(sandbox);
    this.#notIdle(sandbox);
    const wasLoading = this.#loading.has(sandbox);
    this.#loaded(sandbox);
    // It ended before it was of any use: the invocation that it was started for fails with it.
    const first = wasLoading && this.#loading.size < this.#waiting.length ? this.#waiting.shift() : undefined;
    first?.resolve(initFailure(first.requestId));
    this.#events.emit("forgotten");
  }
}
