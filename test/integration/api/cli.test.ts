import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ListJson, PipelineJson, VolumeJson } from "../../../functions/api/json.ts";
import { run } from "../../../functions/cli/program.ts";
import { useApi } from "./running-api.ts";

const api = useApi();
let server: Server;
let stateDir: string;

/** The API on a port, and a state folder that leads to it. */
beforeAll(async () => {
  server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const { method = "GET", url = "/" } = request;
    const content = chunks.length === 0 ? {} : { body: Buffer.concat(chunks) };
    const answer = await api().app.request(url, { method, ...content });
    response.writeHead(answer.status, Object.fromEntries(answer.headers)).end(await answer.text());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  stateDir = mkdtempSync(join(tmpdir(), "millrace-cli-"));
  const apiUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  writeFileSync(join(stateDir, "local.json"), JSON.stringify({ version: 1, apiUrl }));
});
afterAll(() => {
  server.close();
  server.closeAllConnections();
  rmSync(stateDir, { recursive: true, force: true });
});

/** One command line, run here: a process for each would be slow. */
async function millrace(...args: string[]) {
  let stdout = "";
  let stderr = "";
  const exit = await run(args, {
    env: { MILLRACE_STATE_DIR: stateDir },
    cwd: tmpdir(),
    stdout: (text) => {
      stdout += text;
    },
    stderr: (text) => {
      stderr += text;
    },
    now: () => new Date(),
    pause: async () => {},
    interrupted: new AbortController().signal,
  });
  return { exit, stdout, stderr };
}
async function json<T>(...args: string[]): Promise<T> {
  const { exit, stdout, stderr } = await millrace(...args, "--json");
  expect([exit, stderr]).toEqual([0, ""]);
  return JSON.parse(stdout) as T;
}

test("create, show, list and delete a volume", async () => {
  const volume = await json<VolumeJson>("volumes", "create", "data", "--size", "10");
  expect(volume).toMatchObject({ name: "data", sizeGb: 10, status: "submitted" });
  expect(await json("volumes", "show", volume.id)).toEqual(volume);
  expect((await millrace("volumes", "show", volume.id)).stdout).toMatch(/status +submitted\nattempts +0\n/);

  await millrace("volumes", "create", "more", "--size", "1");
  const page = await json<ListJson<VolumeJson>>("volumes", "list", "--limit", "1");
  expect(page.items.map(({ name }) => name)).toEqual(["more"]);
  const next = await json<ListJson<VolumeJson>>("volumes", "list", "--cursor", page.nextCursor ?? "");
  expect(next).toEqual({ items: [volume], nextCursor: null });

  expect(await json("volumes", "delete", volume.id)).toMatchObject({ id: volume.id, status: "deleting" });
});

test("pause, resume and hint a pipeline", async () => {
  expect(await json("pause", "volumes", "--by", "Ann")).toMatchObject({ pausedBy: "Ann" });
  const { items } = await json<ListJson<PipelineJson>>("pipelines");
  expect(items.find(({ name }) => name === "volumes")).toMatchObject({ pausedBy: "Ann" });
  expect(await json("resume", "volumes")).toMatchObject({ pausedBy: null });
  expect(await json("hint", "volumes")).toEqual({ table: "volumes" });
});

test.each([
  [["volumes", "show", "6a1f7c1e-8c0e-4a52-9d0f-000000000000"], 3, "VOLUME_UNKNOWN"],
  [["volumes", "show", "7"], 2, "ID_INVALID"],
  [["volumes", "list", "--limit", "101"], 2, "QUERY_INVALID"],
  [["volumes", "create", " ", "--size", "1"], 2, "BODY_INVALID"],
  [["pause", "nope"], 3, "PIPELINE_UNKNOWN"],
  [["hint", "nope"], 3, "TARGET_UNKNOWN"],
])("%j ends with exit code %i and %s", async (args, exit, code) => {
  const answer = await millrace(...args);
  expect([answer.exit, answer.stdout]).toEqual([exit, ""]);
  expect(answer.stderr).toContain(code);
});
