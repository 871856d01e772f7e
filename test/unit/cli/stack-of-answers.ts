import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach } from "vitest";
import { run } from "../../../functions/cli/program.ts";

interface Answer {
  readonly status: number;
  readonly body: unknown;
}

/** `"GET /volumes"` to what it answers, or to what it answers one after the other; 400 or more is a problem. */
export type Answers = Readonly<Record<string, Answer | readonly Answer[]>>;

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
  const next = (key: string): Answer => {
    const given = answers[key] ?? [];
    const list = Array.isArray(given) ? (given as readonly Answer[]) : [given as Answer];
    const times = asked.filter(({ request }) => request === key).length;
    return list[Math.min(times, list.length) - 1] ?? { status: 500, body: `no answer for ${key}` };
  };
  const server = createServer(async (request, response) => {
    let text = "";
    for await (const chunk of request) text += chunk;
    const key = `${request.method} ${request.url}`;
    asked.push({ request: key, body: text === "" ? undefined : JSON.parse(text) });
    const { status, body } = next(key);
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

interface Where {
  readonly env?: Record<string, string>;
  readonly cwd?: string;
  /** Ctrl-C when the command pauses for the n-th time, from 1 on. @default never */
  readonly interruptAt?: number;
}

/** Runs one command line; the time is fixed, and pauses take none. */
export async function millrace(args: readonly string[], where: Where = {}) {
  const interruption = new AbortController();
  let pauses = 0;
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
    pause: async () => {
      if (++pauses === where.interruptAt) interruption.abort();
      // one that never stops asking must fail by its own test
      if (pauses > 1000) throw new Error("paused a thousand times");
    },
    interrupted: interruption.signal,
  });
  return { exit, stdout, stderr };
}

export const problem = (status: number, code: string, detail: string) => ({
  status,
  body: { type: "about:blank", title: "No", status, code, detail },
});
