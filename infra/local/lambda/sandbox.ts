/* One sandbox: a process that runs one invocation at a time, frozen while it has none. */

import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { fileURLToPath } from "node:url";
import { signalGroup } from "../process-table.ts";
import type { FunctionLog } from "./function-log.ts";
import type { FunctionSpec } from "./function-spec.ts";
import { type Delivery, type RuntimeApi, serveRuntimeApi } from "./runtime-api.ts";

const BOOTSTRAP = fileURLToPath(new URL("bootstrap.mjs", import.meta.url));
/** How long a function may take to load before its time limit begins, as on AWS. */
const INIT_SECONDS = 10;
/** A heap of the whole memory leaves nothing for buffers and code. */
const HEAP_SHARE = 0.9;

/** How an invocation ended; `payload` is JSON, for a failure that of the error. */
export interface Outcome {
  readonly ok: boolean;
  readonly payload: string;
}

interface Running {
  readonly delivery: Omit<Delivery, "deadline">;
  readonly finish: (outcome: Outcome) => void;
  startedAt?: number;
}

export interface SandboxHost {
  readonly spec: FunctionSpec;
  readonly log: FunctionLog;
  /** Environment that belongs to one sandbox alone. */
  environment(sandboxId: string): Readonly<Record<string, string>>;
  /** A process has been started. */
  started(pid: number): void;
  /** The sandbox can take an invocation again. */
  idle(sandbox: Sandbox): void;
  /** The sandbox is being killed: it takes no invocation any more. */
  leaving(sandbox: Sandbox): void;
  /** The process is gone; `initFailure` tells how an invocation that waited for it to load has failed. */
  ended(sandbox: Sandbox, initFailure: (requestId: string) => Outcome): void;
}

const failure = (errorType: string, errorMessage: string): Outcome => ({
  ok: false,
  payload: JSON.stringify({ errorType, errorMessage }),
});

/** A process of a function, from its start to its end. */
export class Sandbox {
  readonly id = randomBytes(8).toString("hex");
  readonly #host: SandboxHost;
  #child: ChildProcess | undefined;
  #api: RuntimeApi | undefined;
  #running: Running | undefined;
  #deliver: ((delivery: Delivery) => void) | undefined;
  #timer: NodeJS.Timeout | undefined;
  #timerEndsAt = 0;
  #heldSince: number | undefined;
  #idle = false;
  #leaving = false;
  #ended = false;
  #spawnedAt = 0;
  #initMs: number | undefined;
  #initFailure: ((requestId: string) => Outcome) | undefined;

  constructor(host: SandboxHost) {
    this.#host = host;
  }

  get pid(): number | undefined {
    return this.#ended ? undefined : this.#child?.pid;
  }

  get busy(): boolean {
    return this.#running !== undefined;
  }

  /** Starts the process. It loads the function at once. */
  async start(): Promise<void> {
    const { spec, log } = this.#host;
    this.#api = await serveRuntimeApi({
      next: (deliver) => this.#next(deliver),
      response: (id, payload) => this.#answered(id, { ok: true, payload }),
      error: (id, payload) => this.#answered(id, { ok: false, payload }),
      initError: (payload) => {
        this.#initFailure = () => ({ ok: false, payload });
      },
    });
    if (this.#ended) return this.#api.close();
    this.#spawnedAt = Date.now();
    const heap = Math.floor(spec.memoryMb * HEAP_SHARE);
    const child = spawn(process.execPath, [`--max-old-space-size=${heap}`, BOOTSTRAP], {
      cwd: spec.taskRoot,
      detached: true, // a group of its own: signals reach what the function starts as well
      stdio: ["ignore", log.fd, log.fd],
      env: {
        PATH: process.env["PATH"],
        ...spec.environment,
        ...this.#host.environment(this.id),
        AWS_LAMBDA_RUNTIME_API: this.#api.address,
      },
    });
    this.#child = child;
    child.once("error", (error) => this.#exited(error.message));
    child.once("exit", (code, signal) =>
      this.#exited(signal ? `signal: ${NAMES[signal] ?? signal}` : `exit status ${code}`),
    );
    if (child.pid !== undefined) this.#host.started(child.pid);
    this.#arm(INIT_SECONDS * 1000, () => this.#timedOut(INIT_SECONDS, "Sandbox.InitTimedout"));
  }

  /** Runs one invocation; only when not busy. Never rejects. */
  invoke(delivery: Omit<Delivery, "deadline">): Promise<Outcome> {
    return new Promise((finish) => {
      this.#idle = false;
      this.#running = { delivery, finish };
      if (this.#ended) this.#finish(failure("Runtime.ExitError", "The sandbox has ended."));
      else if (this.#deliver) this.#begin();
    });
  }

  /** Stops the process where it is, time limit included, until `thaw`. */
  hold(): void {
    if (this.#heldSince !== undefined || this.pid === undefined) return;
    this.#heldSince = Date.now();
    clearTimeout(this.#timer);
    signalGroup(this.pid, "SIGSTOP");
  }

  thaw(): void {
    if (this.#heldSince === undefined) return;
    const left = this.#timerEndsAt - this.#heldSince;
    this.#heldSince = undefined;
    if (this.pid === undefined) return;
    signalGroup(this.pid, "SIGCONT");
    if (this.#running?.startedAt !== undefined) this.#arm(left, () => this.#timedOut(this.#host.spec.timeoutSeconds));
  }

  /** Ends the process with SIGKILL; an invocation in it fails. Answers its id, unless it was being killed already. */
  kill(): number | undefined {
    if (this.#leaving) return undefined;
    this.#leaving = true;
    this.#host.leaving(this);
    const pid = this.pid;
    if (pid !== undefined) signalGroup(pid, "SIGKILL");
    else if (!this.#child) this.#exited("signal: killed");
    return pid;
  }

  #next(deliver: (delivery: Delivery) => void): void {
    this.#initMs ??= Date.now() - this.#spawnedAt;
    clearTimeout(this.#timer);
    this.#deliver = deliver;
    if (this.#running) {
      this.#begin();
      return;
    }
    if (this.pid !== undefined) signalGroup(this.pid, "SIGSTOP");
    this.#becomeIdle();
  }

  #becomeIdle(): void {
    if (this.#idle || this.#leaving || this.#ended) return;
    this.#idle = true;
    this.#host.idle(this);
  }

  #begin(): void {
    const running = this.#running!;
    const { spec, log } = this.#host;
    const limit = spec.timeoutSeconds * 1000;
    running.startedAt = Date.now();
    log.platform("platform.start", { requestId: running.delivery.requestId, sandbox: this.id });
    this.#timerEndsAt = running.startedAt + limit;
    if (this.#heldSince !== undefined) this.#heldSince = running.startedAt;
    else {
      if (this.pid !== undefined) signalGroup(this.pid, "SIGCONT");
      this.#arm(limit, () => this.#timedOut(spec.timeoutSeconds));
    }
    this.#deliver!({ ...running.delivery, deadline: running.startedAt + limit });
    this.#deliver = undefined;
  }

  #answered(requestId: string, outcome: Outcome): void {
    if (this.#running?.delivery.requestId !== requestId) return;
    this.#finish(outcome);
    // Free before its next call comes, else the next invocation would start a process. After an error it may end itself.
    if (outcome.ok) this.#becomeIdle();
  }

  #finish(outcome: Outcome): void {
    const running = this.#running;
    if (!running) return;
    this.#running = undefined;
    clearTimeout(this.#timer);
    this.#host.log.platform("platform.report", {
      requestId: running.delivery.requestId,
      sandbox: this.id,
      status: outcome.ok ? "success" : "error",
      metrics: { durationMs: Date.now() - (running.startedAt ?? Date.now()), initDurationMs: this.#initMs },
    });
    running.finish(outcome);
  }

  #timedOut(seconds: number, errorType = "Sandbox.Timedout"): void {
    const message = `Task timed out after ${seconds.toFixed(2)} seconds`;
    const requestId = this.#running?.delivery.requestId;
    this.#host.log.platform("platform.timeout", { requestId, sandbox: this.id, message });
    const outcome = (id: string | undefined) => failure(errorType, `RequestId: ${id} Error: ${message}`);
    this.#initFailure ??= outcome;
    this.kill();
    this.#finish(outcome(requestId));
  }

  #exited(how: string): void {
    if (this.#ended) return;
    this.#ended = true;
    clearTimeout(this.#timer);
    this.#api?.close();
    const text = `Error: Runtime exited with error: ${how}`;
    const outcome = (id: string | undefined) => failure("Runtime.ExitError", `RequestId: ${id} ${text}`);
    this.#finish(outcome(this.#running?.delivery.requestId));
    this.#host.ended(this, this.#initFailure ?? outcome);
  }

  #arm(milliseconds: number, run: () => void): void {
    clearTimeout(this.#timer);
    this.#timerEndsAt = Date.now() + milliseconds;
    this.#timer = setTimeout(run, Math.max(milliseconds, 1));
  }
}

const NAMES: Readonly<Record<string, string>> = {
  SIGKILL: "killed",
  SIGABRT: "aborted",
  SIGSEGV: "segmentation fault",
};
