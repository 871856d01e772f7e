import type { EndRow } from "../../lib/sql/end.ts";
import { failSql, releaseSql, resetSql } from "../../lib/sql/end.ts";
import { scopeOf } from "../../lib/sql/parts.ts";
import { type RequestRow, requestSql } from "../../lib/sql/request.ts";
import type { TestEngine } from "./engine.ts";
import { type Claimed, claimRows, fetchRows, type Run } from "./steps.ts";

export type EndStep = "reset" | "fail" | "release";

/** Ends claimed rows without applying them. */
export async function endRows(
  engine: TestEngine,
  step: EndStep,
  claimed: readonly Claimed[],
  options: { readonly keep?: boolean; readonly reason?: string; readonly pipeline?: string; readonly run?: Run } = {},
): Promise<readonly EndRow[]> {
  const { keep = false, reason = "because", run = engine.run } = options;
  const scope = scopeOf(engine.registry, engine.registry.get(options.pipeline ?? "things"));
  const keys = claimed.map(({ id, token, seen }) => ({ id, token, seen }));
  if (step === "release") return run(releaseSql(scope, keys));
  if (step === "fail")
    return run(
      failSql(
        scope,
        keys.map((k) => ({ ...k, reason })),
      ),
    );
  return run(
    resetSql(
      scope,
      keys.map((k) => ({ ...k, reason, keep })),
    ),
  );
}

/** Stores an intent in rows of `things`. */
export function requestRows(
  engine: TestEngine,
  ids: readonly string[],
  intent: Readonly<Record<string, unknown>> = {},
  run: Run = engine.run,
): Promise<readonly RequestRow[]> {
  return run(requestSql("things", engine.registry.of("things"), ids, intent));
}

/** Makes a row and takes it, with the columns given. */
export async function takeNew(engine: TestEngine, columns: Readonly<Record<string, unknown>> = {}): Promise<Claimed> {
  const id = await engine.thing(columns);
  return takeAgain(engine, id);
}

/** Makes a row due that nobody holds, and takes it. */
export async function takeAgain(engine: TestEngine, id: string, pipeline = "things"): Promise<Claimed> {
  await engine.query("update things set due_at = now() - interval '1 s' where id = $1", [id]);
  const { ids, token } = await fetchRows(engine, { pipeline });
  if (!ids.includes(id)) throw new Error(`row ${id} was not fetched`);
  const [claimed] = await claimRows(engine, [{ id, token }], { pipeline, alone: true });
  return claimed!;
}

export const itemOf = async (engine: TestEngine, id: string) =>
  (
    await engine.query<Record<string, unknown>>(
      "select *, finished_at is not null as finished from millrace.items where item_id = $1 order by pipeline",
      [id],
    )
  )[0]!;

/** A row of `things`; `due_in` in seconds from now. */
export const thingOf = async (engine: TestEngine, id: string) =>
  (
    await engine.query<Record<string, unknown>>(
      "select *, extract(epoch from due_at - now())::float8 as due_in from things where id = $1",
      [id],
    )
  )[0];
