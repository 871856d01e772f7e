import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { setTimeout as wait } from "node:timers/promises";
import { LocalError } from "../errors.ts";
import type { CrashOptions } from "../postgres.ts";
import { endOrphans, forgetKeeper, noteKeeper } from "./orphans.ts";
import { killServer } from "./processes.ts";

const STOP_PATIENCE_MS = 15_000;
/** While a server is away, its port may be somebody's for a moment. */
const PORT_PATIENCE_MS = 30_000;
const PORT_RETRY_MS = 200;

/** The running server of a data directory: it can be stopped for good, or crash and come back. */
export class Server {
  readonly #dataDir: string;
  readonly #launch: () => Promise<ChildProcess>;
  readonly #atExit = () => void this.#child.kill("SIGINT");
  #child: ChildProcess;
  /** The crash under way; a stop waits for it. */
  #crash: Promise<void> = Promise.resolve();
  #stopping = false;

  constructor(dataDir: string, child: ChildProcess, launch: () => Promise<ChildProcess>) {
    this.#dataDir = dataDir;
    this.#child = child;
    this.#launch = launch;
    process.once("exit", this.#atExit);
  }

  /** Of the postmaster. */
  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** One after the other; see `Postgres.crash`. */
  crash(options: CrashOptions): Promise<void> {
    const next = this.#crash.then(() => this.#crashNow(options));
    this.#crash = next.catch(() => {});
    return next;
  }

  /** Stops the server in good order; the data stay. */
  async stop(): Promise<void> {
    this.#stopping = true;
    await this.#crash;
    process.off("exit", this.#atExit);
    if (this.#running) {
      const exited = once(this.#child, "exit");
      this.#child.kill("SIGINT");
      const patience = setTimeout(() => this.#child.kill("SIGQUIT"), STOP_PATIENCE_MS);
      await exited;
      clearTimeout(patience);
    }
    await forgetKeeper(this.#dataDir);
  }

  get #running(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  async #crashNow({ how = "kill", awaySeconds = 0 }: CrashOptions): Promise<void> {
    if (this.#stopping) return;
    if (this.#running) {
      const exited = once(this.#child, "exit");
      if (how === "kill") killServer(this.#dataDir, this.pid);
      else this.#child.kill("SIGQUIT");
      await exited;
    }
    // Without a keeper what is left of it counts as left behind: its end is waited for, and its lock file removed.
    await forgetKeeper(this.#dataDir);
    await endOrphans(this.#dataDir);
    await noteKeeper(this.#dataDir);
    await wait(awaySeconds * 1000);
    if (!this.#stopping) this.#child = await this.#launchPatiently();
  }

  async #launchPatiently(): Promise<ChildProcess> {
    const until = performance.now() + PORT_PATIENCE_MS;
    for (;;) {
      try {
        return await this.#launch();
      } catch (error) {
        const taken = error instanceof LocalError && error.code === "PORT_IN_USE";
        if (!taken || performance.now() > until) throw error;
        await wait(PORT_RETRY_MS);
      }
    }
  }
}
