import fc from "fast-check";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { ProblemJson } from "../../../functions/api/json.ts";
import { JOB_STATUSES, VOLUME_STATUSES } from "../../../functions/api/requests.ts";
import { useApi } from "./running-api.ts";

/*
 * Whatever is asked, the API answers what was asked for or a problem with a code; it never fails, and a request that it
 * refuses, or that only reads, has written nothing. Locks that it took and gave back are no writes.
 */

const api = useApi();
const RUNS = 500;

/** Every write to a row of any table is counted, in rolled back transactions, too. */
beforeAll(async () => {
  await api().admin(`create sequence writes;
    create function count_write() returns trigger language plpgsql security definer as $$ declare
      locks constant text[] := '{lock_token,lock_owner,lock_expires_at}';
    begin
      if tg_op <> 'UPDATE' or to_jsonb(old) - locks <> to_jsonb(new) - locks then perform nextval('public.writes'); end if;
      return null;
    end $$;
    do $$ declare name regclass; begin
      for name in select c.oid from pg_class c where c.relkind = 'r' and c.relnamespace::regnamespace::text in ('public', 'millrace')
      loop execute format('create trigger count_write after insert or update or delete on %s for each row execute function count_write()', name); end loop;
    end $$`);
});
const writes = async () => (await api().admin("select last_value, is_called from writes"))[0];

const known: Record<"fleet" | "leaving" | "volume" | "twin" | "idle" | "busy" | "job" | "ended", string> = {
  fleet: "",
  leaving: "",
  volume: "",
  twin: "",
  idle: "",
  busy: "",
  job: "",
  ended: "",
};
let made = 0;
beforeEach(async () => {
  const insert = async (text: string, ...values: unknown[]) =>
    String((await api().sql(`insert into ${text} returning id`, values))[0]?.["id"]);
  made++;
  known.fleet = await insert("fleets (name, nodes) values ($1, 1)", `known ${made}`);
  known.leaving = await insert("fleets (name, nodes, to_be_deleted) values ($1, 1, true)", `leaving ${made}`);
  known.volume = await insert("volumes (name, size_gb) values ('twin', 1)");
  known.twin = await insert("volumes (name, size_gb) values ('twin', 1)");
  known.idle = await insert("instances (fleet_id, number, slots, status) values ($1, 1, 1, 'idle')", known.fleet);
  known.busy = await insert(
    "instances (fleet_id, number, slots, status, busy) values ($1, 2, 1, 'busy', 1)",
    known.fleet,
  );
  const job = `jobs (fleet_id, fleet_name, command, status, output, output_from) values ($1, 'x', '["true"]', $2, $3, $4)`;
  known.job = await insert(job, known.fleet, "submitted", null, 0);
  known.ended = await insert(job, known.fleet, "done", "end", 1000);
});

const mostly = <T>(valid: fc.Arbitrary<T>, junk: fc.Arbitrary<unknown> = fc.jsonValue()): fc.Arbitrary<unknown> =>
  fc.oneof({ weight: 9, arbitrary: valid }, { weight: 1, arbitrary: junk });
const text = fc.oneof(
  fc.string({ unit: "grapheme", minLength: 1, maxLength: 20 }),
  fc.string({ unit: "binary", maxLength: 250 }),
  fc.constantFrom("web", ".", "..", "a/b", "\ud800", "\0", ":p0 $1 ?", "'; drop table fleets --"),
);
/** An id that there is (of any kind), one that there is not, or none at all. */
const id = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.constantFrom(...(Object.keys(known) as (keyof typeof known)[])).map((key) => () => known[key]),
  },
  { weight: 1, arbitrary: fc.uuid().map((value) => () => value) },
  { weight: 1, arbitrary: text.map((value) => () => value) },
);
/** Ids are looked up when the request is made: every test has its own. */
const resolved = (value: unknown): unknown => {
  if (typeof value === "function") return value();
  if (Array.isArray(value)) return value.map(resolved);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, of]) => [name, resolved(of)]));
};

/** A body that is nearly right, another JSON text, or none. */
function bodyOf(fields: Readonly<Record<string, fc.Arbitrary<unknown>>>) {
  const near = fc.record(Object.fromEntries(Object.entries(fields).map(([name, of]) => [name, mostly(of)])));
  return fc.oneof(
    { weight: 8, arbitrary: near.map((body) => () => JSON.stringify(resolved(body))) },
    {
      weight: 1,
      arbitrary: fc.tuple(near, fc.dictionary(fc.string({ maxLength: 5 }), fc.jsonValue(), { maxKeys: 2 })).map(
        ([body, more]) =>
          () =>
            JSON.stringify({ ...(resolved(body) as object), ...more }),
      ),
    },
    { weight: 1, arbitrary: fc.jsonValue().map((value) => () => JSON.stringify(value)) },
    { weight: 1, arbitrary: fc.string().map((value) => () => value) },
  );
}

/** A query with some of these parameters, seldom with one that is unknown. */
function queryOf(parameters: Readonly<Record<string, fc.Arbitrary<unknown>>>) {
  const given = Object.entries(parameters).map(([name, of]) => [name, mostly(of, text)] as const);
  const near = fc.record(Object.fromEntries(given), { requiredKeys: [] });
  const unknown = fc.dictionary(fc.string({ maxLength: 5 }), fc.string(), { maxKeys: 1 });
  return fc
    .tuple(near, fc.oneof({ weight: 9, arbitrary: fc.constant({}) }, { weight: 1, arbitrary: unknown }))
    .map(([query, more]) => () => {
      const entries = Object.entries({ ...(resolved(query) as object), ...more });
      return entries.length === 0
        ? ""
        : `?${new URLSearchParams(entries.map(([name, value]): [string, string] => [name, String(value)]))}`;
    });
}
const cursor = fc
  .tuple(
    fc.constantFrom("2026-11-30 12:00:00+00", "2026-11-30 12:00:00.123456+05:30", "2026-02-30 00:00:00+00", "infinity"),
    fc.oneof(fc.uuid(), fc.string()),
  )
  .map((parts) => Buffer.from(JSON.stringify(parts)).toString("base64url"));
const page = { limit: fc.integer({ min: 0, max: 110 }), cursor };
const whole = (max: number) => fc.integer({ min: -1, max });

interface Route {
  readonly method: string;
  /** `:id` stands for an id, or what somebody may write there. */
  readonly path: string;
  readonly ids?: fc.Arbitrary<() => unknown>;
  readonly query?: fc.Arbitrary<() => string>;
  readonly body?: fc.Arbitrary<() => string>;
}
const names = fc.oneof(fc.constantFrom("volumes", "fleets", "jobs-running"), text).map((name) => () => name);
const ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/volumes",
    query: queryOf({ ...page, status: fc.constantFrom(...VOLUME_STATUSES), name: text }),
  },
  { method: "GET", path: "/fleets", query: queryOf({ ...page, name: text }) },
  { method: "GET", path: "/fleets/:id/instances", query: queryOf(page) },
  { method: "GET", path: "/jobs", query: queryOf({ ...page, fleetId: id, status: fc.constantFrom(...JOB_STATUSES) }) },
  {
    method: "GET",
    path: "/events",
    query: queryOf({ ...page, direction: fc.constantFrom("asc", "desc"), subjectId: id }),
  },
  { method: "GET", path: "/jobs/:id/output", query: queryOf({ from: fc.oneof(whole(2000), fc.maxSafeInteger()) }) },
  ...["/volumes/:id", "/fleets/:id", "/instances/:id", "/jobs/:id"].map((path) => ({ method: "GET", path })),
  ...["/volumes/:id", "/fleets/:id"].map((path) => ({ method: "DELETE", path })),
  { method: "POST", path: "/jobs/:id/stop" },
  { method: "POST", path: "/volumes", body: bodyOf({ name: text, sizeGb: whole(70_000) }) },
  { method: "POST", path: "/fleets", body: bodyOf({ name: text, nodes: whole(110), slots: whole(18) }) },
  { method: "PATCH", path: "/fleets/:id", body: bodyOf({ nodes: whole(110) }) },
  {
    method: "DELETE",
    path: "/fleets/:id/instances",
    ids: fc.oneof({ weight: 5, arbitrary: fc.constant(() => known.fleet) }, { weight: 1, arbitrary: id }),
    body: bodyOf({ ids: fc.oneof(fc.constant([() => known.idle]), fc.array(id, { maxLength: 3 })) }),
  },
  {
    method: "POST",
    path: "/jobs",
    body: bodyOf({
      fleetId: id,
      command: fc.array(text, { minLength: 1, maxLength: 4 }),
      volumeIds: fc.oneof(fc.constant([]), fc.array(id, { maxLength: 3 })),
    }),
  },
  { method: "POST", path: "/pipelines/:id/pause", ids: names, body: bodyOf({ by: text }) },
  { method: "POST", path: "/pipelines/:id/resume", ids: names },
  { method: "POST", path: "/hints", body: bodyOf({ pipeline: fc.constantFrom("volumes", "nope") }) },
  { method: "POST", path: "/hints", body: bodyOf({ table: fc.constantFrom("volumes", "nope") }) },
];
const NONE = fc.constant(() => "");

describe.each(ROUTES)("$method $path", ({ method, path, ids = id, query = NONE, body }) => {
  test("answers, or refuses with a code and writes nothing", async () => {
    const counts = { done: 0, refused: 0 };
    const request = fc.tuple(ids, query, body ?? NONE);
    await fc.assert(
      fc.asyncProperty(request, async ([idOf, queryOf_, bodyOf_]) => {
        // a lone half of a character cannot stand in a path
        const inPath = encodeURIComponent(String(idOf()).toWellFormed());
        const before = await writes();
        const response = await api().app.request(`${path.replace(":id", inPath)}${queryOf_()}`, {
          method,
          ...(body === undefined ? {} : { body: bodyOf_() }),
        });
        const answer = (await response.json()) as Partial<ProblemJson>;
        if (response.status < 300) {
          counts.done++;
        } else {
          counts.refused++;
          expect(response.status).toBeGreaterThanOrEqual(400);
          expect(response.status, answer.detail).toBeLessThan(500);
          expect(response.headers.get("content-type")).toBe("application/problem+json");
          expect(answer).toMatchObject({
            status: response.status,
            code: expect.stringMatching(/^[A-Z_]+$/),
            detail: expect.stringMatching(/./),
          });
        }
        if (method === "GET" || response.status >= 400) expect(await writes()).toEqual(before);
      }),
      { numRuns: RUNS },
    );
    expect(api().logged).toEqual([]);
    // requests of one kind alone would prove nothing
    expect(counts).toEqual({ done: expect.toSatisfy((n) => n > 0), refused: expect.toSatisfy((n) => n > 0) });
  }, 120_000);
});

test("the count of writes sees one", async () => {
  const before = await writes();
  await api().sql("update fleets set nodes = nodes + 1 where id = $1", [known.fleet]);
  expect(await writes()).not.toEqual(before);
});
