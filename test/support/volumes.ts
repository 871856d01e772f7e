import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import type { LocalStack } from "./stack.ts";
import { until } from "./until.ts";

/** Creates a volume through the API; answers its JSON. */
// biome-ignore lint/suspicious/noExplicitAny: an answer of the API
export async function createVolume(stack: LocalStack, name: string): Promise<any> {
  const { status, body } = await stack.api("POST", "/volumes", { name, sizeGb: 1 });
  expect(status, JSON.stringify(body)).toBe(201);
  return body;
}

/** Resolves when so many volumes whose name begins so have this status. */
export async function untilStatus(
  stack: LocalStack,
  prefix: string,
  status: string,
  { count = 1, timeoutMs = 90_000 }: { readonly count?: number; readonly timeoutMs?: number } = {},
): Promise<void> {
  await until(
    async () => {
      const [row] = await stack.sql("select count(*)::int as n from volumes where name like $1 and status = $2", [
        `${prefix}%`,
        status,
      ]);
      return row.n >= count;
    },
    { what: `${count} volumes ${prefix}* to be ${status}`, timeoutMs, everyMs: 50 },
  );
}

export async function untilGone(stack: LocalStack, id: string, timeoutMs: number): Promise<void> {
  await until(async () => (await stack.sql("select 1 from volumes where id = $1", [id])).length === 0, {
    what: `volume ${id} to be gone`,
    timeoutMs,
    everyMs: 50,
  });
}

/** What is remembered of a volume's passes. */
// biome-ignore lint/suspicious/noExplicitAny: a row
export async function itemOf(stack: LocalStack, id: string): Promise<any> {
  return (await stack.sql("select * from millrace.items where item_id = $1", [id]))[0];
}

/** Waits for a condition on the item of a volume. */
export function untilItem(
  stack: LocalStack,
  id: string,
  // biome-ignore lint/suspicious/noExplicitAny: a row
  condition: (item: any) => boolean,
  what: string,
  timeoutMs = 60_000,
): Promise<unknown> {
  return until(
    async () => {
      const item = await itemOf(stack, id);
      return item !== undefined && condition(item);
    },
    { what: `volume ${id}: ${what}`, timeoutMs, everyMs: 50 },
  );
}

/** The cloud's own account of what it did for a volume's name. */
export async function cloudLog(
  stack: LocalStack,
  name: string,
): Promise<{ at: string; op: string; key: string; outcome: string }[]> {
  const { body } = await stack.control("GET", "/cloud/log");
  const lines = (Array.isArray(body) ? body : body.items) as {
    at: string;
    op: string;
    key: string;
    name: string;
    outcome: string;
  }[];
  return lines.filter((line) => line.name === name);
}

/** Something that the cloud does wrong, to one operation on a volume of this name unless `count` says more. */
export async function cloudFault(
  stack: LocalStack,
  fault: { readonly match: string; readonly kind: string; readonly seconds?: number; readonly count?: number },
): Promise<void> {
  expect((await stack.control("POST", "/cloud/faults", fault)).status).toBe(201);
}

/** How many of the cloud's directories belong to a volume of this name. */
export function directoriesOf(stack: LocalStack, name: string): number {
  const all = join(stack.stateDir, "cloud", "volumes");
  return readdirSync(all).filter((id) => JSON.parse(readFileSync(join(all, id, "volume.json"), "utf8")).name === name)
    .length;
}

/** Log lines of an event about one row. */
export function eventsOf(stack: LocalStack, functionName: string, event: string, id?: string) {
  return stack.logs(functionName).filter((l) => l.message === event && (id === undefined || l.id === id));
}

/** At rest: nothing locked, nothing in flight. */
export async function expectRest(stack: LocalStack, prefix: string): Promise<void> {
  const inFlight = () =>
    stack.sql(
      `select v.name, i.state from volumes v left join millrace.items i on i.item_id = v.id
       where v.name like $1 and (v.lock_token is not null or v.lock_owner is not null or v.lock_expires_at is not null
         or (i.item_id is not null and i.finished_at is null))`,
      [`${prefix}%`],
    );
  await until(async () => (await inFlight()).length === 0, {
    what: `${prefix}* at rest`,
    timeoutMs: 30_000,
    everyMs: 100,
  });
}

/** Calls of a statement so far, counted by PostgreSQL itself. */
export async function statementCalls(stack: LocalStack, name: string): Promise<number> {
  const [row] = await stack.sql(
    "select coalesce(sum(calls), 0)::int as n from pg_stat_statements where query like $1",
    [`/* millrace:${name} */%`],
  );
  return row.n;
}
