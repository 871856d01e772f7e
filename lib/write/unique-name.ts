import { type Kysely, sql, type Transaction } from "kysely";
import type { Clock, Database } from "../engine/ports.ts";
import { MillraceError } from "../errors.ts";
import { untilHad } from "./patience.ts";

/** What a writer needs of a database beside the statements of the protocol. */
export interface WriterDatabase<DB> extends Database {
  /** Runs the application's own queries, again where that may be. @throws as `run` */
  read<T>(name: string, query: (db: Kysely<DB>) => Promise<T>): Promise<T>;
}

const WAIT_SECONDS = 10;

/**
 * A short transaction under a lock on a name: of those that want the same name at once, one after the other works. Who
 * has to wait does so between transactions: a call that waits would take the place of those that the holder has to make.
 * @throws ROW_LOCKED
 */
export async function withUniqueName<DB, T>(
  { database, clock }: { readonly database: WriterDatabase<DB>; readonly clock: Clock },
  namespace: string,
  name: string,
  work: (tx: Transaction<DB>) => Promise<T>,
): Promise<T> {
  const outcome = await untilHad(clock, WAIT_SECONDS, () =>
    database.read("unique-name", (db) => workOnce(db, JSON.stringify([namespace, name]), work)),
  );
  if (outcome === undefined)
    throw new MillraceError("ROW_LOCKED", { table: namespace, id: name, seconds: WAIT_SECONDS });
  if ("thrown" in outcome) throw outcome.thrown;
  return outcome.answer;
}

type Outcome<T> = { readonly answer: T } | { readonly thrown: unknown };

/** One transaction; undefined when somebody else has the name. What the work itself throws is answered: it is final. */
async function workOnce<DB, T>(
  db: Kysely<DB>,
  key: string,
  work: (tx: Transaction<DB>) => Promise<T>,
): Promise<Outcome<T> | undefined> {
  let ofWork: { readonly thrown: unknown } | undefined;
  try {
    return await db.transaction().execute(async (tx) => {
      // transaction-scoped: a session is nobody's own, and would keep the lock after us
      const { rows } = await sql<{
        had: boolean;
      }>`select pg_try_advisory_xact_lock(hashtextextended(${key}, 0)) as had`.execute(tx);
      if (rows[0]?.had !== true) return undefined;
      const answer = await work(tx).catch((error: unknown) => {
        if (!isOfDatabase(error)) ofWork = { thrown: error };
        throw error;
      });
      return { answer };
    });
  } catch (error) {
    if (ofWork !== undefined) return ofWork;
    throw error;
  }
}

/** Errors of a call carry what the client knows of the response; what the work throws by itself does not. */
const isOfDatabase = (error: unknown): boolean =>
  typeof error === "object" && error !== null && !(error instanceof MillraceError) && "$metadata" in error;
