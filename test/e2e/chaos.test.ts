import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type ChaosReport, chaos } from "../chaos/chaos.ts";
import { tellReport } from "../chaos/report.ts";
import { synthesizeTuned } from "../chaos/tuned.ts";

/** What is chosen; when it happens is the machine's. */
const SEED = 559;

const assembly = mkdtempSync(join(tmpdir(), "millrace-chaos-assembly-"));
// locks that expire soon: a short run has no time for the others
beforeAll(() => synthesizeTuned(assembly));
afterAll(() => rmSync(assembly, { recursive: true, force: true }));

test("whatever dies or fails for twenty seconds, everything asked for comes about, once", async () => {
  const lines: string[] = [];
  const report: ChaosReport = await chaos({
    seconds: 20,
    seed: SEED,
    boundSeconds: 180,
    longestSeconds: 12,
    hangs: false,
    assembly,
    signal: new AbortController().signal,
    progress: (line) => void lines.push(line),
  });
  tellReport(report, SEED, (line) => void lines.push(line));
  const wrong = report.checks.filter((check) => check.wrong.length > 0);
  expect(wrong, lines.join("\n")).toEqual([]);
  // it proves nothing where nothing went wrong
  expect(report.faults.sum("kill worker")).toBeGreaterThan(0);
  expect(report.faults.sum("database")).toBeGreaterThan(0);
  expect(report.faults.sum("")).toBeGreaterThanOrEqual(8);
}, 300_000);
