import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startTestServer, type TestServer } from "../support/test-server.ts";
import type { Made, Wanted } from "./messages.ts";

/** Nothing waits for a disk, nobody tidies up by the clock, and deadlocks are found at once. */
const SETTINGS = {
  fsync: "off",
  synchronous_commit: "off",
  full_page_writes: "off",
  autovacuum: "off",
  deadlock_timeout: "50ms",
};

/** A run takes seconds. */
const PATIENCE_MS = 120_000;
/** Time to tidy up. */
const END_MS = 10_000;

/** A PostgreSQL for simulations. */
export async function withServer<T>(work: (server: TestServer) => Promise<T>): Promise<T> {
  const dir = await mkdtemp(join(tmpdir(), "millrace-simulation-"));
  let server: TestServer | undefined;
  try {
    server = await startTestServer(join(dir, "postgres"), SETTINGS);
    return await work(server);
  } finally {
    await server?.close();
    await rm(dir, { recursive: true, force: true });
  }
}

/** Processes that make runs side by side, each in a database of its own. */
export class Pool implements AsyncDisposable {
  readonly #workers: readonly ChildProcess[];
  readonly #idle: ChildProcess[];
  readonly #line: ((worker: ChildProcess) => void)[] = [];

  private constructor(workers: readonly ChildProcess[]) {
    this.#workers = workers;
    this.#idle = [...workers];
  }

  /** @param root the repository whose source is simulated, by default this one */
  static async start(
    server: TestServer,
    workers: number,
    root = new URL("../..", import.meta.url).pathname,
  ): Promise<Pool> {
    const { databaseUrl, dataApiUrl, clusterArn, ownerSecretArn, appSecretArn } = server;
    const address = JSON.stringify({ databaseUrl, dataApiUrl, clusterArn, ownerSecretArn, appSecretArn });
    const started = Array.from({ length: workers }, () => fork(join(root, "test/simulation/worker.ts"), [address]));
    try {
      await Promise.all(
        started.map((worker) => answerOf<"ready">(worker, () => undefined, "before it was ready: see above")),
      );
      return new Pool(started);
    } catch (error) {
      for (const worker of started) worker.kill();
      throw error;
    }
  }

  async run(wanted: Wanted): Promise<Made> {
    const worker = this.#idle.pop() ?? (await new Promise<ChildProcess>((resolve) => this.#line.push(resolve)));
    const made = await answerOf<Made>(worker, () => worker.send(wanted), `over seed ${wanted.seed}`);
    const next = this.#line.shift();
    if (next === undefined) this.#idle.push(worker);
    else next(worker);
    return made;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(
      this.#workers.map(async (worker) => {
        if (worker.exitCode !== null || worker.signalCode !== null) return;
        const gone = once(worker, "exit");
        worker.disconnect();
        AbortSignal.timeout(END_MS).addEventListener("abort", () => worker.kill("SIGKILL"));
        await gone;
      }),
    );
  }
}

/** The next message of a worker. @throws where it dies instead */
function answerOf<T>(worker: ChildProcess, ask: () => void, when: string): Promise<T> {
  return new Promise((resolve, reject) => {
    const end = (settle: () => void) => {
      hangs.removeEventListener("abort", hung);
      worker.off("message", answered).off("exit", died);
      settle();
    };
    const answered = (answer: unknown) => end(() => resolve(answer as T));
    const died = () => end(() => reject(new Error(`a simulating process died ${when}`)));
    const hung = () => {
      end(() => reject(new Error(`a simulating process hangs ${when}`)));
      worker.kill("SIGKILL");
    };
    const hangs = AbortSignal.timeout(PATIENCE_MS);
    hangs.addEventListener("abort", hung);
    worker.on("message", answered).on("exit", died);
    ask();
  });
}
