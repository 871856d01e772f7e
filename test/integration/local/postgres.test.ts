import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { chmod, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { networkInterfaces, tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import pg from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { processIdentity } from "../../../infra/local/postgres/processes.ts";
import { type Postgres, startPostgres } from "../../../infra/local/postgres.ts";
import { until } from "../../support/until.ts";

const KEEPER = new URL("../../support/keep-postgres.ts", import.meta.url).pathname;
let template: string;
let folder: string;
let dataDir: string;
let running: Postgres | undefined;
let keepers: ChildProcess[];

beforeAll(async () => {
  template = await mkdtemp(join(tmpdir(), "millrace-postgres-test-"));
  await chmod(template, 0o755);
  await (await startPostgres({ dataDir: join(template, "data"), port: 0 })).stop();
});
afterAll(() => rm(template, { recursive: true, force: true }));
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "millrace-postgres-test-"));
  // As root, the server runs as another user, who must get in.
  await chmod(folder, 0o755);
  dataDir = join(folder, "data");
  keepers = [];
});
afterEach(async () => {
  for (const keeper of keepers) keeper.kill("SIGKILL");
  await running?.stop();
  running = undefined;
  await rm(folder, { recursive: true, force: true });
});

/** A cluster that is made already: copying it is faster than initdb. */
async function made(): Promise<void> {
  if (!existsSync(dataDir)) await promisify(execFile)("cp", ["-a", join(template, "data"), dataDir]);
}

async function start(options: { port?: number; dataDir?: string } = {}): Promise<Postgres> {
  running = await startPostgres({ dataDir, port: 0, ...options });
  return running;
}

async function query(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url });
  client.on("error", () => undefined);
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}

async function keep(): Promise<{ keeper: ChildProcess; pid: number; port: number; url: string }> {
  await made();
  const keeper = spawn(process.execPath, [KEEPER, dataDir], { stdio: ["ignore", "pipe", "inherit"] });
  keepers.push(keeper);
  const [line] = await once(keeper.stdout as NodeJS.ReadableStream, "data");
  return { keeper, ...JSON.parse(String(line)) };
}

async function kill(keeper: ChildProcess): Promise<void> {
  const exited = once(keeper, "exit");
  keeper.kill("SIGKILL");
  await exited;
}

/** A zombie that nobody waits for does not live. */
const lives = (pid: number) => processIdentity(pid) !== undefined;

describe("a server", () => {
  let server: Postgres;

  beforeAll(async () => {
    server = await startPostgres({ dataDir: join(template, "other"), port: 0 });
  });
  afterAll(() => server.stop());

  test("has the settings the stack counts on", async () => {
    const names = ["server_version_num", "timezone", "max_connections", "fsync", "pg_stat_statements.track"];
    const shown = await Promise.all(
      names.map(async (name) => Object.values((await query(server.url("postgres"), `show ${name}`))[0] ?? {})[0]),
    );
    expect(shown.slice(1)).toEqual(["UTC", "200", "on", "all"]);
    expect(shown[0]).toMatch(/^17\d{4}$/);
  });

  test("counts statements in every database made on it", async () => {
    await query(server.url("postgres"), "create database other");
    await query(server.url("other"), "select 'seen'");
    const rows = await query(server.url("other"), "select calls from pg_stat_statements where query = 'select $1'");
    expect(rows).toHaveLength(1);
  });

  test("is reached over 127.0.0.1 only, and with the password only", async () => {
    const wrong = server.url("postgres").replace(server.password, "wrong");
    await expect(query(wrong, "select 1")).rejects.toThrow("password authentication failed");
    const [outside] = Object.values(networkInterfaces())
      .flat()
      .filter((address) => address?.family === "IPv4" && !address.internal);
    const elsewhere = server.url("postgres").replace("127.0.0.1", outside?.address ?? "127.0.0.2");
    await expect(query(elsewhere, "select 1")).rejects.toThrow("ECONNREFUSED");
  });

  test("keeps its data and its password over a stop, which may come twice", async () => {
    await query(server.url("postgres"), "create table kept as select 1 as a");
    const { password, pid } = server;
    await server.stop();
    await server.stop();
    expect(lives(pid)).toBe(false);
    server = await startPostgres({ dataDir: join(template, "other"), port: 0 });
    expect(server.password).toBe(password);
    expect(await query(server.url("postgres"), "select a from kept")).toEqual([{ a: 1 }]);
  });
});

describe("a crash", () => {
  test.each(["kill", "immediate"] as const)(
    "by %s ends what runs, and the server comes back on its port with what was committed",
    async (how) => {
      await made();
      const server = await start();
      const { pid, port } = server;
      const client = new pg.Client({ connectionString: server.url("postgres") });
      client.on("error", () => undefined);
      await client.connect();
      await client.query("create table kept as select 1 as a");
      await client.query("begin");
      await client.query("insert into kept values (2)");
      const busy = client.query("select pg_sleep(300)").catch(() => "ended");
      await server.crash({ how });
      expect(await busy).toBe("ended");
      expect(lives(pid)).toBe(false);
      expect(lives(server.pid)).toBe(true);
      expect(server.port).toBe(port);
      expect(await query(server.url("postgres"), "select a from kept")).toEqual([{ a: 1 }]);
    },
  );

  test("leaves nobody listening for as long as it is told, and a stop meanwhile ends it for good", async () => {
    await made();
    const server = await start();
    const { pid } = server;
    const crashed = server.crash({ awaySeconds: 1 });
    await until(() => !lives(pid), { what: "the postmaster to be gone" });
    await expect(query(server.url("postgres"), "select 1")).rejects.toThrow("ECONNREFUSED");
    await server.stop();
    await crashed;
    await expect(query(server.url("postgres"), "select 1")).rejects.toThrow("ECONNREFUSED");
    expect(existsSync(join(dataDir, "postmaster.pid"))).toBe(false);
  });
});

describe("after a kill", () => {
  test("of its keeper, the server left behind is ended and its data taken over", async () => {
    const { keeper, pid, url } = await keep();
    await query(url, "create table kept as select 1 as a");
    await kill(keeper);
    expect(lives(pid)).toBe(true);
    const server = await start();
    expect(lives(pid)).toBe(false);
    expect(await query(server.url("postgres"), "select a from kept")).toEqual([{ a: 1 }]);
  });

  test("of its keeper and the postmaster, the stale postmaster.pid and a busy backend are no obstacle", async () => {
    const { keeper, pid, url } = await keep();
    await query(url, "create table kept as select 1 as a");
    const client = new pg.Client({ connectionString: url });
    client.on("error", () => undefined);
    await client.connect();
    const busy = client.query("select pg_sleep(300)").catch(() => "ended");
    await kill(keeper);
    process.kill(pid, "SIGKILL");
    await until(() => !lives(pid), { what: "the postmaster to be gone" });
    expect(existsSync(join(dataDir, "postmaster.pid"))).toBe(true);
    const server = await start();
    expect(await busy).toBe("ended");
    expect(await query(server.url("postgres"), "select a from kept")).toEqual([{ a: 1 }]);
  });

  test("a postmaster.pid that names a process of somebody else is no obstacle, and that process lives on", async () => {
    await made();
    const bystander = spawn("sleep", ["60"]);
    keepers.push(bystander);
    await writeFile(join(dataDir, "postmaster.pid"), `${bystander.pid}\n${dataDir}\n1\n1\n`);
    await start();
    expect(bystander.exitCode ?? bystander.signalCode).toBeNull();
  });

  test("in the middle of making the directory, it is made again", async () => {
    await mkdir(`${dataDir}.making`, { recursive: true });
    await writeFile(join(`${dataDir}.making`, "PG_VERSION"), "17\n");
    await start();
    expect(await readFile(join(dataDir, "PG_VERSION"), "utf8")).toBe("17\n");
    expect(existsSync(`${dataDir}.making`)).toBe(false);
  });
});

describe("what is refused", () => {
  test("a directory whose keeper lives: DATA_DIRECTORY_IN_USE, and its server runs on", async () => {
    const { keeper, url } = await keep();
    await expect(start()).rejects.toMatchObject({ code: "DATA_DIRECTORY_IN_USE", details: { pid: keeper.pid } });
    expect(await query(url, "select 1 as a")).toEqual([{ a: 1 }]);
    await kill(keeper);
    await start();
  });

  test("a port that is taken: PORT_IN_USE, with the port and what to do", async () => {
    await made();
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as { port: number };
    const error = await start({ port }).catch((caught) => caught);
    expect(error).toMatchObject({ code: "PORT_IN_USE", details: { port } });
    expect(error.message).toContain(`Port ${port} for PostgreSQL is taken`);
    expect(error.message).toContain("--database-port");
    server.close();
  });

  test("the data of another major version: DATA_DIRECTORY_VERSION", async () => {
    await made();
    await writeFile(join(dataDir, "PG_VERSION"), "16\n");
    const error = await start().catch((caught) => caught);
    expect(error).toMatchObject({ code: "DATA_DIRECTORY_VERSION", details: { found: "16", expected: "17" } });
    expect(error.message).toContain(dataDir);
  });

  test("a directory that somebody else made: POSTGRES_START", async () => {
    await made();
    await rm(join(dataDir, "millrace.password"));
    await expect(start()).rejects.toMatchObject({ code: "POSTGRES_START" });
  });

  test("settings that PostgreSQL refuses: POSTGRES_START with its words", async () => {
    await made();
    const started = startPostgres({ dataDir, port: 0, settings: { max_connections: "none" } });
    await expect(started).rejects.toMatchObject({
      code: "POSTGRES_START",
      message: expect.stringContaining("max_connections"),
    });
  });
});

describe("a place that the server's user cannot reach", () => {
  const isRoot = process.getuid?.() === 0;

  test("is exchanged for one in the temporary folder, always the same; only root has that need", async () => {
    const closed = join(folder, "closed");
    await mkdir(closed, { mode: 0o700 });
    const first = await start({ dataDir: join(closed, "data") });
    const second = await first.stop().then(() => start({ dataDir: join(closed, "data") }));
    expect(second.dataDir).toBe(first.dataDir);
    expect(second.dataDir.startsWith(closed)).toBe(!isRoot);
    await second.stop();
    await rm(second.dataDir, { recursive: true });
  });

  test("and no other either: DATA_DIRECTORY_UNREACHABLE", async () => {
    const file = join(folder, "file");
    await writeFile(file, "");
    const error = await start({ dataDir: file }).then(
      async (server) => {
        // It went to its place in the temporary folder; spoil that one too.
        await server.stop();
        await rm(server.dataDir, { recursive: true });
        await symlink(folder, server.dataDir);
        const caught = await start({ dataDir: file }).catch((refused) => refused);
        await rm(server.dataDir);
        return caught;
      },
      (caught) => caught,
    );
    expect(error).toMatchObject({ code: "DATA_DIRECTORY_UNREACHABLE" });
  });
});
