import { expect, test } from "vitest";
import { KEPT_BYTES, outputTail } from "../../../functions/pipelines/output-tail.ts";
import { memoryCloud } from "../../support/memory-cloud.ts";

const { signal } = new AbortController();

function wrote(output: Buffer) {
  const cloud = memoryCloud();
  const command = { instanceId: "i-1", command: ["x"], volumes: [], state: { state: "running" } as const, output };
  cloud.commands.set("c", command);
  return cloud;
}
const letters = (bytes: number) => Buffer.from(Array.from({ length: bytes }, (_, n) => 97 + (n % 23)));

test.each([0, 1, 15_999, 16_000, 16_001, KEPT_BYTES, KEPT_BYTES + 1, 81_536, 500_000, 10_000_000])(
  "of %d bytes the last 64 KiB are kept",
  async (bytes) => {
    const output = letters(bytes);
    const cloud = wrote(output);
    expect(await outputTail(cloud, "c", signal)).toEqual({
      text: output.subarray(-KEPT_BYTES).toString(),
      from: Math.max(0, bytes - KEPT_BYTES),
    });
    expect(cloud.calls.length).toBeLessThan(50);
  },
);

test("of a command that nobody knows there is none", async () => {
  expect(await outputTail(memoryCloud(), "c", signal)).toEqual({ text: "", from: 0 });
});

test("what PostgreSQL cannot hold is replaced, and a character cut at the beginning left out", async () => {
  expect(await outputTail(wrote(Buffer.from("a\0b")), "c", signal)).toEqual({ text: "a?b", from: 0 });
  const cut = Buffer.concat([Buffer.from("é"), letters(KEPT_BYTES - 1)]);
  expect(await outputTail(wrote(cut), "c", signal)).toEqual({ text: letters(KEPT_BYTES - 1).toString(), from: 2 });
});

test.each([
  ["bytes that are no text", Buffer.from([0xff, 0x61, 0xc3, 0x62, 0xf0, 0x9f, 0x92])],
  ["a character that is U+FFFD itself", Buffer.from("a\uFFFDb")],
  ["a character across two reads", Buffer.concat([letters(15_999), Buffer.from("é")])],
  ["a replaced character where the kept part begins", Buffer.concat([Buffer.from("\uFFFD"), letters(KEPT_BYTES - 3)])],
  ["anything", Buffer.from(Array.from({ length: 70_000 }, (_, n) => (n * n * 31 + n) % 256))],
])("with %s the text has as many bytes as it stands for", async (_, output) => {
  const { text, from } = await outputTail(wrote(output), "c", signal);
  expect(from + Buffer.byteLength(text)).toBe(output.length);
});
