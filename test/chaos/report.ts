/* What a run of chaos has to tell. */

import { textTable } from "../support/text-table.ts";
import type { ChaosReport } from "./chaos.ts";
import { timesText } from "./recovery.ts";

/** Of what one check found wrong, so many lines are shown. */
const MOST_WRONG = 8;

/** Tells it; answers the exit code. */
export function tellReport(report: ChaosReport, seed: number, say: (line: string) => void): number {
  const { checks, faults, requests, events, recoverySeconds, databaseSeconds, convergence, stateDir } = report;
  say(`\n${textTable(["fault", "times"], faults.entries())}`);
  say(`\n${textTable(["request and answer", "times"], requests.entries())}`);
  say(`\n${textTable(["event", "times"], events.entries())}`);
  const stale = events.sum("item.stale");
  say(
    `\n${faults.sum("")} faults; ${events.of("item.applied")} passes applied, ${stale} stale, ${events.of("item.lost")} lost`,
  );
  say(`from a worker's death to the next claim of its rows: ${timesText(recoverySeconds, "rows")}`);
  say(
    `from the database's death to its first connection, without the time it was kept away: ${timesText(databaseSeconds, "times")}`,
  );
  say(
    `converged in ${convergence.seconds.toFixed(1)} s; ${convergence.dead} volumes were given up before, and deleted`,
  );
  say("");
  for (const { name, wrong } of checks) {
    say(`${wrong.length === 0 ? "ok    " : "FAILED"}  ${name}${wrong.length === 0 ? "" : `: ${wrong.length}`}`);
    for (const line of wrong.slice(0, MOST_WRONG)) say(`          ${line}`);
  }
  const failed = checks.filter(({ wrong }) => wrong.length > 0).length;
  if (failed > 0) say(`\nseed ${seed}; database, logs and the cloud are kept in ${stateDir}`);
  say(`${checks.length - failed} passed, ${failed} failed`);
  return failed === 0 ? 0 : 1;
}
