import { join } from "node:path";
import { createApi } from "./call-api.ts";
import { LocalError } from "./errors.ts";
import type { Progress } from "./progress.ts";
import { PATIENCE_SECONDS, proveUntil } from "./prove-until.ts";
import type { Stack } from "./stack.ts";
import type { Local } from "./state.ts";

interface Fleet {
  readonly id: string;
  readonly instances: Readonly<Record<string, number>>;
}

/**
 * Makes a fleet of one instance, and deletes it: the worker of one pipeline has work for another, and tells its fetcher.
 * Throws ACCESS_DENIED, API_FAILED or FLEET_STUCK.
 */
export async function proveFleet(
  local: Local,
  stateDir: string,
  progress: Progress,
  refused: Stack["refused"],
): Promise<void> {
  const api = createApi(local, stateDir);
  const until = async (what: string, done: () => Promise<boolean>) => {
    const from = performance.now();
    const logs = join(stateDir, "logs");
    await proveUntil(refused, done, () => new LocalError("FLEET_STUCK", { id, what, seconds: PATIENCE_SECONDS, logs }));
    return Math.round(performance.now() - from);
  };
  const name = `proof-${Date.now().toString(36)}`;
  const { id } = await api.call<Fleet>("POST", "/fleets", { name, nodes: 1 });
  const path = `/fleets/${id}`;
  const up = await until("without its instance", async () => {
    const { instances } = await api.call<Fleet>("GET", path);
    return instances["idle"] === 1;
  });
  await api.call("DELETE", path);
  const down = await until("not gone", () => api.gone(path));
  progress.note(`fleet ${name}: its instance was up after ${up} ms, and all of it gone ${down} ms after its deletion`);
}
