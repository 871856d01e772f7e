import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ExecuteStatementCommand, RDSDataClient } from "@aws-sdk/client-rds-data";
import { SendMessageCommand, SQSClient } from "@aws-sdk/client-sqs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type LocalStack, startLocalStack } from "../support/stack.ts";
import { until } from "../support/until.ts";
import { cloudFault, createVolume, eventsOf, expectRest, untilItem, untilStatus } from "../support/volumes.ts";

/*
 * No log of any function and nothing that the stack prints tells a secret, a token that holds a row, or what rows,
 * requests, messages and parameters contain; however things go wrong.
 */

let stack: LocalStack;
let sqs: SQSClient;
let rdsData: RDSDataClient;
beforeAll(async () => {
  stack = await startLocalStack();
  const { awsEndpoint: endpoint, region } = stack.local;
  const credentials = { accessKeyId: "any", secretAccessKey: "any" };
  sqs = new SQSClient({ endpoint, region, credentials, useQueueUrlAsEndpoint: false });
  rdsData = new RDSDataClient({ endpoint, region, credentials, maxAttempts: 1 });
});
afterAll(() => stack?.stop());

/** In every text that goes in. */
const CANARY = `canary-${crypto.randomUUID()}`;

const logs = () => {
  const folder = join(stack.stateDir, "logs");
  const files = readdirSync(folder).map((name) => [name, readFileSync(join(folder, name), "utf8")] as const);
  return [...files, ["output of the stack", stack.output()] as const];
};

/** Lines that hold one of these, cut to what an assertion can show. */
const leaks = (where: readonly (readonly [string, string])[], what: readonly string[]) =>
  where.flatMap(([name, text]) =>
    text.split("\n").flatMap((line) => {
      const found = what.find((one) => line.includes(one));
      return found === undefined ? [] : [`${name}: ${found} in ${line.slice(0, 300)}`];
    }),
  );

/** What functions sign their calls with, of the processes that live: where the system shows it. */
async function keys(): Promise<readonly string[]> {
  const { body } = await stack.control("GET", "/functions");
  const pids = (body as { pids: number[] }[]).flatMap((fn) => fn.pids);
  return pids.flatMap((pid) => {
    const file = `/proc/${pid}/environ`;
    const text = existsSync(file) ? readFileSync(file, "utf8") : "";
    return /AWS_SECRET_ACCESS_KEY=([^\0]+)/.exec(text)?.[1] ?? [];
  });
}

/** Passwords of the database and whatever else secrets hold. */
function secrets(): readonly string[] {
  const { secrets: stored } = JSON.parse(readFileSync(join(stack.stateDir, "secrets.json"), "utf8")) as {
    secrets: Record<string, { value: string }>;
  };
  return Object.values(stored).flatMap(({ value }) => {
    const { password } = JSON.parse(value) as { password?: string };
    return password === undefined ? [value] : [password];
  });
}

/** Every token that ever stood in a message, and those that rows and items have had. */
async function tokens(): Promise<readonly string[]> {
  const sent = stack.queueLog().flatMap(({ body }) => /"token":"([0-9a-f-]{36})"/.exec(body ?? "")?.[1] ?? []);
  const rows = await stack.sql(
    "select lock_token as token from millrace.items where lock_token is not null union select unnest(finished_tokens) from millrace.items",
  );
  return [...sent, ...rows.map(({ token }) => token)];
}

async function work(): Promise<void> {
  const { body: fleet } = await stack.api("POST", "/fleets", { name: `fleet ${CANARY}`, nodes: 1 });
  await createVolume(stack, `volume ${CANARY}`);
  await untilStatus(stack, `volume ${CANARY}`, "active");
  const { body: job } = await stack.api("POST", "/jobs", {
    fleetId: fleet.id,
    command: ["sh", "-c", `echo ${CANARY}; exit 3`],
  });
  await until(async () => (await stack.api("GET", `/jobs/${job.id}`)).body.status === "failed", {
    what: "the job to fail",
    timeoutMs: 90_000,
    everyMs: 100,
  });
}

async function wrongInput(): Promise<void> {
  const refused = [
    await stack.api("POST", "/fleets", { name: `fleet ${CANARY}`, nodes: 0 }), // taken
    await stack.api("POST", "/volumes", { name: `${CANARY}/`, sizeGb: CANARY }),
    await stack.api("POST", "/hints", { pipeline: CANARY }),
    await stack.api("GET", `/volumes/${CANARY}`),
    await stack.api("GET", `/volumes?cursor=${CANARY}&${CANARY}=1`),
    await stack.api("POST", `/pipelines/${CANARY}/pause`, { by: CANARY }),
  ];
  for (const { status } of refused) expect(status >= 400 && status < 500).toBe(true);
  const raw = await fetch(`${stack.local.apiUrl}/jobs`, { method: "POST", body: `{"command": ["${CANARY}"` });
  expect(raw.status).toBe(400);
  const bodies = [
    `${CANARY}`,
    JSON.stringify({ v: CANARY }),
    JSON.stringify({ v: 1, pipeline: CANARY, id: CANARY, token: CANARY }),
  ];
  for (const queue of ["volumes", "hints"])
    for (const MessageBody of bodies)
      await sqs.send(new SendMessageCommand({ QueueUrl: stack.local.queues[queue]!.url, MessageBody }));
  for (const name of ["worker-volumes", "fetcher"])
    await until(() => eventsOf(stack, name, "message.malformed").length >= 2, {
      what: `${name} to refuse`,
      timeoutMs: 60_000,
    });
  const { clusterArn: resourceArn, secretArn, database } = stack.local;
  const parameters = [{ name: "a", value: { stringValue: CANARY } }];
  for (const sql of ["select cast(:a as uuid)", "select cast(:a as int)", "select :a, :b", `select ${CANARY}`])
    await expect(
      rdsData.send(new ExecuteStatementCommand({ resourceArn, secretArn, database, sql, parameters })),
    ).rejects.toThrow();
}

async function failures(): Promise<void> {
  const name = `failing ${CANARY}`;
  await cloudFault(stack, { match: name, kind: "fail", count: 1 });
  await createVolume(stack, name);
  await untilStatus(stack, name, "active");
  await stack.control("POST", "/data-api/faults", { match: "millrace:apply volumes", kind: "lostAnswer", count: 1 });
  await stack.control("POST", "/data-api/faults", {
    match: "millrace:claim volumes",
    kind: "error",
    code: "22P02",
    count: 1,
  });
  await createVolume(stack, `lost ${CANARY}`);
  // a row that the application's own statement chokes on, and one whose worker dies over it
  await cloudFault(stack, { match: `dying ${CANARY}`, kind: "killCaller", count: 1 });
  const { id } = await createVolume(stack, `dying ${CANARY}`);
  await untilItem(stack, id, (item) => item.state === "applied", "applied after its worker's death", 120_000);
  await untilStatus(stack, `lost ${CANARY}`, "active");
  await stack.control("POST", "/data-api/faults", { match: "list volumes", kind: "error", code: "22P02", count: 1 });
  await stack.api("GET", `/volumes?name=${CANARY}`);
}

test("no log tells what rows, requests, messages and parameters contain, no secret, no token", async () => {
  await work();
  await wrongInput();
  await failures();
  await expectRest(stack, "");
  // it went wrong as it was meant to, and was logged
  expect(eventsOf(stack, "worker-volumes", "item.failed")).toMatchObject([{ code: "CLOUD_FAILED" }]);
  expect(eventsOf(stack, "fetcher", "item.lost").length).toBeGreaterThan(0);
  expect((await stack.sql("select 1 from volumes where name like $1", [`%${CANARY}`])).length).toBe(4);
  const [secretOnes, tokenOnes] = [secrets(), await tokens()];
  expect(secretOnes.length).toBeGreaterThan(1);
  expect(tokenOnes.length).toBeGreaterThan(4);
  const never = [CANARY, ...secretOnes, ...tokenOnes, ...(await keys())];
  expect(leaks(logs(), never)).toEqual([]);
  // and each of them would have been found
  for (const one of [CANARY, secretOnes[0]!, tokenOnes[0]!])
    expect(leaks([...logs(), ["planted", `{"message":"x ${one} y"}`]], never).length).toBe(1);
});
