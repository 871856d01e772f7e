import { type ChildProcess, spawn } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { synthesize } from "../../infra/local/assembly.ts";
import { LocalError } from "../../infra/local/errors.ts";
import { ProcessTable, processStart } from "../../infra/local/process-table.ts";
import type { QueueEvent } from "../../infra/local/sqs/queue-log.ts";
import { type Local, ROOT } from "../../infra/local/state.ts";
import { until } from "./until.ts";

/** An HTTP answer, its JSON body parsed. */
export interface JsonAnswer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of all kinds
  readonly body: any;
}

/** A whole local stack in a process of its own. */
export interface LocalStack extends AsyncDisposable {
  readonly local: Local;
  readonly stateDir: string;
  readonly pid: number;
  /** What the runner printed so far. */
  output(): string;
  /** Rows of a statement, as the superuser. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into rows of all kinds
  sql(text: string, params?: readonly unknown[]): Promise<any[]>;
  /** Works while a transaction that ran this statement stays open. */
  holding(text: string, work: () => Promise<void>): Promise<void>;
  control(method: string, path: string, body?: unknown): Promise<JsonAnswer>;
  api(method: string, path: string, body?: unknown): Promise<JsonAnswer>;
  /** The JSON lines of a function's log. */
  // biome-ignore lint/suspicious/noExplicitAny: log lines are of all kinds
  logs(functionName: string): readonly any[];
  /** Everything that happened to messages. */
  queueLog(): readonly QueueEvent[];
  /** Ends the runner with a signal and waits until it is gone; the state folder stays. */
  kill(signal: NodeJS.Signals): Promise<void>;
  /** Stops the stack in good order, checks that no process is left, and removes the state folder. */
  stop(): Promise<void>;
}

export interface LocalStackOptions {
  /** Default: a new folder. Give the one of a killed stack to start it again. */
  readonly stateDir?: string;
  /** Arguments of `npm start` besides folder and ports, which are free ones. */
  readonly args?: readonly string[];
  /** Default: the app's, synthesized once for all tests of a run. */
  readonly assembly?: string;
  readonly timeoutMs?: number;
  /** In a process group of its own, which a Ctrl-C in the terminal does not reach; it is told when we exit. Default false. */
  readonly detached?: boolean;
}

/** Starts the stack as `npm start` does, without its proof; throws STACK_DIED when it ends instead. */
export async function startLocalStack(options: LocalStackOptions = {}): Promise<LocalStack> {
  const assembly = options.assembly ?? (await sharedAssembly());
  const stateDir = options.stateDir ?? mkdtempSync(join(tmpdir(), "millrace-stack-"));
  chmodSync(stateDir, 0o755); // as root, PostgreSQL runs as another user and must get into it
  const ports = ["--port", "0", "--database-port", "0"];
  const args = ["--state-dir", stateDir, ...ports, "--assembly", assembly, "--no-proof", ...(options.args ?? [])];
  const { detached = false } = options;
  const child = spawn(process.execPath, [join(ROOT, "infra/local/run.ts"), ...args], { cwd: ROOT, detached });
  if (detached) {
    const end = () => void child.kill("SIGTERM");
    process.once("exit", end);
    child.once("exit", () => process.off("exit", end));
  }
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
  const file = join(stateDir, "local.json");
  const ready = () => child.exitCode !== null || child.signalCode !== null || existsSync(file);
  await until(ready, { what: `local.json in ${stateDir}`, timeoutMs: options.timeoutMs ?? 120_000, everyMs: 50 });
  if (!existsSync(file)) throw new LocalError("STACK_DIED", { outcome: `code ${child.exitCode}`, output });
  const local = JSON.parse(readFileSync(file, "utf8")) as Local;
  return handle(local, stateDir, child, () => output);
}

function handle(local: Local, stateDir: string, child: ChildProcess, output: () => string): LocalStack {
  const client = new pg.Pool({ connectionString: local.databaseUrl, max: 4 });
  client.on("error", () => {}); // connections end with the server
  const stack: LocalStack = {
    local,
    stateDir,
    pid: child.pid!,
    output,
    sql: async (text, params = []) => (await client.query(text, [...params])).rows,
    async holding(text, work) {
      const holder = await client.connect();
      try {
        await holder.query("begin");
        await holder.query(text);
        await work();
      } finally {
        await holder.query("rollback");
        holder.release();
      }
    },
    control: (method, path, body) => call(local.controlUrl + path, method, body),
    api: (method, path, body) => call(local.apiUrl + path, method, body),
    logs: (functionName) => jsonLines(local.functions[functionName]!.logFile),
    queueLog: () => jsonLines(join(stateDir, "sqs.jsonl")) as QueueEvent[],
    async kill(signal) {
      if (!client.ended) await client.end().catch(() => {});
      if (child.exitCode === null && child.signalCode === null) child.kill(signal);
      await until(() => child.exitCode !== null || child.signalCode !== null, {
        what: "the runner's end",
        timeoutMs: 30_000,
      });
    },
    async stop() {
      const started = new ProcessTable(join(stateDir, "processes.jsonl")).alive();
      await stack.kill("SIGTERM");
      const left = started.filter(({ pid, start }) => processStart(pid) === start);
      rmSync(stateDir, { recursive: true, force: true });
      if (left.length > 0) throw new Error(`left running: ${JSON.stringify(left)}\n${output()}`);
    },
    [Symbol.asyncDispose]: () => stack.stop(),
  };
  return stack;
}

async function call(url: string, method: string, body?: unknown): Promise<JsonAnswer> {
  const headers = { "content-type": "application/json" };
  const answer = await fetch(url, { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
  const text = await answer.text();
  return { status: answer.status, body: text === "" ? undefined : JSON.parse(text) };
}

function jsonLines(file: string): readonly unknown[] {
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, "utf8").split("\n");
  return lines
    .filter((line) => line.startsWith("{"))
    .flatMap((line) => {
      try {
        return [JSON.parse(line)];
      } catch {
        return []; // half a line: its process was killed while it wrote
      }
    });
}

const ASSEMBLY = "millrace-assembly-";

/** The app's assembly, made once for all test files of a run and removed by a later run. */
export async function sharedAssembly(): Promise<string> {
  const run = process.ppid;
  for (const name of readdirSync(tmpdir()).filter((each) => each.startsWith(ASSEMBLY))) {
    const pid = Number(name.slice(ASSEMBLY.length));
    if (pid !== run && processStart(pid) === undefined) rmSync(join(tmpdir(), name), { recursive: true, force: true });
  }
  const outdir = join(tmpdir(), ASSEMBLY + run);
  if (!existsSync(join(outdir, "manifest.json"))) await synthesize({ outdir });
  return outdir;
}
