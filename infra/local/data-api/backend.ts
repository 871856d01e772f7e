import { once } from "node:events";
import { connect } from "node:net";
import pg from "pg";
import { Statement, type StatementResult } from "./statement.ts";

/** Where and as whom a backend connects. */
export interface Login {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly password: string;
  readonly database: string;
}

/** One PostgreSQL session. */
export interface Backend {
  readonly pid: number;
  /** True if its statement_timeout is ours, because the role has none below the service's. */
  readonly ownsTimeout: boolean;
  /** False once the session is gone. */
  alive(): boolean;
  /** idle, in a transaction, or in a failed one. */
  state(): "idle" | "open" | "failed";
  /** Runs one statement; a failure is in the result, never thrown. One at a time. */
  run(statement: Statement): Promise<StatementResult>;
  /** Asks PostgreSQL to cancel what runs now. */
  cancel(): Promise<void>;
  /** Ends the session; what it has not committed is rolled back. */
  close(): Promise<void>;
}

/**
 * Opens a session and gives it the service's statement timeout, unless its role has a lower one of its own: settings of
 * a role are never overridden by a higher value. Rejects with PostgreSQL's error.
 */
export async function openBackend(login: Login, statementTimeoutMs: number, onGone: () => void): Promise<Backend> {
  const client = new pg.Client({ ...login, application_name: "rds-data-api" });
  let alive = true;
  const gone = () => {
    if (!alive) return;
    alive = false;
    onGone();
  };
  // Without a listener an error on an idle connection would end the process; `end` follows it.
  client.on("error", gone);
  client.on("end", gone);
  await client.connect().catch((error: unknown) => {
    alive = false;
    throw error;
  });
  const run = (statement: Statement) => runOn(client, statement, () => alive);
  const { rows, error } = await run(new Statement(RAISE_TIMEOUT, [{ oid: 25, text: `${statementTimeoutMs}ms` }]));
  if (error) {
    await client.end().catch(() => undefined);
    throw error;
  }
  const { processID: pid, secretKey } = client as unknown as { processID: number; secretKey: number };
  return {
    pid,
    ownsTimeout: rows.length > 0,
    alive: () => alive,
    state: () => ({ I: "idle", T: "open", E: "failed" })[client.getTransactionStatus() ?? "I"] as "idle",
    run,
    cancel: () => cancelBackend(login, pid, secretKey),
    close: async () => {
      gone();
      await client.end();
    },
  };
}

const RAISE_TIMEOUT = `/* data-api:session */
  select set_config('statement_timeout', $1, false)
  from (select cast(current_setting('statement_timeout') as interval) as own) as role
  where own = interval '0' or own > cast($1 as interval)`;

/** Done when the server is ready for the next statement, or the connection is gone. */
async function runOn(client: pg.Client, statement: Statement, alive: () => boolean): Promise<StatementResult> {
  if (!alive()) statement.handleError(new Error("the connection is gone"));
  else {
    await new Promise<void>((settle) => {
      const done = () => {
        client.off("drain", done).off("end", done);
        settle();
      };
      client.on("drain", done).on("end", done);
      client.query(statement);
    });
    if (!alive()) statement.handleError(new Error("the connection is gone"));
  }
  return statement.result();
}

/** PostgreSQL takes a cancel request on a connection of its own and closes that when it has passed it on. */
async function cancelBackend({ host, port }: Login, pid: number, secretKey: number): Promise<void> {
  const request = Buffer.alloc(16);
  for (const [index, value] of [16, 80_877_102, pid, secretKey].entries()) request.writeInt32BE(value, index * 4);
  const socket = connect(port, host);
  socket.end(request);
  socket.resume();
  await once(socket, "close").catch(() => undefined);
}
