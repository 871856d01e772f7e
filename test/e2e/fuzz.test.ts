import { expect, test } from "vitest";
import { type FuzzReport, fuzz } from "../fuzz/fuzz.ts";
import { tellReport } from "../fuzz/report.ts";

/** What is sent; when it arrives is the machine's. */
const SEED = 4711;

test("bad input to each queue and route is refused with a code, and stops nothing that goes on", async () => {
  const lines: string[] = [];
  const report: FuzzReport = await fuzz({
    count: 40,
    seed: SEED,
    boundSeconds: 240,
    signal: new AbortController().signal,
    progress: (line) => void lines.push(line),
  });
  tellReport(report, SEED, (line) => void lines.push(line));
  const wrong = report.checks.filter((check) => check.wrong.length > 0);
  expect(wrong, lines.join("\n")).toEqual([]);
}, 500_000);
