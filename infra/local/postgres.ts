import { type ChildProcess, spawn } from "node:child_process";
import pg from "pg";
import { LocalError } from "./errors.ts";
import { type Account, serverAccount } from "./postgres/account.ts";
import { type Binaries, findBinaries } from "./postgres/binaries.ts";
import { type DataDirectory, openDataDirectory, placeFor } from "./postgres/data-directory.ts";
import { endOrphans, noteKeeper } from "./postgres/orphans.ts";
import { claimPort, portInUse } from "./postgres/port.ts";
import { Server } from "./postgres/server.ts";

const HOST = "127.0.0.1";
const SUPERUSER = "postgres";
const PORT_ATTEMPTS = 5;

/** What `startPostgres` is told. */
export interface PostgresOptions {
  /** Where the data live; made if need be. As root it must be reachable for user postgres, else another place is used. */
  readonly dataDir: string;
  /** 0 takes any free port. */
  readonly port: number;
  /** Server settings that go over ours, as `max_connections: "50"`. */
  readonly settings?: Readonly<Record<string, string>>;
}

/** A running PostgreSQL 17 on 127.0.0.1. */
export interface Postgres {
  readonly host: string;
  readonly port: number;
  readonly superuser: string;
  readonly password: string;
  /** Where the data really live. */
  readonly dataDir: string;
  /** Of the postmaster; another one after `crash`. */
  readonly pid: number;
  /** Connection string of the superuser. */
  url(database: string): string;
  /**
   * Kills the server as a lost machine would (SIGKILL for each of its processes), or by an immediate shutdown, leaves it
   * away for so long, and starts it again on the same data and port. Resolves when it accepts connections. POSTGRES_START.
   */
  crash(options?: CrashOptions): Promise<void>;
  /** Stops the server in good order; the data stay. */
  stop(): Promise<void>;
}

export interface CrashOptions {
  /** Default `kill`. */
  readonly how?: "kill" | "immediate";
  /** How long nothing listens, besides the time that the recovery takes. Default 0. */
  readonly awaySeconds?: number;
}

/**
 * Starts PostgreSQL on a data directory, which is made first if need be. A server left behind by a killed process in
 * the same directory is ended. Errors: PORT_IN_USE, DATA_DIRECTORY_VERSION, DATA_DIRECTORY_IN_USE,
 * DATA_DIRECTORY_UNREACHABLE, POSTGRES_USER, POSTGRES_BINARIES, POSTGRES_START.
 */
export async function startPostgres(options: PostgresOptions): Promise<Postgres> {
  const account = serverAccount();
  const binaries = await findBinaries(account);
  const place = await placeFor(options.dataDir, account);
  await endOrphans(place);
  const directory = await openDataDirectory(place, binaries, account);
  await noteKeeper(place);
  const first = await launch(binaries, account, directory, options);
  const { port } = first;
  const url = (database: string) => connectionString(port, directory.password, database);
  const server = new Server(place, first.child, () =>
    launchOn(port, binaries, account, directory, options.settings ?? {}),
  );
  try {
    if (binaries.has("pg_stat_statements")) await addStatistics(url);
  } catch (error) {
    await server.stop();
    throw error;
  }
  return {
    host: HOST,
    port,
    superuser: SUPERUSER,
    password: directory.password,
    dataDir: place,
    get pid() {
      return server.pid;
    },
    url,
    crash: (crash = {}) => server.crash(crash),
    stop: () => server.stop(),
  };
}

function connectionString(port: number, password: string, database: string): string {
  return `postgresql://${SUPERUSER}:${password}@${HOST}:${port}/${encodeURIComponent(database)}`;
}

interface Launched {
  readonly child: ChildProcess;
  readonly port: number;
}

async function launch(
  binaries: Binaries,
  account: Account | undefined,
  directory: DataDirectory,
  options: PostgresOptions,
): Promise<Launched> {
  for (let attempt = 1; ; attempt++) {
    const port = await claimPort(options.port);
    try {
      return { child: await launchOn(port, binaries, account, directory, options.settings ?? {}), port };
    } catch (error) {
      // A port that was free a moment ago went to somebody else; where any will do, take another.
      const again = options.port === 0 && error instanceof LocalError && error.code === "PORT_IN_USE";
      if (!again || attempt === PORT_ATTEMPTS) throw error;
    }
  }
}

function launchOn(
  port: number,
  binaries: Binaries,
  account: Account | undefined,
  directory: DataDirectory,
  settings: Readonly<Record<string, string>>,
): Promise<ChildProcess> {
  const all = { ...defaultSettings(binaries), port: String(port), ...settings };
  const flags = Object.entries(all).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  // A process group of its own: Ctrl-C in a terminal must not stop the database before those who use it.
  const child = spawn(binaries.postgres, ["-D", directory.path, ...flags], {
    ...account?.ids,
    cwd: "/",
    detached: true,
    stdio: ["ignore", "ignore", "pipe"],
  });
  return new Promise((done, failed) => {
    let log = "";
    child.stderr.on("data", (chunk) => {
      log = (log + chunk).slice(-8_000);
      if (log.includes("database system is ready to accept connections")) done(child);
    });
    child.once("error", failed);
    child.once("exit", (code) => {
      if (log.includes("could not bind")) return failed(portInUse(port));
      const reason = log.trim() || `it ended with code ${code}`;
      failed(new LocalError("POSTGRES_START", { dataDir: directory.path, reason }));
    });
  });
}

function defaultSettings(binaries: Binaries): Record<string, string> {
  const statistics = {
    shared_preload_libraries: "pg_stat_statements",
    "pg_stat_statements.track": "all",
    "pg_stat_statements.max": "10000",
  };
  return {
    listen_addresses: HOST,
    unix_socket_directories: "",
    max_connections: "200",
    timezone: "UTC",
    log_timezone: "UTC",
    ...(binaries.has("pg_stat_statements") ? statistics : {}),
  };
}

/** In template1, so that every database made later has the extension. */
async function addStatistics(url: (database: string) => string): Promise<void> {
  for (const database of ["template1", "postgres"]) {
    const client = new pg.Client({ connectionString: url(database) });
    await client.connect();
    await client.query("create extension if not exists pg_stat_statements");
    await client.end();
  }
}
