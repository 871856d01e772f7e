import { sql } from "kysely";
import { beforeEach, describe, expect, test } from "vitest";
import type { Answer } from "../define/changes.ts";
import type { Pipeline, StateDefinition } from "../define/pipeline.ts";
import type { Registry } from "../define/registry.ts";
import { ROWS } from "./found-rows.ts";
import {
  type Around,
  forgetItems,
  held,
  itemOf,
  type PassOptions,
  type PipelineDatabase,
  parted,
  replaced,
  rowsOf,
  runPass,
  write,
} from "./pass.ts";
import { neededLocks, relatedOf, unreserved, wantedBy, withoutLocks, writtenTables } from "./related.ts";

export interface PipelineTests<S> {
  /** A migrated database that the tests may empty; asked for in each test, so that `beforeAll` can make it. */
  readonly database: () => PipelineDatabase;
  /** The application's pipelines, this one among them. */
  readonly registry: Registry<S>;
  /** What `process` works with; must let each pass succeed. */
  readonly services: () => S;
  /** Removes all rows of the application's tables; called before each test. */
  readonly clear: () => Promise<void>;
  /**
   * By state: inserts a row that is ready for it and whose pass ends in `apply`, with the related rows that its locks
   * are about, all free and none due; answers the row's id. Called several times in a test.
   */
  readonly rows: Readonly<Record<string, () => Promise<string>>>;
}

// biome-ignore lint/suspicious/noExplicitAny: the tests know no schema
type AnyAnswer = Answer<any, any>;

const FREE = { lock_token: null, lock_owner: null, lock_expires_at: null };

/**
 * The tests that every pipeline should have (dstack, contributing/PIPELINES.md, point 9), for each of its states: which
 * rows are fetched and in which order, the successful pass that unlocks, a token lost before and during the pass, and
 * for each related lock contention, the pass after it, and a related row lost during the pass. For use in a Vitest file:
 * `describePipeline(volumes, { database: () => db, registry, services, clear, rows: { submitted, deleting } })`.
 */
export function describePipeline<S>(pipeline: Pipeline, tests: PipelineTests<S>): void {
  const { name, table } = pipeline;
  const { registry, rows } = tests;
  const pass = (options: PassOptions = {}, of = registry) =>
    runPass(tests.database(), of, name, tests.services(), options);
  const row = async (id: string) => (await rowsOf(tests.database(), table, [id]))[0];
  const set = (id: string, what: ReturnType<typeof sql>) => write(tests.database(), table, [id], what);
  /** A row that is due, and was processed long ago. */
  const due = async (state: StateDefinition) => {
    const make = rows[state.name];
    expect(make, `rows.${state.name} is missing`).toBeDefined();
    const id = await make!();
    await set(id, sql`due_at = now() - interval '1 minute', last_processed_at = now() - interval '1 hour'`);
    return id;
  };

  describe(name, () => {
    beforeEach(async () => {
      await tests.clear();
      await forgetItems(tests.database(), name);
    });

    describe.each(pipeline.states.map((state) => ({ state, of: state.name })))("$of", ({ state }) => {
      const related = Object.values(state.locks).map((lock) => lock.table);
      test("fetches rows that are ready, due and free, or its own and expired, and no others", async () => {
        const made = [];
        for (const what of ROWS) {
          const id = await due(state);
          if (what.set !== undefined) await set(id, what.set(name));
          made.push({ id, ...what });
        }
        const { items } = await pass({ work: false });
        const fetched = items.map((item) => item.id);
        expect(made.filter(({ id }) => fetched.includes(id)).map((r) => r.row)).toEqual(
          ROWS.filter((r) => r.fetched).map((r) => r.row),
        );
      });

      test("fetches those first that have been due for longest", async () => {
        const ids = [];
        for (const minutes of [3, 1, 2]) {
          const id = await due(state);
          await set(id, sql`due_at = now() - make_interval(mins => ${sql.lit(minutes)})`);
          ids.push(id);
        }
        const ofTwo = { ...pipeline, options: { ...pipeline.options, workers: 2, queueUpperFactor: 1 } };
        const { items } = await pass({ work: false }, replaced(registry, ofTwo));
        expect(items.map((item) => item.id).sort()).toEqual([ids[0], ids[2]].sort());
      });

      test("a pass that is applied unlocks what it locked", async () => {
        const id = await due(state);
        const before = (await row(id))!;
        const locked = await relatedOf(tests.database(), table, id, state);
        const { events } = await pass();
        expect(events.of("item.applied"), reasons(events)).toMatchObject([{ id, state: state.name }]);
        const after = await row(id);
        // a pass may delete its row
        if (after !== undefined) {
          expect(parted(after).lock).toEqual(FREE);
          expect(Date.parse(String(after["last_processed_at"]))).toBeGreaterThan(
            Date.parse(String(before["last_processed_at"])),
          );
        }
        for (const { table: of, ids } of locked)
          for (const r of await rowsOf(tests.database(), of, ids)) expect(parted(r).lock).toEqual(FREE);
        expect(await itemOf(tests.database(), name, id)).toMatchObject({
          state: "applied",
          in_flight: false,
          related: null,
        });
      });

      test("a token lost before the pass: nothing runs, and the new holder keeps the row", async () => {
        const id = await due(state);
        const token = crypto.randomUUID();
        let ran = 0;
        const { events } = await pass({
          between: () => set(id, held(name, token)),
          around: (process) => {
            ran++;
            return process();
          },
        });
        expect(ran).toBe(0);
        expect(events.of("item.stale")).toMatchObject([{ id, phase: "claim" }]);
        expect(await row(id)).toMatchObject({ lock_token: token, lock_owner: name });
      });

      test("a token lost during the pass: nothing of its answer is written, and what it had locked is free", async () => {
        const id = await due(state);
        const locked = await relatedOf(tests.database(), table, id, state);
        const others = async (tables: readonly string[]) =>
          Promise.all(tables.filter((t) => t !== table).map((t) => rowsOf(tests.database(), t)));
        const token = crypto.randomUUID();
        let stolen: unknown;
        let seen: unknown;
        let written: readonly string[] = [];
        const { events } = await pass({
          around: async (process) => {
            const answer = (await process()) as AnyAnswer;
            expect(answer.kind).toBe("apply");
            await set(id, held(name, token));
            stolen = await row(id);
            written = answer.kind === "apply" ? writtenTables(answer.changes, state) : [];
            seen = withoutLocks(await others(written));
            return answer;
          },
        });
        expect(events.of("item.stale"), reasons(events)).toMatchObject([{ id, phase: "apply" }]);
        expect(await row(id)).toEqual(stolen);
        expect(withoutLocks(await others(written))).toEqual(seen);
        for (const { table: of, ids } of locked)
          for (const r of await rowsOf(tests.database(), of, ids)) expect(parted(r).lock).toEqual(FREE);
      });

      for (const [lockName, lock] of Object.entries(state.locks)) {
        test(`contention for ${lockName}: given back with its owner kept, and the next pass goes through`, async () => {
          const db = tests.database();
          const id = await due(state);
          const before = (await row(id))!;
          const names = await neededLocks(db, table, id, state);
          expect(names, `rows.${state.name} must insert a row that needs ${lockName}`).toContain(lockName);
          const wanted = await wantedBy(db, table, id, lock);
          expect(wanted, `rows.${state.name} must insert rows for ${lockName}`).not.toEqual([]);
          // of a pick every candidate must be gone, of the others one is enough
          const taken = lock.kind === "pick" ? wanted : wanted.slice(0, 1);
          const token = crypto.randomUUID();
          await write(db, lock.table, taken, held("somebody-else", token));
          const all = () => Promise.all(related.map((of) => rowsOf(db, of)));
          const relatedBefore = await all();

          let ran = 0;
          const count: Around = (process) => {
            ran++;
            return process();
          };
          const { events } = await pass({ around: count });
          expect(events.of("item.contention"), reasons(events)).toMatchObject([{ id }]);
          expect(ran).toBe(0);
          const after = (await row(id))!;
          expect(parted(after).lock).toEqual({ ...FREE, lock_owner: name });
          const clocks = { due_at: expect.anything(), last_processed_at: expect.anything() };
          expect(parted(after).rest).toEqual({ ...parted(before).rest, ...clocks });
          expect(after["last_processed_at"]).not.toBe(before["last_processed_at"]);
          // free rows stay free; a lock with `reserve` leaves its name on them
          expect(unreserved(await all(), state, name)).toEqual(unreserved(relatedBefore, state, name));
          expect(await rowsOf(db, lock.table, taken)).toEqual(
            taken.map(() => expect.objectContaining({ lock_token: token, lock_owner: "somebody-else" })),
          );

          await write(db, lock.table, taken, sql`lock_token = null, lock_owner = null, lock_expires_at = null`);
          await set(id, sql`due_at = now()`);
          const { events: next } = await pass({ around: count });
          expect(next.of("item.applied"), reasons(next)).toMatchObject([{ id }]);
          expect(ran).toBe(1);
        });

        test(`a row of ${lockName} lost during the pass: nothing is written, and its row is given back`, async () => {
          const db = tests.database();
          const id = await due(state);
          const token = crypto.randomUUID();
          let before: unknown;
          const { events } = await pass({
            around: async (process) => {
              const answer = await process();
              const wanted = (await rowsOf(db, lock.table)).filter((r) => r["lock_token"] !== null);
              await write(db, lock.table, [String(wanted[0]!["id"])], held("somebody-else", token));
              before = withoutLocks(await Promise.all(related.map((of) => rowsOf(db, of))));
              return answer;
            },
          });
          expect(events.of("item.contention"), reasons(events)).toMatchObject([{ id, phase: "apply" }]);
          expect(parted((await row(id))!).lock).toEqual({ ...FREE, lock_owner: name });
          expect(withoutLocks(await Promise.all(related.map((of) => rowsOf(db, of))))).toEqual(before);
          const locked = (await rowsOf(db, lock.table)).filter((r) => r["lock_token"] !== null);
          expect(locked).toEqual([expect.objectContaining({ lock_token: token, lock_owner: "somebody-else" })]);
        });
      }
    });
  });
}

/** Why a pass did not end as a test wants it. */
const reasons = ({ all }: { readonly all: readonly unknown[] }): string =>
  `the pass ended otherwise: ${JSON.stringify(all)}`;
