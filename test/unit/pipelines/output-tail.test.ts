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
    expect(await outputTail(cloud, "c", signal)).toBe(output.subarray(-KEPT_BYTES).toString());
    expect(cloud.calls.length).toBeLessThan(50);
  },
);

test("of a command that nobody knows there is none", async () => {
  expect(await outputTail(memoryCloud(), "c", signal)).toBe("");
});

test("what PostgreSQL cannot hold is replaced, and a character cut at the beginning left out", async () => {
  expect(await outputTail(wrote(Buffer.from("a\0b")), "c", signal)).toBe("a\uFFFDb");
  const cut = Buffer.concat([Buffer.from("é"), letters(KEPT_BYTES - 1)]);
  expect(await outputTail(wrote(cut), "c", signal)).toBe(letters(KEPT_BYTES - 1).toString());
});
