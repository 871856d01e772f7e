import { beforeEach, describe, expect, test } from "vitest";
import { hintBody } from "../../../lib/engine/hint.ts";
import {
  type Database,
  type FetchMemory,
  fetchHinted,
  fetchMemory,
  type PipelineColumns,
  pipelinesFor,
  type ReceivedHint,
  registry,
} from "../../../lib/index.ts";
import { type DrivenClock, drivenClock } from "../../support/driven-clock.ts";
import { portsOver, type TestPorts } from "../../support/ports.ts";

interface Box extends PipelineColumns {
  id: string;
  status: string;
}
const { state, pipeline } = pipelinesFor<{ boxes: Box }, unknown>().on("boxes");
const stateOf = (status: string) =>
  state({ ready: (eb) => eb("status", "=", status), process: ({ apply }) => apply({}) });
const all = registry<unknown>([
  pipeline("packing", { pack: stateOf("a") }),
  pipeline("sending", { send: stateOf("b") }),
]);

/** What a fetch hears where nothing is due. */
const EMPTY = { why: "empty", ids: "[]", lost: "[]", expired: 0, queued: 0, wake_in: null, in_flight: 0, beat_age: 1 };

let clock: DrivenClock;
let ports: TestPorts;
let memory: FetchMemory;
let down: boolean;

beforeEach(() => {
  clock = drivenClock();
  down = false;
  const run = async () => {
    if (down) throw new Error("down");
    return { rows: [EMPTY], unanswered: false };
  };
  const database = { run } as unknown as Database;
  ports = portsOver(database, { clock });
  memory = fetchMemory();
});

const at = (ms: number) => new Date(clock.now() + ms).toISOString();
const hint = (about: Parameters<typeof hintBody>[0], sentAgo = 0): ReceivedHint => ({
  messageId: "m",
  body: hintBody(about),
  sentAt: clock.now() - sentAgo,
});
const receive = (...hints: ReceivedHint[]) => fetchHinted(all, hints, ports, memory);
const packing = { pipeline: "packing" };

describe("a batch of hints", () => {
  test("is one fetch for each pipeline that it means", async () => {
    await receive(hint(packing), hint({ table: "boxes" }), hint(packing), hint({ table: "boxes" }));
    expect(ports.statements.toSorted()).toEqual(["fetch packing", "fetch sending"]);
  });

  test("names what it cannot read or does not know, and goes on", async () => {
    const bad = { messageId: "m1", body: "{", sentAt: clock.now() };
    await receive(bad, hint({ pipeline: "moving" }), hint({ table: "crates" }), hint(packing));
    expect(ports.events.of("message.malformed")).toEqual([
      { code: "HINT_MALFORMED", error: "this is no hint message: the body is no JSON", messageId: "m1" },
    ]);
    expect(ports.events.of("message.unknown").map((e) => e.code)).toEqual(["PIPELINE_UNKNOWN", "TABLE_UNKNOWN"]);
    expect(ports.statements).toEqual(["fetch packing"]);
  });
});

describe("a hint that a fetch of this process has answered", () => {
  beforeEach(async () => {
    await receive(hint(packing));
    ports.statements.length = 0;
    await clock.advance(1_000);
  });

  test.each([
    ["sent long before it began is skipped", 1_500, false],
    ["sent just before it began is not: clocks differ", 1_050, true],
    ["sent after it began is not", 900, true],
  ])("%s", async (_, sentAgo, fetched) => {
    await receive(hint(packing, sentAgo));
    expect(ports.statements).toEqual(fetched ? ["fetch packing"] : []);
    expect(ports.events.of("hint.skipped")).toEqual(fetched ? [] : [{ pipeline: "packing" }]);
  });

  test("is one pipeline's own affair", async () => {
    await receive(hint({ table: "boxes" }, 1_500));
    expect(ports.statements).toEqual(["fetch sending"]);
  });

  test("does not stand for a newer one of the same batch", async () => {
    await receive(hint(packing), hint(packing, 1_500));
    expect(ports.statements).toEqual(["fetch packing"]);
  });

  test("a wake-up counts from its due time, however long ago it was sent", async () => {
    await receive(hint({ ...packing, at: at(0) }, 600_000));
    expect(ports.statements).toEqual(["fetch packing"]);
  });
});

test("a fetch that failed answers no hint", async () => {
  down = true;
  await receive(hint(packing));
  expect(ports.events.of("fetch.failed")).toHaveLength(1);
  down = false;
  await clock.advance(1_000);
  await receive(hint(packing, 1_500));
  expect(ports.statements).toEqual(["fetch packing", "fetch packing"]);
});

describe("a wake-up", () => {
  test.each([
    ["due in 300 ms is waited out", [300], 300],
    ["due in 1999 ms too", [1_999], 1_999],
    ["due in two seconds is a link of a chain: it fetches now", [2_000], 0],
    ["that is due fetches now", [-50], 0],
    ["the earliest of several counts", [900, 400, 700], 400],
  ])("%s", async (_, dues, ms) => {
    const receiving = receive(...dues.map((d) => hint({ ...packing, at: at(d) })));
    if (ms > 0) {
      await clock.advance(ms - 1);
      expect(ports.statements).toEqual([]);
      await clock.advance(1);
    }
    await receiving;
    expect(ports.statements).toEqual(["fetch packing"]);
  });

  test.each([
    ["before", 0],
    ["behind", 1],
  ])("with a plain hint %s it does not wait", async (_, first) => {
    const hints = [hint(packing), hint({ ...packing, at: at(900) })];
    await receive(...(first === 0 ? hints : hints.toReversed()));
    expect(ports.statements).toEqual(["fetch packing"]);
  });
});

describe("a storm of hints", () => {
  test("two fetches at once, then one in two seconds", async () => {
    for (let n = 0; n < 2; n++) await receive(hint(packing));
    const third = receive(hint(packing));
    await clock.advance(1_999);
    expect(ports.statements).toHaveLength(2);
    await clock.advance(1);
    await third;
    expect(ports.statements).toHaveLength(3);
    expect(memory.startedAt.get("packing")).toBe(clock.now());
  });

  test("a fetch that finds rows is not held back, however many there were", async () => {
    let rows = true;
    const run = async () => {
      rows = !rows;
      return { rows: [rows ? EMPTY : { ...EMPTY, why: "rows", ids: `["${crypto.randomUUID()}"]` }], unanswered: false };
    };
    ports = portsOver({ run } as unknown as Database, { clock });
    for (let n = 0; n < 5; n++) await receive(hint(packing));
    expect(ports.statements).toHaveLength(10);
  });

  test("the pause ends ten seconds before the function does", async () => {
    ports = portsOver(ports.database, { clock, timeLeft: () => 10_500 });
    for (let n = 0; n < 2; n++) await receive(hint(packing));
    const third = receive(hint(packing));
    await clock.advance(500);
    await third;
    expect(ports.statements).toHaveLength(3);
  });

  test("10,000 in ten seconds over five processes are at most 50 fetches, and the last one is answered", async () => {
    const queue: ReceivedHint[] = [];
    const started: number[] = [];
    const run = async () => {
      started.push(clock.now());
      await clock.wait(20);
      return { rows: [EMPTY], unanswered: false };
    };
    ports = portsOver({ run } as unknown as Database, { clock });
    const end = clock.now() + 10_000;
    let last = 0;
    const serve = async (own: FetchMemory) => {
      while (clock.now() < end || queue.length > 0) {
        const some = queue.splice(0, 10);
        if (some.length === 0) await clock.wait(1);
        else await fetchHinted(all, some, ports, own);
      }
    };
    const serving = Promise.all(Array.from({ length: 5 }, () => serve(fetchMemory())));
    for (let ms = 0; ms < 10_000; ms += 5) {
      last = clock.now();
      queue.push(...Array.from({ length: 5 }, () => hint(packing)));
      await clock.advance(5);
    }
    const inTime = started.length;
    await clock.advance(10_000);
    await serving;
    expect(inTime).toBeLessThanOrEqual(50);
    expect(inTime).toBeGreaterThan(10);
    expect(Math.max(...started)).toBeGreaterThanOrEqual(last - 100);
  });
});
