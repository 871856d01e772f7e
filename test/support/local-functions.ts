import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openFunctionLog } from "../../infra/local/lambda/function-log.ts";
import type { FunctionSpec } from "../../infra/local/lambda/function-spec.ts";
import { LambdaFunction } from "../../infra/local/lambda/lambda-function.ts";
import { ProcessTable } from "../../infra/local/process-table.ts";

/** A function made from the text of a module, with everything it leaves behind in one temporary folder. */
export interface TestFunction extends AsyncDisposable {
  readonly fn: LambdaFunction;
  readonly folder: string;
  /** Ids of the sandboxes' processes, in the order of their starts. */
  readonly started: readonly number[];
  log(): string;
  /** Invokes with a JSON event; the answer parsed. */
  call(event?: unknown): Promise<{ ok: boolean; payload: unknown } | "throttled">;
}

/** Makes a function of the local stack; `source` exports `handler`. */
export function makeFunction(source: string, spec: Partial<FunctionSpec> = {}): TestFunction {
  const folder = mkdtempSync(join(tmpdir(), "millrace-function-"));
  writeFileSync(join(folder, "index.mjs"), source);
  const log = openFunctionLog(join(folder, "function.log"));
  const table = new ProcessTable(join(folder, "processes.jsonl"));
  const started: number[] = [];
  const name = spec.name ?? "fn";
  const fn = new LambdaFunction({
    log,
    environment: (sandboxId) => ({ SANDBOX: sandboxId }),
    started(pid) {
      started.push(pid);
      table.add(pid, `sandbox ${name}`);
    },
    spec: {
      name,
      arn: `arn:aws:lambda:us-east-1:000000000000:function:${name}`,
      taskRoot: folder,
      timeoutSeconds: 20,
      memoryMb: 128,
      reservedConcurrency: undefined,
      ...spec,
      environment: {
        LAMBDA_TASK_ROOT: folder,
        _HANDLER: "index.handler",
        AWS_LAMBDA_FUNCTION_NAME: name,
        AWS_LAMBDA_FUNCTION_MEMORY_SIZE: "128",
        ...spec.environment,
      },
    },
  });
  return {
    fn,
    folder,
    started,
    log: () => (existsSync(log.file) ? readFileSync(log.file, "utf8") : ""),
    async call(event = {}) {
      const result = await fn.invoke(JSON.stringify(event));
      return result === "throttled" ? result : { ok: result.ok, payload: JSON.parse(result.payload) };
    },
    async [Symbol.asyncDispose]() {
      await fn.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
