import type { Ports } from "../../lib/index.ts";
import type { ownDataApi } from "./data-api-calls.ts";
import { connect, type Schema, type TestEngine } from "./engine.ts";
import type { Gate } from "./gate.ts";
import { type Passes, passes } from "./passes.ts";
import { type TestPorts, testPorts } from "./ports.ts";

/** What an undoable pass answers. */
export const CHANGES = { set: { status: "active", note: "mine" } } as const;

/** Passes whose side effects can be undone: each waits at `inside`, and what is undone is noted. */
export const undoablePasses = (
  { undone, inside }: { readonly undone: unknown[]; readonly inside: Gate },
  more: Passes["provision"] = {},
) =>
  passes({
    provision: {
      process: async ({ apply }) => {
        await inside.pass();
        return apply(CHANGES);
      },
      onStale: async ({ row, key, attempt }, changes, services) => {
        undone.push({ id: row.id, key: key.length, attempt, changes, services });
      },
      orphan: (changes) => `volume ${String(changes.set?.note)}`,
      ...more,
    },
  });

/** Ports over a Data API of the test's own, which can be told to fail. */
export function faultyPorts(
  { database }: TestEngine,
  own: Awaited<ReturnType<typeof ownDataApi>>,
  timeLeft = 60_000,
  overrides: Partial<Ports> = {},
): TestPorts {
  const there = { ...database, dataApiConfig: { ...database.dataApiConfig, endpoint: own.endpoint } };
  const api = connect<Schema>(there, database.dataApiConfig.secretArn, () => timeLeft);
  return testPorts({ api }, overrides);
}
