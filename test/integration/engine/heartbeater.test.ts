import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { heartbeatOnce } from "../../../lib/engine/heartbeat.ts";
import { fetchPipeline } from "../../../lib/index.ts";
import { createEngine, type TestEngine } from "../../support/engine.ts";
import { type TestPorts, testPorts } from "../../support/ports.ts";

let engine: TestEngine;
beforeAll(async () => {
  engine = await createEngine();
});
afterAll(() => engine[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

const fetchThings = (ports: TestPorts) => fetchPipeline(engine.registry, "things", ports);

test("a heartbeater that found nothing in flight has ended: the next fetch of rows starts one", async () => {
  const ports = testPorts(engine);
  expect(await heartbeatOnce(engine.registry, ports)).toEqual([]);
  await fetchThings(ports);
  expect(ports.woken).toBe(0);
  await engine.thing();
  await fetchThings(ports);
  expect(ports.woken).toBe(1);

  expect(await heartbeatOnce(engine.registry, ports)).toEqual(["things"]);
  await engine.thing();
  await fetchThings(ports);
  expect(ports.sent.length).toBe(2);
  expect(ports.woken).toBe(1);
});

test("a heartbeater that ends while rows are being fetched, not having seen them, is replaced by the same run", async () => {
  const beat = (at: string) =>
    engine.query(
      `insert into millrace.upkeep values ('heartbeat', ${at}) on conflict (task) do update set done_at = excluded.done_at`,
    );
  const ports = testPorts(engine, {
    items: {
      send: async (items) => {
        await beat("'epoch'");
        return items.map(() => "accepted" as const);
      },
    },
  });
  await beat("now()");
  await engine.thing();
  await fetchThings(ports);
  expect(ports.woken).toBe(1);
});

test("a fetch that finds no rows replaces a heartbeater that is gone while anything is in flight", async () => {
  const silent = () => engine.query("update millrace.upkeep set done_at = now() - interval '21 s'");
  await engine.thing();
  await fetchThings(testPorts(engine));
  await heartbeatOnce(engine.registry, testPorts(engine));
  const alive = testPorts(engine);
  await fetchThings(alive);
  expect(alive.woken).toBe(0);
  await silent();
  const gone = testPorts(engine);
  await fetchThings(gone);
  expect(gone.woken).toBe(1);
  await engine.query("update millrace.items set finished_at = now()");
  const idle = testPorts(engine);
  await fetchThings(idle);
  expect(idle.woken).toBe(0);
});
