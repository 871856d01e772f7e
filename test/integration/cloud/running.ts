import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach } from "vitest";
import { type LocalCloud, startCloud } from "../../../infra/local/cloud/index.ts";

export interface RunningCloud {
  readonly cloud: LocalCloud;
  readonly killed: string[];
  /** Names of the directories that are volumes. */
  directories(): string[];
  /** Stops this cloud and starts another one on the same folder. */
  restart(): Promise<RunningCloud>;
}

const cleanUps: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

/** A cloud on a free port and a folder of its own, gone after the test. */
export async function runCloud(): Promise<RunningCloud> {
  const dir = mkdtempSync(join(tmpdir(), "millrace-cloud-"));
  cleanUps.push(() => rmSync(dir, { recursive: true, force: true }));
  return runIn(dir);
}

async function runIn(dir: string): Promise<RunningCloud> {
  const killed: string[] = [];
  const cloud = await startCloud({ dir, port: 0, killCaller: (sandbox) => killed.push(sandbox) });
  cleanUps.push(() => cloud.close());
  return {
    cloud,
    killed,
    directories() {
      const volumes = join(dir, "volumes");
      return existsSync(volumes) ? readdirSync(volumes) : [];
    },
    async restart() {
      await cloud.close();
      return runIn(dir);
    },
  };
}

export const post = (url: string, body: unknown, signal?: AbortSignal) =>
  fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    ...(signal === undefined ? {} : { signal }),
  });

export const volume = (key: string, name = "data", tag: string | null = null) => ({ key, tag, name, sizeGb: 10 });
