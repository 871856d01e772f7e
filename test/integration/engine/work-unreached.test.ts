import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { ownDataApi } from "../../support/data-api-calls.ts";
import { itemOf } from "../../support/endings.ts";
import { connect, createEngine, type Schema, type TestEngine } from "../../support/engine.ts";
import { passes } from "../../support/passes.ts";
import { fetchMessages, type TestPorts, testPorts, work } from "../../support/ports.ts";

let engine: TestEngine;
let own: Awaited<ReturnType<typeof ownDataApi>>;
beforeAll(async () => {
  engine = await createEngine();
  own = await ownDataApi();
});
afterAll(async () => {
  await own.close();
  await engine[Symbol.asyncDispose]();
});
beforeEach(async () => {
  await engine.clear();
  own.api.faults.clear();
});

function portsTo(endpoint: string): TestPorts {
  const { database } = engine;
  const there = { ...database, dataApiConfig: { ...database.dataApiConfig, endpoint } };
  return testPorts({ api: connect<Schema>(there, database.dataApiConfig.secretArn, () => 1_500) });
}

test("messages whose claim did not reach the database come again, and then go through", async () => {
  await engine.query("insert into things (name) select 'n' || g from generate_series(1, 2) g");
  const registry = passes({});
  const messages = await fetchMessages(registry, testPorts(engine));
  const nowhere = portsTo("http://127.0.0.1:9");
  expect(await work(registry, messages, nowhere)).toEqual(["m0", "m1"]);
  expect(nowhere.events.of("message.kept")).toHaveLength(2);
  const ports = testPorts(engine);
  expect(await work(registry, messages, ports)).toEqual([]);
  expect(ports.events.of("item.applied")).toHaveLength(2);
});

test("while the database wakes up, messages are kept", async () => {
  await engine.thing();
  const registry = passes({});
  const messages = await fetchMessages(registry, testPorts(engine));
  own.api.faults.add({ kind: "resuming", match: "millrace:claim", count: 100 });
  expect(await work(registry, messages, portsTo(own.endpoint))).toEqual(["m0"]);
});

test("a claim whose answer was lost is repeated, and counts one attempt", async () => {
  const id = await engine.thing();
  const attempts: number[] = [];
  const registry = passes({
    provision: {
      process: ({ attempt, retry }) => {
        attempts.push(attempt);
        return retry("again");
      },
    },
  });
  const messages = await fetchMessages(registry, testPorts(engine));
  own.api.faults.add({ kind: "lostAnswer", match: "millrace:claim" });
  expect(await work(registry, messages, portsTo(own.endpoint))).toEqual([]);
  expect(attempts).toEqual([1]);
  expect(await itemOf(engine, id)).toMatchObject({ attempts: 0 });
});

test.each(["22P02", "MR001"])(
  "a claim that fails for good (%s) keeps no message: it would fail again",
  async (code) => {
    const id = await engine.thing();
    const registry = passes({});
    const messages = await fetchMessages(registry, testPorts(engine));
    own.api.faults.add({ kind: "error", code, match: "millrace:claim", count: 100 });
    const ports = portsTo(own.endpoint);
    expect(await work(registry, messages, ports)).toEqual([]);
    expect(ports.events.of("claim.failed")).toMatchObject([{ pipeline: "things", id }]);
  },
);

test("what goes wrong after the claim keeps no message: the row comes back by itself", async () => {
  const id = await engine.thing();
  const registry = passes({});
  const messages = await fetchMessages(registry, testPorts(engine));
  own.api.faults.add({ kind: "error", code: "AccessDeniedException", match: "millrace:apply", count: 100 });
  const ports = portsTo(own.endpoint);
  expect(await work(registry, messages, { ...ports, timeLeft: () => 90_000 })).toEqual([]);
  expect(ports.events.of("finish.failed")).toMatchObject([{ pipeline: "things", step: "apply" }]);
  expect(await itemOf(engine, id)).toMatchObject({ state: "processing" });
});
