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
  expect(await heartbeatOnce(engine.registry, ports)).toBe(false);
  await fetchThings(ports);
  expect(ports.woken).toBe(0);
  await engine.thing();
  await fetchThings(ports);
  expect(ports.woken).toBe(1);

  expect(await heartbeatOnce(engine.registry, ports)).toBe(true);
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
