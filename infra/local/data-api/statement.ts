import type { Connection, Submittable } from "pg";
import type { BoundValue } from "./bind.ts";

/** A column of a result, as PostgreSQL describes it. */
export interface ResultColumn {
  readonly name: string;
  readonly tableID: number;
  readonly columnID: number;
  readonly dataTypeID: number;
  readonly dataTypeModifier: number;
}

/** What one statement came to. */
export interface StatementResult {
  readonly error: Error | undefined;
  /** Undefined if the statement yields no rows. */
  readonly columns: readonly ResultColumn[] | undefined;
  readonly rows: readonly (readonly (string | null)[])[];
  /** Size of all rows as the service counts it; rows are missing if it is above what the statement was to keep. */
  readonly bytes: number;
  /** Command tag, as `INSERT 0 3`; empty for an empty statement. */
  readonly tag: string;
}

/** The parts of node-postgres's connection that the extended protocol needs. */
interface Wire {
  readonly stream: { cork(): void; uncork(): void };
  parse(message: { text: string; types: number[] }): void;
  bind(message: { values: (string | null)[] }): void;
  describe(message: { type: "P"; name: string }): void;
  execute(message: Record<string, never>): void;
  sync(): void;
  sendCopyFail(reason: string): void;
}

/**
 * One statement over the extended protocol: the parameters' types are declared, values and results travel as text and
 * are not interpreted. node-postgres calls its methods as messages arrive.
 */
export class Statement implements Submittable {
  readonly #text: string;
  readonly #values: readonly BoundValue[];
  readonly #mostBytes: number;
  #bytes = 0;
  #error: Error | undefined;
  #columns: ResultColumn[] | undefined;
  #rows: (string | null)[][] = [];
  #tag = "";

  /** Rows are kept up to `mostBytes`, counted as the service does: 2 a row, 4 a column, and the text itself. */
  constructor(text: string, values: readonly BoundValue[] = [], mostBytes = Number.POSITIVE_INFINITY) {
    this.#text = text;
    this.#values = values;
    this.#mostBytes = mostBytes;
  }

  submit(connection: Connection): void {
    const wire = connection as unknown as Wire;
    wire.stream.cork();
    wire.parse({ text: this.#text, types: this.#values.map(({ oid }) => oid) });
    wire.bind({ values: this.#values.map(({ text }) => text) });
    wire.describe({ type: "P", name: "" });
    wire.execute({});
    wire.sync();
    wire.stream.uncork();
  }

  handleRowDescription(message: { fields: ResultColumn[] }): void {
    this.#columns = message.fields;
  }

  handleDataRow(message: { length: number; fields: (string | null)[] }): void {
    // The message is its own length in 4 bytes, then exactly what the service counts.
    this.#bytes += message.length - 4;
    if (this.#bytes <= this.#mostBytes) this.#rows.push(message.fields);
    else this.#rows = [];
  }

  handleCommandComplete(message: { text: string }): void {
    this.#tag = message.text;
    if (message.text.startsWith("COPY ")) this.handleError(refusedCopy("CopyOutResponse"));
  }

  handleError(error: Error): void {
    this.#error ??= error;
  }

  handleCopyInResponse(connection: Connection): void {
    this.handleError(refusedCopy("CopyInResponse"));
    const wire = connection as unknown as Wire;
    wire.sendCopyFail("not supported");
    // The Sync that went out with Execute was swallowed by the copy.
    wire.sync();
  }

  handleCopyData(): void {}
  handleEmptyQuery(): void {}
  handlePortalSuspended(): void {}
  handleReadyForQuery(): void {}

  result(): StatementResult {
    return {
      error: this.#error,
      columns: this.#columns,
      rows: this.#rows,
      bytes: this.#bytes,
      tag: this.#tag,
    };
  }
}

function refusedCopy(message: string): Error {
  return Object.assign(new Error(`execute: unexpected message: ${message}`), { severity: "ERROR", code: "0A000" });
}
