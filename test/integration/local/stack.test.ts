import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { InvokeCommand, LambdaClient } from "@aws-sdk/client-lambda";
import { GetSecretValueCommand, SecretsManagerClient } from "@aws-sdk/client-secrets-manager";
import { SendMessageCommand, SQSClient } from "@aws-sdk/client-sqs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ProcessTable, processStart } from "../../../infra/local/process-table.ts";
import { writeSmallAssembly } from "../../support/small-assembly.ts";
import { type LocalStack, startLocalStack } from "../../support/stack.ts";
import { until } from "../../support/until.ts";

const small = writeSmallAssembly();
afterAll(() => small[Symbol.dispose]());
const start = (more: Parameters<typeof startLocalStack>[0] = {}) =>
  startLocalStack({ assembly: small.folder, ...more });

describe("a running stack", () => {
  let stack: LocalStack;
  let lambda: LambdaClient;
  const clientConfig = () => ({
    endpoint: stack.local.awsEndpoint,
    region: "us-east-1",
    credentials: { accessKeyId: "me", secretAccessKey: "me" },
    maxAttempts: 1,
  });
  beforeAll(async () => {
    stack = await start();
    lambda = new LambdaClient(clientConfig());
  });
  afterAll(() => stack.stop());

  const invoke = async (event: unknown, InvocationType?: "Event" | "RequestResponse" | "DryRun") => {
    const Payload = JSON.stringify(event);
    const answer = await lambda.send(new InvokeCommand({ FunctionName: "worker", InvocationType, Payload }));
    return { ...answer, payload: answer.Payload?.length ? JSON.parse(answer.Payload.transformToString()) : undefined };
  };
  const got = () => stack.logs("worker").flatMap(({ got }) => (got ? [got] : []));

  test("is described in local.json, readable by its owner only", () => {
    const arn = (rest: string) => `arn:aws:${rest.replace(":", ":us-east-1:000000000000:")}`;
    expect(stack.local).toEqual({
      version: 1,
      pid: stack.pid,
      awsEndpoint: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
      apiUrl: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
      controlUrl: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
      cloudUrl: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
      databaseUrl: expect.stringMatching(/^postgresql:\/\/.*\/small$/),
      region: "us-east-1",
      accountId: "000000000000",
      clusterArn: arn("rds:cluster:cluster"),
      secretArn: expect.stringContaining(arn("secretsmanager:secret:Secret-")),
      database: "small",
      queues: {
        items: {
          url: `${stack.local.awsEndpoint}/000000000000/items`,
          arn: arn("sqs:items"),
          deadUrl: `${stack.local.awsEndpoint}/000000000000/items-dead`,
        },
      },
      functions: {
        worker: { arn: arn("lambda:function:worker"), logFile: join(stack.stateDir, "logs/worker.log") },
      },
    });
    expect(statSync(join(stack.stateDir, "local.json")).mode & 0o777).toBe(0o600);
    expect(statSync(join(stack.stateDir, "secrets.json")).mode & 0o777).toBe(0o600);
  });

  test("has run its trigger before anything else", () => {
    expect(got()[0]).toEqual({});
  });

  test("fires its schedule soon after the start, with the time filled in", async () => {
    const event = await until(() => got().find(({ millrace }) => millrace === "schedule"), { what: "the schedule" });
    expect(event.at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
  });

  test("gives a function the environment of the template and its own credentials", async () => {
    const { payload } = await invoke({ does: "env" });
    expect(payload).toMatchObject({
      QUEUE: stack.local.queues["items"]!.url,
      CLUSTER: stack.local.clusterArn,
      SECRET: stack.local.secretArn,
      AWS_ENDPOINT_URL: stack.local.awsEndpoint,
      AWS_LAMBDA_FUNCTION_NAME: "worker",
      AWS_LAMBDA_FUNCTION_VERSION: "$LATEST",
      AWS_LAMBDA_FUNCTION_MEMORY_SIZE: "128",
      AWS_REGION: "us-east-1",
      TZ: ":UTC",
      _HANDLER: "index.handler",
    });
    expect(payload.MILLRACE_CLOUD_URL).toMatch(new RegExp(`^${stack.local.cloudUrl}/as/[0-9a-f]{16}$`));
  });

  test("lets a function use the database as the master user of its secret", async () => {
    const { payload } = await invoke({ does: "sql", sql: "select current_user, current_database()" });
    expect(payload.body.records).toEqual([[{ stringValue: "small_owner" }, { stringValue: "small" }]]);
    const { payload: made } = await invoke({ does: "sql", sql: "create table things (id int)" });
    expect(made.status).toBe(200);
    expect(await stack.sql("select tableowner from pg_tables where tablename = $1", ["things"])).toEqual([
      { tableowner: "small_owner" },
    ]);
  });

  test("serves secrets", async () => {
    const client = new SecretsManagerClient(clientConfig());
    const { SecretString } = await client.send(new GetSecretValueCommand({ SecretId: stack.local.secretArn }));
    expect(JSON.parse(SecretString!)).toMatchObject({ username: "small_owner", engine: "postgres", dbname: "small" });
    const missing = client.send(new GetSecretValueCommand({ SecretId: "no-such" }));
    await expect(missing).rejects.toMatchObject({ name: "ResourceNotFoundException" });
  });

  test("refuses what a function's role does not allow, and lets its owner do everything", async () => {
    const QueueUrl = stack.local.queues["items"]!.deadUrl;
    const send = {
      does: "call",
      service: "sqs",
      target: "AmazonSQS.SendMessage",
      body: { QueueUrl, MessageBody: "x" },
    };
    const { payload } = await invoke(send);
    expect(payload).toMatchObject({ status: 403, body: { __type: "com.amazonaws.sqs#AccessDenied" } });
    expect(payload.body.message).toContain("is not authorized to perform: sqs:sendmessage on resource");
    const other = { does: "call", service: "rds-data", path: "/BeginTransaction" };
    const body = { resourceArn: stack.local.clusterArn, secretArn: stack.local.secretArn };
    expect((await invoke({ ...other, body })).payload.status).toBe(403);
    await new SQSClient(clientConfig()).send(new SendMessageCommand({ QueueUrl, MessageBody: "x" }));
  });

  test("takes messages from the queue to the function", async () => {
    const { url: QueueUrl } = stack.local.queues["items"]!;
    const { MessageId } = await new SQSClient(clientConfig()).send(
      new SendMessageCommand({ QueueUrl, MessageBody: "hi" }),
    );
    const mine = (op: string) => stack.queueLog().some((line) => line.op === op && line.messageId === MessageId);
    await until(() => mine("delete"), { what: "the message's deletion" });
    expect(got().some(({ Records }) => Records?.[0].messageId === MessageId)).toBe(true);
  });

  test("turns HTTP into a payload 2.0 event and the answer back", async () => {
    const answer = await fetch(`${stack.local.apiUrl}/volumes/a%20b?x=1&x=2&y=z`, {
      method: "POST",
      headers: { "content-type": "application/json", cookie: "a=1; b=2" },
      body: '{"name":"é"}',
    });
    expect(answer.status).toBe(201);
    expect(answer.headers.get("x-own")).toBe("yes");
    expect(await answer.json()).toMatchObject({
      version: "2.0",
      rawPath: "/volumes/a%20b",
      rawQueryString: "x=1&x=2&y=z",
      queryStringParameters: { x: "1,2", y: "z" },
      cookies: ["a=1", "b=2"],
      headers: { "content-type": "application/json" },
      requestContext: { http: { method: "POST", path: "/volumes/a%20b", sourceIp: "127.0.0.1" } },
      body: '{"name":"é"}',
      isBase64Encoded: false,
    });
  });

  test("invokes: with an answer, with the function's error, as an event, dry", async () => {
    expect(await invoke({ hello: 1 })).toMatchObject({ StatusCode: 200, payload: { event: { hello: 1 } } });
    const failed = await invoke({ does: "throw" });
    expect(failed).toMatchObject({ StatusCode: 200, FunctionError: "Unhandled", payload: { errorMessage: "as told" } });
    expect(await invoke({ later: 1 }, "Event")).toMatchObject({ StatusCode: 202, payload: undefined });
    await until(() => got().some(({ later }) => later === 1), { what: "the event" });
    expect(await invoke({ never: 1 }, "DryRun")).toMatchObject({ StatusCode: 204 });
    const nobody = lambda.send(new InvokeCommand({ FunctionName: "nobody" }));
    await expect(nobody).rejects.toMatchObject({ name: "ResourceNotFoundException" });
  });

  test("an event whose invocation fails is given up after the retries that the template allows", async () => {
    await invoke({ does: "throw", mark: "once" }, "Event");
    const dropped = () => stack.logs("worker").some((line) => line.type === "platform.eventDropped");
    await until(dropped, { what: "the event to be dropped" });
    expect(got().filter(({ mark }) => mark === "once")).toHaveLength(1);
  });

  test("control: lists functions, stops and starts one", async () => {
    const list = await stack.control("GET", "/functions");
    expect(list).toMatchObject({
      status: 200,
      // one sandbox, or two where a slow one was still busy
      body: [{ name: "worker", state: "running", pids: expect.arrayContaining([expect.any(Number)]) }],
    });
    expect(await stack.control("POST", "/functions/worker/stop")).toMatchObject({
      status: 200,
      body: { state: "stopped" },
    });
    await expect(invoke({})).rejects.toMatchObject({ name: "TooManyRequestsException" });
    expect((await fetch(stack.local.apiUrl)).status).toBe(429);
    expect(await stack.control("POST", "/functions/worker/start")).toMatchObject({ body: { state: "running" } });
    expect(await invoke({})).toMatchObject({ payload: { count: 1 } });
  });

  test("control: kill answers whom it killed, freeze what state it is in", async () => {
    await invoke({});
    const { body } = await stack.control("POST", "/functions/worker/kill");
    expect(body.pids.length).toBeGreaterThan(0);
    await until(() => body.pids.every((pid: number) => processStart(pid) === undefined), { what: "their end" });
    expect(await stack.control("POST", "/functions/worker/freeze")).toMatchObject({
      status: 200,
      body: { state: "frozen" },
    });
    expect(await stack.control("POST", "/functions/worker/start")).toMatchObject({ body: { state: "running" } });
  });

  test("control: faults of queues, the Data API and the cloud", async () => {
    const fault = { kind: "drop", count: 1 };
    expect(await stack.control("POST", "/queues/items-dead/faults", fault)).toEqual({
      status: 201,
      body: { ...fault, left: 1 },
    });
    expect(await stack.control("GET", "/queues/items-dead/faults")).toEqual({
      status: 200,
      body: [{ ...fault, left: 1 }],
    });
    expect(await stack.control("DELETE", "/queues/items-dead/faults")).toEqual({ status: 204, body: undefined });
    expect((await stack.control("GET", "/queues/items-dead/faults")).body).toEqual([]);

    const error = { kind: "error", match: "fail me", count: 1 };
    expect((await stack.control("POST", "/data-api/faults", error)).status).toBe(201);
    expect((await invoke({ does: "sql", sql: "select 1 /* fail me */" })).payload.status).toBe(400);
    expect((await stack.control("GET", "/data-api/faults")).body).toEqual([]);
    expect((await stack.control("DELETE", "/data-api/faults")).status).toBe(204);
    expect((await stack.control("GET", "/data-api/stats")).body.calls).toBeGreaterThan(0);

    expect((await stack.control("POST", "/cloud/faults", { kind: "fail", match: "v", count: 1 })).status).toBe(201);
    expect((await stack.control("DELETE", "/cloud/faults")).status).toBe(204);
    expect(await stack.control("GET", "/cloud/log")).toEqual({ status: 200, body: [] });
  });

  test.each([
    ["POST", "/functions/nobody/stop", undefined, 404, "NOT_FOUND"],
    ["POST", "/functions/worker/explode", undefined, 404, "NOT_FOUND"],
    ["GET", "/functions/worker/stop", undefined, 405, "METHOD_NOT_ALLOWED"],
    ["POST", "/queues/nowhere/faults", { kind: "drop" }, 404, "NOT_FOUND"],
    ["POST", "/queues/items/faults", { kind: "explode" }, 400, "BAD_REQUEST"],
    ["POST", "/queues/items/faults", undefined, 400, "BAD_REQUEST"],
    ["POST", "/data-api/faults", { kind: "explode" }, 400, "BAD_REQUEST"],
    ["POST", "/cloud/faults", { kind: "explode" }, 400, "BAD_REQUEST"],
    ["GET", "/nothing", undefined, 404, "NOT_FOUND"],
  ])("control: %s %s with %j is refused", async (method, path, body, status, code) => {
    expect(await stack.control(method, path, body)).toMatchObject({
      status,
      body: { code, message: expect.any(String) },
    });
  });

  test("control: the database is killed and comes back; meanwhile the Data API answers 504, and whoever waits hears of it", async () => {
    const sql = async (text: string) => (await invoke({ does: "sql", sql: text })).payload;
    await sql("create table if not exists kept (a int)");
    await sql("insert into kept values (1)");
    const busy = sql("insert into kept select 2 from pg_sleep(300)");
    const runs = "select 1 from pg_stat_activity where query like 'insert into kept select%' and state = 'active'";
    await until(async () => (await stack.sql(runs)).length > 0, { what: "the long statement" });
    const killed = stack.control("POST", "/database/kill", { seconds: 1 });
    expect(await busy).toEqual({ status: 504, body: {} });
    expect(await sql("select 1")).toEqual({ status: 504, body: {} });
    const { status, body } = await killed;
    expect([status, body.awaySeconds >= 1]).toEqual([200, true]);
    expect(new ProcessTable(join(stack.stateDir, "processes.jsonl")).alive().map(({ pid }) => pid)).toContain(body.pid);
    expect((await sql("select a from kept")).body.records).toEqual([[{ longValue: 1 }]]);
    expect(await stack.control("POST", "/database/kill", { how: "slowly" })).toMatchObject({
      status: 400,
      body: { code: "BAD_REQUEST" },
    });
  });

  test("a second stack in the same folder is refused, and the first goes on", async () => {
    const second = start({ stateDir: stack.stateDir, args: [] });
    // local.json of the first is there at once, so the second is watched by what it leaves: nothing changed.
    await second.then((other) => until(() => other.output().includes("ALREADY_RUNNING"), { what: "the refusal" }));
    expect(existsSync(join(stack.stateDir, "local.json"))).toBe(true);
    expect((await stack.control("GET", "/functions")).status).toBe(200);
  });
});
