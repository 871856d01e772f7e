import { SendMessageBatchCommand, SendMessageCommand, SQSClient } from "@aws-sdk/client-sqs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type LocalStack, startLocalStack } from "../support/stack.ts";
import { until } from "../support/until.ts";
import {
  cloudLog,
  createVolume,
  eventsOf,
  expectRest,
  itemOf,
  statementCalls,
  untilItem,
  untilStatus,
} from "../support/volumes.ts";

let stack: LocalStack;
let sqs: SQSClient;
beforeAll(async () => {
  stack = await startLocalStack();
  sqs = new SQSClient({
    endpoint: stack.local.awsEndpoint,
    region: stack.local.region,
    credentials: { accessKeyId: "any", secretAccessKey: "any" },
    useQueueUrlAsEndpoint: false,
  });
});
afterAll(() => stack?.stop());

const send = (queue: string, MessageBody: string) =>
  sqs.send(new SendMessageCommand({ QueueUrl: stack.local.queues[queue]!.url, MessageBody }));

test("the same message ten times at once, also inside one batch: one claim, nine stale, one apply", async () => {
  await stack.control("POST", "/functions/worker-volumes/stop");
  const { id } = await createVolume(stack, "ten-times");
  await untilItem(stack, id, (i) => i.state === "queued", "queued");
  const { lock_token: token } = await itemOf(stack, id);
  const body = JSON.stringify({ v: 1, pipeline: "volumes", id, token });
  await sqs.send(
    new SendMessageBatchCommand({
      QueueUrl: stack.local.queues["volumes"]!.url,
      Entries: Array.from({ length: 9 }, (_, n) => ({ Id: String(n), MessageBody: body })),
    }),
  );
  await stack.control("POST", "/functions/worker-volumes/start");
  await untilStatus(stack, "ten-times", "active");
  await until(() => eventsOf(stack, "worker-volumes", "item.stale", id).length === 9, {
    what: "nine stale",
    timeoutMs: 60_000,
  });
  expect(eventsOf(stack, "worker-volumes", "item.claimed", id).length).toBe(1);
  expect(eventsOf(stack, "worker-volumes", "item.applied", id).length).toBe(1);
  expect((await cloudLog(stack, "ten-times")).length).toBe(1);
  await expectRest(stack, "ten-times");
});

const BAD_ITEMS = [
  ["no JSON", "message.malformed", "ITEM_MALFORMED"],
  ['{"v":1}', "message.malformed", "ITEM_MALFORMED"],
  ['{"v":2,"pipeline":"volumes"}', "message.malformed", "ITEM_MALFORMED"],
  ['{"v":1,"pipeline":"volumes","id":"7","token":"8"}', "message.malformed", "ITEM_MALFORMED"],
  [
    `{"v":1,"pipeline":"ghosts","id":"${crypto.randomUUID()}","token":"${crypto.randomUUID()}"}`,
    "message.unknown",
    "PIPELINE_UNKNOWN",
  ],
  [
    `{"v":1,"pipeline":"volumes","id":"${crypto.randomUUID()}","token":"${crypto.randomUUID()}"}`,
    "item.stale",
    undefined,
  ],
] as const;

const BAD_HINTS = [
  ["[]", "message.malformed", "HINT_MALFORMED"],
  ['{"v":1,"pipeline":"volumes","at":"soon"}', "message.malformed", "HINT_MALFORMED"],
  ['{"v":1,"table":"ghosts"}', "message.unknown", "TABLE_UNKNOWN"],
  ['{"v":1,"pipeline":"ghosts"}', "message.unknown", "PIPELINE_UNKNOWN"],
] as const;

test("malformed messages, unknown names and wrong ids are logged with a code, deleted, and stop nothing", async () => {
  for (const [body] of BAD_ITEMS) await send("volumes", body);
  for (const [body] of BAD_HINTS) await send("hints", body);
  const { id } = await createVolume(stack, "among-the-bad");
  await untilStatus(stack, "among-the-bad", "active");
  const expected = { "worker-volumes": BAD_ITEMS, fetcher: BAD_HINTS } as const;
  for (const [name, list] of Object.entries(expected)) {
    for (const [body, event, code] of list) {
      const count = list.filter(([, e, c]) => e === event && c === code).length;
      const seen = () =>
        eventsOf(stack, name, event).filter((l) => l.code === code && (code !== undefined || l.id !== id));
      await until(() => seen().length >= count, { what: `${event} ${code} for ${body}`, timeoutMs: 60_000 });
    }
  }
  const bad = new Set<string>([...BAD_ITEMS, ...BAD_HINTS].map(([body]) => body));
  const messages = stack.queueLog().filter((e) => e.op === "send" && bad.has(e.body ?? ""));
  expect(messages.length).toBe(bad.size);
  for (const { messageId } of messages)
    await until(() => stack.queueLog().some((e) => e.op === "delete" && e.messageId === messageId), {
      what: `message ${messageId} to be deleted`,
      timeoutMs: 60_000,
    });
});

test("10,000 hints at once cause at most 50 fetches", async () => {
  const before = await statementCalls(stack, "fetch volumes");
  const body = JSON.stringify({ v: 1, table: "volumes" });
  const Entries = Array.from({ length: 10 }, (_, n) => ({ Id: String(n), MessageBody: body }));
  const QueueUrl = stack.local.queues["hints"]!.url;
  const from = performance.now();
  for (let round = 0; round < 50; round++)
    await Promise.all(Array.from({ length: 20 }, () => sqs.send(new SendMessageBatchCommand({ QueueUrl, Entries }))));
  const sent = new Set(
    stack
      .queueLog()
      .filter((e) => e.op === "send" && e.body === body)
      .map((e) => e.messageId),
  );
  expect(sent.size).toBeGreaterThanOrEqual(10_000);
  await until(
    () => {
      const log = stack.queueLog();
      const deleted = new Set(log.filter((e) => e.op === "delete" && e.queue === "hints").map((e) => e.messageId));
      return [...sent].every((id) => deleted.has(id));
    },
    { what: "all hints to be answered", timeoutMs: 180_000, everyMs: 500 },
  );
  const fetches = (await statementCalls(stack, "fetch volumes")) - before;
  const tens = Math.max(1, (performance.now() - from) / 10_000);
  console.log(`${fetches} fetches for 10,000 hints in ${(tens * 10).toFixed(1)} s`);
  expect(fetches).toBeGreaterThan(0);
  expect(fetches / tens).toBeLessThanOrEqual(50);
});

test("an open transaction on one row holds up that row, and not its batch-mates", async () => {
  await stack.control("POST", "/functions/worker-volumes/stop");
  await stack.sql("insert into volumes (name, size_gb) select 'mate-' || n, 1 from generate_series(1, 10) n");
  await send("hints", JSON.stringify({ v: 1, pipeline: "volumes" }));
  const queued = () =>
    stack.sql(
      "select 1 from millrace.items i join volumes v on v.id = i.item_id where v.name like 'mate-%' and i.state = 'queued'",
    );
  await until(async () => (await queued()).length === 10, { what: "ten queued", timeoutMs: 60_000 });
  await stack.holding("select 1 from volumes where name = 'mate-5' for update", async () => {
    await stack.control("POST", "/functions/worker-volumes/start");
    await untilStatus(stack, "mate-", "active", { count: 9, timeoutMs: 30_000 });
    const [row] = await stack.sql("select status from volumes where name = 'mate-5'");
    expect(row.status).toBe("submitted");
  });
  await untilStatus(stack, "mate-5", "active");
  await expectRest(stack, "mate-");
});

test("a queue that refuses every send makes no hot loop, and nothing is lost", async () => {
  await stack.control("POST", "/queues/volumes/faults", { kind: "refuse", count: 100_000 });
  const before = await statementCalls(stack, "fetch volumes");
  const refusals = () => eventsOf(stack, "fetcher", "items.refused").length;
  const from = refusals();
  const { id } = await createVolume(stack, "refused");
  await until(() => refusals() - from >= 3, { what: "three refusals", timeoutMs: 60_000 });
  const fetches = (await statementCalls(stack, "fetch volumes")) - before;
  expect(fetches).toBeLessThanOrEqual(2 * (refusals() - from) + 2);
  expect((await stack.sql("select lock_token from volumes where id = $1", [id]))[0].lock_token).toBeNull();
  await stack.control("DELETE", "/queues/volumes/faults");
  await untilStatus(stack, "refused", "active");
});
