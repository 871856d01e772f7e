import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { processStart } from "../../../infra/local/process-table.ts";
import { makeFunction } from "../../support/local-functions.ts";
import { until } from "../../support/until.ts";

/** A process's state in one letter: T is stopped, S sleeps. */
function processState(pid: number): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/stat`, "utf8").replace(/^.*\) /s, "")[0];
  } catch {
    return undefined;
  }
}

const gone = (pid: number) => until(() => processStart(pid) === undefined, { what: `the end of process ${pid}` });
const stopped = (pid: number) => until(() => processState(pid) === "T", { what: `process ${pid} to be frozen` });

const COUNTER = `
  let count = 0;
  export const handler = async (event, context) => ({ event, count: ++count, pid: process.pid, context, left: context.getRemainingTimeInMillis(), env: process.env });
`;

test("a handler gets its event and what a Lambda context has", async () => {
  await using made = makeFunction(COUNTER, { timeoutSeconds: 7 });
  const result = await made.call({ hello: "world" });
  expect(result).toMatchObject({ ok: true, payload: { event: { hello: "world" }, count: 1 } });
  const { context, left } = (result as { payload: { context: Record<string, unknown>; left: number } }).payload;
  expect(context).toMatchObject({
    functionName: "fn",
    memoryLimitInMB: "128",
    invokedFunctionArn: "arn:aws:lambda:us-east-1:000000000000:function:fn",
    awsRequestId: expect.stringMatching(/^[0-9a-f-]{36}$/),
  });
  expect(left).toBeGreaterThan(5000);
  expect(left).toBeLessThanOrEqual(7000);
});

test("a process inherits PATH and nothing else", async () => {
  process.env["MILLRACE_TEST_LEAK"] = "yes";
  await using made = makeFunction(COUNTER, { environment: { OWN: "1" } });
  const { payload } = (await made.call()) as { payload: { env: Record<string, string> } };
  delete process.env["MILLRACE_TEST_LEAK"];
  expect(Object.keys(payload.env).sort()).toEqual([
    "AWS_LAMBDA_FUNCTION_MEMORY_SIZE",
    "AWS_LAMBDA_FUNCTION_NAME",
    "AWS_LAMBDA_RUNTIME_API",
    "LAMBDA_TASK_ROOT",
    "OWN",
    "PATH",
    "SANDBOX",
    "_HANDLER",
  ]);
});

test("a sandbox is used again, its module state kept, and frozen in between", async () => {
  await using made = makeFunction(COUNTER);
  await made.call();
  const [pid] = made.started as [number];
  await stopped(pid);
  expect(await made.call()).toMatchObject({ payload: { count: 2, pid } });
  expect(made.started).toEqual([pid]);
});

test("a sandbox started ahead takes the first invocation, loaded by then or not", async () => {
  await using loading = makeFunction(COUNTER);
  void loading.fn.warm();
  expect(await loading.call()).toMatchObject({ ok: true, payload: { count: 1 } });
  expect(loading.started).toHaveLength(1);
  await using loaded = makeFunction(COUNTER);
  await loaded.fn.warm();
  expect(await loaded.call()).toMatchObject({ ok: true, payload: { count: 1 } });
  expect(loaded.started).toHaveLength(1);
});

test("invocations at once have sandboxes of their own; the one used last is used next", async () => {
  await using made = makeFunction(`
    import { setTimeout as work } from "node:timers/promises";
    export const handler = async ({ ms }) => { await work(ms); return process.pid; };
  `);
  const slow = made.call({ ms: 400 });
  const fast = made.call({ ms: 1 });
  const [{ payload: first }, { payload: last }] = (await Promise.all([fast, slow])) as { payload: number }[] as [
    { payload: number },
    { payload: number },
  ];
  expect(first).not.toBe(last);
  expect(await made.call({ ms: 1 })).toMatchObject({ payload: last });
});

test("an invocation that waits for a new process runs in one that becomes free before", async () => {
  await using made = makeFunction(`
    import { setTimeout as work } from "node:timers/promises";
    await work(1000);
    export const handler = async ({ ms }) => { await work(ms); return process.pid; };
  `);
  await made.fn.warm();
  const [short, waits] = (await Promise.all([made.call({ ms: 100 }), made.call({ ms: 1 })])) as { payload: number }[];
  expect(waits!.payload).toBe(short!.payload);
  expect(made.started).toHaveLength(2);
});

test("an invocation beyond the reserved concurrency is throttled", async () => {
  await using made = makeFunction(
    `
    import { setTimeout as work } from "node:timers/promises";
    export const handler = () => work(300);
  `,
    { reservedConcurrency: 1 },
  );
  const first = made.call();
  expect(await made.call()).toBe("throttled");
  expect(await first).toMatchObject({ ok: true });
  expect(await made.call()).toMatchObject({ ok: true });
});

test("at its timeout a function is killed and reported in AWS's words", async () => {
  await using made = makeFunction(`export const handler = () => { for (;;); };`, { timeoutSeconds: 1 });
  const result = await made.call();
  expect(result).toMatchObject({ ok: false, payload: { errorType: "Sandbox.Timedout" } });
  expect(JSON.stringify(result)).toMatch(/RequestId: [0-9a-f-]+ Error: Task timed out after 1\.00 seconds/);
  await gone(made.started[0]!);
});

test("a thrown error is the function's error; the sandbox lives on", async () => {
  await using made = makeFunction(`
    let count = 0;
    export const handler = async ({ fail }) => { count += 1; if (fail) throw new TypeError("no good"); return count; };
  `);
  const failed = await made.call({ fail: true });
  expect(failed).toMatchObject({ ok: false, payload: { errorType: "TypeError", errorMessage: "no good" } });
  expect((failed as { payload: { trace: string[] } }).payload.trace[0]).toBe("TypeError: no good");
  await stopped(made.started[0]!);
  expect(await made.call({})).toMatchObject({ ok: true, payload: 2 });
});

test.each([
  ["ends itself", "process.exit(3)", "Runtime exited with error: exit status 3"],
  ["is killed", "process.kill(process.pid, 'SIGKILL')", "Runtime exited with error: signal: killed"],
])("a process that %s fails its invocation; the next one gets another", async (_, how, text) => {
  await using made = makeFunction(`
    export const handler = async ({ die }) => { if (die) { ${how}; await new Promise(() => {}); } return "fine"; };
  `);
  const result = await made.call({ die: true });
  expect(result).toMatchObject({ ok: false, payload: { errorType: "Runtime.ExitError" } });
  expect(JSON.stringify(result)).toContain(text);
  expect(await made.call({})).toMatchObject({ ok: true, payload: "fine" });
  expect(made.started).toHaveLength(2);
});

test("more memory than the function has ends it", async () => {
  await using made = makeFunction(`
    export const handler = async () => { const all = []; for (;;) all.push(Array.from({ length: 1e5 }, (_, i) => ({ i }))); };
  `);
  expect(await made.call()).toMatchObject({ ok: false, payload: { errorType: "Runtime.ExitError" } });
});

test("a module that throws while it loads is an error of the first invocation", async () => {
  await using made = makeFunction(`throw new RangeError("bad config"); export const handler = 1;`);
  expect(await made.call()).toMatchObject({
    ok: false,
    payload: { errorType: "RangeError", errorMessage: "bad config" },
  });
});

test("a handler that is not there is named", async () => {
  await using made = makeFunction("export const other = 1;");
  const result = await made.call();
  expect(JSON.stringify(result)).toContain("index.handler is undefined or not exported");
});

test("what a function prints is in its log, a line a line", async () => {
  await using made = makeFunction(`
    export const handler = async () => { console.log(JSON.stringify({ a: 1 })); console.error("oops"); };
  `);
  await made.call();
  const lines = made.log().split("\n");
  expect(lines).toContain('{"a":1}');
  expect(lines).toContain("oops");
  expect(lines.filter((line) => line.includes("platform.report"))).toHaveLength(1);
});

test("a stopped function throttles and has no process; started again, it runs", async () => {
  await using made = makeFunction(COUNTER);
  await made.call();
  made.fn.stop();
  await gone(made.started[0]!);
  expect(made.fn.state).toBe("stopped");
  expect(await made.call()).toBe("throttled");
  made.fn.start();
  expect(await made.call()).toMatchObject({ ok: true, payload: { count: 1 } });
});

test("stopping a function fails what it is doing", async () => {
  await using made = makeFunction("export const handler = () => new Promise(() => {});");
  const running = made.call();
  await until(() => made.log().includes("platform.start"), { what: "the invocation to begin" });
  made.fn.stop();
  expect(await running).toMatchObject({ ok: false, payload: { errorType: "Runtime.ExitError" } });
});

test("a frozen invocation goes on after thawing, its time limit held meanwhile; others run beside it", async () => {
  await using made = makeFunction(
    `import { setTimeout as work } from "node:timers/promises";
    export const handler = async ({ ms }) => { await work(ms); return process.pid; };`,
    { timeoutSeconds: 2 },
  );
  const slow = made.call({ ms: 700 });
  await until(() => made.log().includes("platform.start"), { what: "the invocation to begin" });
  const [held] = made.fn.freeze() as [number];
  expect(made.fn.state).toBe("frozen");
  await stopped(held);
  const frozenAt = Date.now();
  const { payload: other } = (await made.call({ ms: 1 })) as { payload: number };
  expect(other).not.toBe(held);
  await until(() => Date.now() - frozenAt > 2500, { what: "longer than the time limit" });
  expect(processState(held)).toBe("T");
  made.fn.start();
  expect(made.fn.state).toBe("running");
  expect(await slow).toEqual({ ok: true, payload: held });
});

test("kill takes all processes, or the one sandbox asked for", async () => {
  await using made = makeFunction(`
    export const handler = async ({ forever }) => (forever ? new Promise(() => {}) : process.env.SANDBOX);
  `);
  const { payload: sandbox } = (await made.call({})) as { payload: string };
  expect(made.fn.kill("another")).toEqual([]);
  expect(made.fn.kill(sandbox)).toEqual([made.started[0]]);
  await gone(made.started[0]!);
  const running = made.call({ forever: true });
  await until(() => made.started.length === 2, { what: "a second process" });
  expect(made.fn.kill()).toEqual([made.started[1]]);
  expect(await running).toMatchObject({ ok: false });
});
