import type { Finishing, Ledger, Sending } from "./ledger.ts";
import { LOCK_SECONDS } from "./pipelines.ts";
import type { Remains } from "./rest.ts";
import type { Tally } from "./tally.ts";

export interface Check {
  readonly name: string;
  /** What was wrong; none = passed. */
  readonly wrong: readonly string[];
}

/** A line in the table of logs: the token of an apply that was accepted. */
export interface LogLine {
  readonly id: string;
  readonly token: string;
  /** Database time of the apply, in ms. */
  readonly at: number;
  /** What it added to `busy` of related rows, by id. */
  readonly changes: Readonly<Record<string, number>>;
}

export interface Evidence {
  readonly ledger: Ledger;
  readonly logs: readonly LogLine[];
  /** What writers outside of pipelines added to `busy`, by id. */
  readonly writes: readonly LogLine["changes"][];
  readonly errors: readonly string[];
  /** As PostgreSQL counts them. */
  readonly deadlocks: number;
  /** Statements that were seen to wait for each other. */
  readonly circles: readonly string[];
  readonly remains: Remains;
  /** `size` by id, where nobody deletes the row. */
  readonly sizes: ReadonlyMap<string, number>;
  readonly increments: ReadonlyMap<string, number>;
  /** `busy` by id, of the same rows. */
  readonly busy: ReadonlyMap<string, number>;
  readonly tally: Tally;
  readonly variety: boolean;
  readonly foreignKeys: boolean;
}

/** An item remembers the tokens of this many finishes. */
const REMEMBERED = 3;
/** A claim's time is known to the ms. */
const PRECISION_MS = 1;

/** Outcomes that every mix must have had, or it has shown nothing. */
const NEEDED = [
  "apply applied",
  "apply already",
  "claim ours",
  "claim stale",
  "lock locked",
  "twins",
  "repeated unanswered",
];
/** And these, if it had the time. */
const VARIETY = [
  ...["fetch rows", "fetch empty", "fetch full", "fetch busy", "fetch paused", "fetch of expired locks"],
  ...["enqueue queued", "enqueue freed", "claim alone", "renew kept", "renew lost"],
  ...["apply stale", "apply contention", "reset ended", "fail ended", "release ended"],
  ...["lock locked", "lock contention", "lock moved", "lock gone", "lock stale"],
  ...["writer update", "writer with lock", "writer request", "writer ROW_LOCKED"],
  ...["heartbeat extended", "sweep ended", "sweep unlocked", "rows inserted again"],
  ...["fenced plain update", "fenced plain relate"],
];

/** And this, where there are foreign keys. */
const REFUSED = ["refused insert of a child"];

export function runChecks(evidence: Evidence): readonly Check[] {
  const { errors, remains, tally, ledger, logs } = evidence;
  const lines = new Map(logs.map((line) => [line.token, line]));
  const finishes = [...ledger.finishes.values()];
  const count = (n: number, what: string) => (n === 0 ? [] : [`${n} ${what}`]);
  return [
    { name: "no error reached a caller", wrong: errors },
    { name: "PostgreSQL saw no deadlock but for open foreign keys", wrong: deadlocked(evidence) },
    { name: "nothing was applied twice", wrong: twice(logs) },
    { name: "every `applied` left its token in logs", wrong: withoutLog(finishes, lines) },
    { name: "every token in logs was claimed and sent", wrong: unknownLogs(ledger, logs) },
    { name: "no token was finished twice", wrong: finishedTwice(finishes) },
    { name: "`already` only for what was finished", wrong: falseAlready(finishes, lines) },
    { name: "`stale` never for what was applied", wrong: falseStale(finishes, lines) },
    { name: "a message was claimed by one worker", wrong: claimedTwice(ledger) },
    { name: "one holder: no accepted passes of a row overlap", wrong: overlaps(ledger, logs) },
    { name: "no live lock was taken", wrong: takenAlive(ledger) },
    { name: "no pass overwrote columns it did not name", wrong: lostIncrements(evidence) },
    { name: "what related locks counted is what accepted applies added", wrong: miscounted(evidence) },
    { name: "at rest no lock column is set", wrong: count(remains.locked, "rows") },
    { name: "at rest no item is in flight", wrong: count(remains.inFlight, "items") },
    { name: "at rest no item has related rows", wrong: count(remains.related, "items") },
    { name: "at rest nothing waits", wrong: count(remains.waiting, "rows") },
    {
      name: "the mix had what it is for",
      wrong: [
        ...NEEDED,
        ...(evidence.variety ? VARIETY : []),
        ...(evidence.variety && evidence.foreignKeys ? REFUSED : []),
      ]
        .filter((what) => tally.of(what) === 0)
        .map((what) => `no ${what}`),
    },
  ];
}

/**
 * While an insert that refers to a row is open, PostgreSQL takes the version of the row that it locks for one that is
 * being changed, though a newer one has been committed. An update whose snapshot shows that version then asks for its
 * tuple lock, which somebody has who waits for the updater. Such a circle holds a wait for a tuple of a table that keys
 * refer to; it is rare, and repeating the statement is all it takes. Nothing else may be a deadlock.
 */
function deadlocked({ deadlocks, circles, tally, foreignKeys }: Evidence): string[] {
  if (!foreignKeys) return deadlocks === 0 ? [] : [`${deadlocks} deadlocks`, ...circles];
  const others = circles.filter((circle) => !/waits for tuple (groups|members|tasks) /.test(circle));
  tally.add("circles seen at a tuple", circles.length - others.length);
  // a look takes some milliseconds, so that a circle may never have been closed
  if (deadlocks === 0) return [];
  const rare = deadlocks <= 3 + tally.of("statements") * MOST_DEADLOCKS;
  return [...others, ...(rare ? [] : [`${deadlocks} deadlocks`])];
}

/** Of the statements of a mix in which every seventh row has an open key. */
const MOST_DEADLOCKS = 0.0005;

function twice(logs: readonly LogLine[]): string[] {
  const seen = new Set<string>();
  return logs.filter(({ token }) => seen.size === seen.add(token).size).map(({ token }) => `token ${token}`);
}

const took = (s: Sending) => s.result === "applied" || s.result === "ended";

function withoutLog(finishes: readonly Finishing[], logs: ReadonlyMap<string, LogLine>): string[] {
  return finishes
    .filter((f) => f.sendings.some((s) => s.result === "applied") && !logs.has(f.token))
    .map((f) => `${f.pipeline} ${f.id} token ${f.token}`);
}

function unknownLogs(ledger: Ledger, logs: readonly LogLine[]): string[] {
  const known = ({ token, id }: LogLine) =>
    ledger.claims.get(token)?.id === id && ledger.finishes.get(token)?.sendings.some((s) => s.kind === "apply");
  return logs.filter((line) => !known(line)).map(({ id, token }) => `${id} token ${token}`);
}

function finishedTwice(finishes: readonly Finishing[]): string[] {
  return finishes.filter((f) => f.sendings.filter(took).length > 1).map((f) => `${f.pipeline} token ${f.token}`);
}

/** Some sending of the token must have taken: seen as such, or without an answer, or by its log. */
function falseAlready(finishes: readonly Finishing[], logs: ReadonlyMap<string, LogLine>): string[] {
  return finishes
    .filter((f) => f.sendings.some((s) => s.result === "already"))
    .filter((f) => !logs.has(f.token) && !f.sendings.some((s) => took(s) || (s.unanswered && s.kind !== "apply")))
    .map((f) => `${f.pipeline} ${f.id} token ${f.token}`);
}

/** An item forgets a token only after three later finishes of the same row by the same pipeline. */
function falseStale(finishes: readonly Finishing[], logs: ReadonlyMap<string, LogLine>): string[] {
  const byRow = Map.groupBy(finishes, (f) => `${f.pipeline} ${f.id}`);
  const wrong: string[] = [];
  for (const f of finishes) {
    const stale = f.sendings.filter((s) => s.result === "stale");
    if (stale.length === 0 || !logs.has(f.token)) continue;
    const from = Math.min(...f.sendings.filter((s) => s.kind === "apply").map((s) => s.sentAt));
    const others = byRow.get(`${f.pipeline} ${f.id}`)!.filter((o) => o !== f);
    for (const s of stale) {
      const later = others.filter((o) => o.sendings.some((x) => x.answeredAt >= from && x.sentAt <= s.answeredAt));
      if (later.length < REMEMBERED) wrong.push(`${f.pipeline} ${f.id} token ${f.token} after ${later.length} others`);
    }
  }
  return wrong;
}

function claimedTwice(ledger: Ledger): string[] {
  const byMessage = Map.groupBy(ledger.claims.values(), (c) => `${c.pipeline} ${c.id} message ${c.message}`);
  return [...byMessage].filter(([, claims]) => claims.length > 1).map(([what, claims]) => `${what}: ${claims.length}`);
}

/** From claim to apply, by the database's clock; across the pipelines of a table, and those that lock its rows as related ones. */
function overlaps(ledger: Ledger, logs: readonly LogLine[]): string[] {
  const related = Map.groupBy(ledger.holds, (hold) => hold.token);
  const passes = logs.flatMap(({ id, token, at }) => {
    const claim = ledger.claims.get(token);
    if (claim === undefined) return [];
    const holds = related.get(token) ?? [];
    return [{ id, from: claim.at }, ...holds.map((hold) => ({ id: hold.id, from: hold.at }))].map(({ id, from }) => ({
      id,
      token,
      from,
      to: at,
    }));
  });
  const wrong: string[] = [];
  for (const [id, row] of Map.groupBy(passes, (pass) => pass.id)) {
    row.sort((a, b) => a.from - b.from);
    for (const [n, next] of row.slice(1).entries()) {
      const before = row[n]!;
      if (next.from + PRECISION_MS < before.to) wrong.push(`${id}: ${before.token} and ${next.token}`);
    }
  }
  return wrong;
}

/** A statement that loosens a lock may wait for as long as this. */
const LOOSE_MS = 5_000;

/**
 * Whoever holds a row next, by a claim or a related lock, must come later than the lock lasts, unless its holder has
 * finished, or somebody loosened it or the lock of the main row behind it.
 */
function takenAlive(ledger: Ledger): string[] {
  const wrong: string[] = [];
  const claimed = [...ledger.claims.values()].map((c) => ({ ...c, item: c.id, until: c.at + LOCK_SECONDS * 1000 }));
  for (const [id, holds] of Map.groupBy([...claimed, ...ledger.holds], (hold) => hold.id)) {
    holds.sort((a, b) => a.at - b.at);
    for (const [n, next] of holds.slice(1).entries()) {
      const before = holds[n]!;
      // a stale ending frees related rows that still carry its token
      const finished = ledger.finishes
        .get(before.token)
        ?.sendings.some((s) => s.result !== "stale" || before.item !== id);
      const loosened = [...(ledger.loosenings.get(id) ?? []), ...(ledger.loosenings.get(before.item) ?? [])];
      const loose = loosened.some((at) => at > before.at - LOOSE_MS && at < next.at);
      if (next.at + PRECISION_MS < before.until && !finished && !loose)
        wrong.push(`${id}: ${next.token} took it from ${before.token} after ${next.at - before.at} ms`);
    }
  }
  return wrong;
}

function miscounted({ busy, logs, writes }: Evidence): string[] {
  const sums = new Map<string, number>();
  for (const changes of [...logs.map((l) => l.changes), ...writes])
    for (const [id, by] of Object.entries(changes)) sums.set(id, (sums.get(id) ?? 0) + by);
  return [...busy]
    .filter(([id, n]) => n !== (sums.get(id) ?? 0))
    .map(([id, n]) => `${id}: ${n} instead of ${sums.get(id) ?? 0}`);
}

function lostIncrements({ sizes, increments }: Evidence): string[] {
  return [...sizes]
    .filter(([id, size]) => size !== (increments.get(id) ?? 0))
    .map(([id, size]) => `${id}: ${size} instead of ${increments.get(id) ?? 0}`);
}
