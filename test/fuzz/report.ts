/* What a run of the fuzz has to tell. */

import { textTable } from "../support/text-table.ts";
import type { FuzzReport } from "./fuzz.ts";

/** Of what one check found wrong, so many lines are shown. */
const MOST_WRONG = 8;

/** Tells it; answers the exit code. */
export function tellReport(report: FuzzReport, seed: number, say: (line: string) => void): number {
  const { checks, targets, requests, sendSeconds, stateDir } = report;
  const rows = targets.map(({ name, sent, accepted, refused }) => [
    name,
    sent,
    accepted,
    refused.sum(""),
    refused
      .entries()
      .map(([code, times]) => `${code} ${times}`)
      .join(", "),
  ]);
  say(`\n${textTable(["what", "sent", "accepted", "refused", "by code"], rows)}`);
  say(`\n${textTable(["request of the load, and answer", "times"], requests.entries())}`);
  const sent = targets.reduce((sum, target) => sum + target.sent, 0);
  say(`\n${sent} sent in ${sendSeconds.toFixed(0)} s, ${(sent / sendSeconds).toFixed(0)} a second\n`);
  for (const { name, wrong } of checks) {
    say(`${wrong.length === 0 ? "ok    " : "FAILED"}  ${name}${wrong.length === 0 ? "" : `: ${wrong.length}`}`);
    for (const line of wrong.slice(0, MOST_WRONG)) say(`          ${line}`);
  }
  const failed = checks.filter(({ wrong }) => wrong.length > 0).length;
  if (failed > 0) say(`\nseed ${seed}; database, logs and the cloud are kept in ${stateDir}`);
  say(`${checks.length - failed} passed, ${failed} failed`);
  return failed === 0 ? 0 : 1;
}
