import type { Command } from "commander";
import type { EventJson, ListJson } from "../api/json.ts";
import { query, wholeNumber } from "./arguments.ts";
import { pageText } from "./format.ts";
import type { Session } from "./session.ts";

interface EventOptions {
  readonly follow?: boolean;
  readonly subject?: string;
  readonly limit?: number;
  readonly cursor?: string;
}

/** Between two looks, in milliseconds. */
const PAUSE = 1_000;

/** `millrace events` */
export function addEvents(program: Command, open: (command: Command) => Session): void {
  program
    .command("events")
    .description("what happened to volumes, fleets, instances and jobs, newest first")
    .option("--follow", "show the newest, oldest of them first, and go on; with --json, one event a line")
    .option("--subject <id>", "only what happened to this one")
    .option("--limit <n>", "how many at most", wholeNumber(1))
    .option("--cursor <cursor>", "where to go on: what the page before printed last")
    .addHelpText("after", "\nExamples:\n  millrace events --limit 20\n  millrace events --follow --json")
    .action(async ({ follow, subject: subjectId, ...page }: EventOptions, command: Command) => {
      const session = open(command);
      if (follow === true) return followEvents(session, { ...page, subjectId });
      const list = await session.client.call<ListJson<EventJson>>("GET", `/events${query({ subjectId, ...page })}`);
      session.print(list, () => pageText(list, "events", ["AT", "KIND", "SUBJECT", "EVENT"], cells));
    });
}

/**
 * Reads the newest pages until one holds an event that was shown: an event whose transaction took longer than others
 * appears between older ones, where a cursor would have passed it. What is older than the first page is never told.
 */
async function followEvents(
  session: Session,
  { limit = 20, subjectId }: { limit?: number; subjectId?: string | undefined },
) {
  const { client, interrupted, write, json, pause } = session;
  const shown = new Set<string>();
  let oldest: EventJson | undefined;
  for (let first = true; !interrupted.aborted; first = false) {
    const fresh: EventJson[] = [];
    for (let cursor: string | undefined; ; ) {
      const asked = { subjectId, limit: first ? limit : 50, cursor };
      const page = await client.call<ListJson<EventJson>>("GET", `/events${query(asked)}`);
      const { nextCursor } = page;
      if (first && nextCursor !== null) oldest = page.items.at(-1);
      const items = downTo(oldest, page.items);
      const unseen = items.filter(({ id }) => !shown.has(id));
      fresh.push(...unseen);
      if (first || nextCursor === null || unseen.length < page.items.length || shown.size === 0) break;
      cursor = nextCursor;
    }
    for (const event of fresh.reverse()) {
      shown.add(event.id);
      write(json ? `${JSON.stringify(event)}\n` : `${cells(event).join("  ")}\n`);
    }
    await pause(PAUSE);
  }
}

/** A page without what is older than an event; where that is gone itself, its time counts. */
function downTo(oldest: EventJson | undefined, items: readonly EventJson[]): readonly EventJson[] {
  if (oldest === undefined) return items;
  const last = items.findIndex(({ id }) => id === oldest.id);
  return last < 0 ? items.filter(({ at }) => at >= oldest.at) : items.slice(0, last + 1);
}

const cells = ({ at, kind, subjectId, message }: EventJson) => [
  `${at.slice(0, 19).replace("T", " ")} UTC`,
  kind.padEnd(8),
  subjectId,
  message,
];
