import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach } from "vitest";
import { run } from "../../../functions/cli/program.ts";

/** `"GET /volumes"` to what it answers; a problem is an answer with a status of 400 or more. */
export type Answers = Readonly<Record<string, { readonly status: number; readonly body: unknown }>>;

const cleanUps: (() => void)[] = [];
afterEach(() => {
  for (const cleanUp of cleanUps.splice(0)) cleanUp();
});

export function emptyFolder(): string {
  const dir = mkdtempSync(join(tmpdir(), "millrace-cli-"));
  cleanUps.push(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

/** A state folder whose local.json leads to a server with these answers, and what it was asked. */
export async function stackOf(answers: Answers) {
  const asked: { readonly request: string; readonly body: unknown }[] = [];
  const server = createServer(async (request, response) => {
    let text = "";
    for await (const chunk of request) text += chunk;
    const key = `${request.method} ${request.url}`;
    asked.push({ request: key, body: text === "" ? undefined : JSON.parse(text) });
    const { status, body } = answers[key] ?? { status: 500, body: `no answer for ${key}` };
    response.writeHead(status).end(typeof body === "string" ? body : JSON.stringify(body));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  cleanUps.push(() => {
    server.close();
    server.closeAllConnections();
  });
  const dir = emptyFolder();
  const apiUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  writeFileSync(join(dir, "local.json"), JSON.stringify({ version: 1, apiUrl }));
  return { dir, asked };
}

/** Runs one command line; the time is fixed. */
export async function millrace(args: readonly string[], where: { env?: Record<string, string>; cwd?: string } = {}) {
  let stdout = "";
  let stderr = "";
  const exit = await run(args, {
    env: where.env ?? {},
    cwd: where.cwd ?? emptyFolder(),
    stdout: (text) => {
      stdout += text;
    },
    stderr: (text) => {
      stderr += text;
    },
    now: () => new Date("2026-11-30T12:00:00Z"),
    pause: async () => {},
    interrupted: new AbortController().signal,
  });
  return { exit, stdout, stderr };
}

export const problem = (status: number, code: string, detail: string) => ({
  status,
  body: { type: "about:blank", title: "No", status, code, detail },
});
