import { createServer, type Server } from "node:http";
import { SQSClient } from "@aws-sdk/client-sqs";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import {
  type Item,
  itemBody,
  type RecordedEvents,
  recordedEvents,
  sqsHintQueue,
  sqsItemQueue,
} from "../../../lib/index.ts";
import { drivenClock } from "../../support/driven-clock.ts";
import { startQueues, type TestQueues } from "../../support/local-queues.ts";

let queues: TestQueues;
let events: RecordedEvents;
let waits: number[];
let count = 0;
beforeAll(async () => {
  queues = await startQueues();
});
afterAll(() => queues[Symbol.asyncDispose]());
beforeEach(() => {
  events = recordedEvents();
  waits = [];
});

/** Waits for nothing, and notes for how long. */
const clock = {
  ...drivenClock(),
  wait: async (ms: number) => {
    waits.push(ms);
  },
};
const itemsOf = (n: number, pipeline = "volumes"): Item[] =>
  Array.from({ length: n }, () => ({ pipeline, id: crypto.randomUUID(), token: crypto.randomUUID() }));

async function makeQueue() {
  count += 1;
  const name = `adapter-${count}`;
  await queues.sqs.createQueue(name, {});
  return { name, url: queues.url(name) };
}

/** Everything that is in a queue, as text. */
async function drain(queue: string): Promise<string[]> {
  const found: string[] = [];
  for (;;) {
    const some = await queues.sqs.receive(queue, { max: 10, waitSeconds: 0 });
    if (some.length === 0) return found;
    found.push(...some.map((m) => m.Body ?? ""));
  }
}

describe("items", () => {
  test("go to the queue of their pipeline, ten a call, and each is answered in its place", async () => {
    const [volumes, fleets] = [await makeQueue(), await makeQueue()];
    const queue = sqsItemQueue(queues.client, { volumes: volumes.url, fleets: fleets.url }, clock);
    const [many, few] = [itemsOf(23), itemsOf(2, "fleets")];
    const mixed = [...many.slice(0, 5), ...few, ...many.slice(5)];
    expect(await queue.send(mixed)).toEqual(mixed.map(() => "accepted"));
    expect((await drain(volumes.name)).sort()).toEqual(many.map(itemBody).sort());
    expect((await drain(fleets.name)).sort()).toEqual(few.map(itemBody).sort());
  });

  test("none are no call", async () => {
    expect(await sqsItemQueue(queues.client, {}, clock).send([])).toEqual([]);
  });

  test("that the service fails are sent again, and only those", async () => {
    const { name, url } = await makeQueue();
    const items = itemsOf(12);
    queues.sqs.faults.add(name, { kind: "refuse", count: 2 });
    expect(await sqsItemQueue(queues.client, { volumes: url }, clock).send(items)).toEqual(items.map(() => "accepted"));
    const got = await drain(name);
    expect(got.sort()).toEqual(items.map(itemBody).sort());
    expect(waits).toEqual([200]);
  });

  test("that the service fails three times are refused, each in its place", async () => {
    const { name, url } = await makeQueue();
    const items = itemsOf(3);
    // all three of the first call, then the two calls of what is left
    queues.sqs.faults.add(name, { kind: "refuse", count: 9 });
    const queue = sqsItemQueue(queues.client, { volumes: url }, clock);
    expect(await queue.send(items)).toEqual(["refused", "refused", "refused"]);
    expect(waits).toEqual([200, 400]);
    expect(await drain(name)).toEqual([]);
    queues.sqs.faults.add(name, { kind: "refuse", count: 1 });
    expect(await queue.send(items)).toEqual(["accepted", "accepted", "accepted"]);
  });

  test("for a queue that is not there are refused, without another try", async () => {
    const queue = sqsItemQueue(queues.client, { volumes: queues.url("nowhere") }, clock);
    expect(await queue.send(itemsOf(2))).toEqual(["refused", "refused"]);
    expect(waits).toEqual([]);
  });

  test("of a pipeline without a queue are an error of the environment", async () => {
    const sending = sqsItemQueue(queues.client, {}, clock).send(itemsOf(1));
    await expect(sending).rejects.toMatchObject({
      code: "ENVIRONMENT",
      message: "environment variable ITEM_QUEUE_URLS is without a queue for volumes",
    });
  });
});

describe("a service out of reach", () => {
  const clientTo = (endpoint: string) =>
    new SQSClient({
      endpoint,
      useQueueUrlAsEndpoint: false,
      region: "us-east-1",
      credentials: { accessKeyId: "test", secretAccessKey: "test" },
      maxAttempts: 1,
    });

  /** A server that takes each call and closes the connection. */
  async function closing(): Promise<{ server: Server; url: string; calls: () => number }> {
    let calls = 0;
    const server = createServer((request) => {
      request.resume().on("end", () => {
        calls += 1;
        request.socket.destroy();
      });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as { port: number };
    return { server, url: `http://127.0.0.1:${port}`, calls: () => calls };
  }

  test("refuses what it never got, after three tries", async () => {
    const queue = sqsItemQueue(clientTo("http://127.0.0.1:9"), { volumes: "http://127.0.0.1:9/0/volumes" }, clock);
    expect(await queue.send(itemsOf(2))).toEqual(["refused", "refused"]);
    expect(waits).toEqual([200, 400]);
  });

  test("may have taken what it did not answer: that counts as accepted, and is not sent twice", async () => {
    const { server, url, calls } = await closing();
    const queue = sqsItemQueue(clientTo(url), { volumes: `${url}/0/volumes` }, clock);
    expect(await queue.send(itemsOf(11))).toEqual(new Array(11).fill("accepted"));
    expect(calls()).toBe(2);
    server.close();
  });
});

describe("hints", () => {
  test("go out now or with a delay of whole seconds", async () => {
    const { name, url } = await makeQueue();
    const queue = sqsHintQueue(queues.client, url, clock, events);
    await queue.send([
      { body: "now", delaySeconds: 0 },
      { body: "later", delaySeconds: 900 },
    ]);
    expect(await drain(name)).toEqual(["now"]);
    const sent = queues.log().filter((e) => e.queue === name && e.op === "send");
    expect(sent.map((e) => [e.body, e.seconds])).toEqual([
      ["now", undefined],
      ["later", 900],
    ]);
    expect(events.all).toEqual([]);
  });

  test("that are refused are told, one by one, and thrown by nobody", async () => {
    const { name, url } = await makeQueue();
    const hints = Array.from({ length: 12 }, (_, n) => ({ body: `hint ${n}`, delaySeconds: n === 11 ? 901 : 0 }));
    await sqsHintQueue(queues.client, url, clock, events).send(hints);
    expect(events.all).toEqual([{ name: "hint.failed", payload: { error: "1 hints were refused" } }]);
    expect(await drain(name)).toHaveLength(11);
    // our own fault: another try would fail the same way
    expect(waits).toEqual([]);
  });

  test("to a queue that is not there are told as well", async () => {
    const queue = sqsHintQueue(queues.client, queues.url("nowhere"), clock, events);
    await queue.send([{ body: "now", delaySeconds: 0 }]);
    expect(events.of("hint.failed")).toHaveLength(1);
  });
});
