import { beforeEach, expect, test } from "vitest";
import { type Finisher, finisher } from "../../../lib/engine/finisher.ts";
import { type DrivenClock, drivenClock, settled } from "../../support/driven-clock.ts";

let clock: DrivenClock;
let running: number;
let flushes: { readonly values: readonly string[]; readonly end: PromiseWithResolvers<void> }[];
let writer: Finisher<string>;

beforeEach(() => {
  clock = drivenClock();
  running = 1;
  flushes = [];
  writer = finisher(
    clock,
    () => running,
    (values) => {
      const end = Promise.withResolvers<void>();
      flushes.push({ values, end });
      return end.promise;
    },
  );
});

const flushed = () => flushes.map((f) => f.values);

test("the last one is written at once", async () => {
  running = 0;
  const written = writer.add("a");
  await settled();
  expect(flushed()).toEqual([["a"]]);
  flushes[0]!.end.resolve();
  await written;
});

test("what ends together when nothing runs any more goes into one flush, without a wait", async () => {
  running = 0;
  void writer.add("a");
  void writer.add("b");
  await settled();
  expect(flushed()).toEqual([["a", "b"]]);
  expect(clock.waits()).toEqual([]);
});

test("while others run, a flush waits 15 ms for what ends next", async () => {
  void writer.add("a");
  await clock.advance(14);
  void writer.add("b");
  expect(flushed()).toEqual([]);
  await clock.advance(1);
  expect(flushed()).toEqual([["a", "b"]]);
});

test("an ending is written only when its flush is", async () => {
  let written = false;
  const adding = writer.add("a").then(() => {
    written = true;
  });
  await clock.advance(15);
  expect([flushed(), written]).toEqual([[["a"]], false]);
  flushes[0]!.end.resolve();
  await adding;
});

test("what ends while one is written goes into the next, right after it", async () => {
  void writer.add("a");
  await clock.advance(15);
  void writer.add("b");
  void writer.add("c");
  await clock.advance(100);
  expect(flushed()).toEqual([["a"]]);
  flushes[0]!.end.resolve();
  await clock.advance(15);
  expect(flushed()).toEqual([["a"], ["b", "c"]]);
});

test("a slow flush holds up the next for half a second, and no longer", async () => {
  void writer.add("a");
  await clock.advance(15);
  running = 0;
  void writer.add("b");
  await clock.advance(499);
  expect(flushed()).toEqual([["a"]]);
  await clock.advance(1);
  expect(flushed()).toEqual([["a"], ["b"]]);
});

test("a flush that fails is known to its own, and holds up nothing", async () => {
  const failing = writer.add("a");
  await clock.advance(15);
  const next = writer.add("b");
  flushes[0]!.end.reject(new Error("no database"));
  await expect(failing).rejects.toThrow("no database");
  await clock.advance(15);
  expect(flushed()).toEqual([["a"], ["b"]]);
  flushes[1]!.end.resolve();
  await next;
});
