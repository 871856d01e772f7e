import type { Connection } from "pg";
import type { Backend } from "../../infra/local/data-api/backend.ts";
import type { BoundValue } from "../../infra/local/data-api/bind.ts";
import { Statement } from "../../infra/local/data-api/statement.ts";

/** The parts of node-postgres's connection that this needs. */
interface Wire {
  readonly stream: { cork(): void; uncork(): void };
  parse(message: { name: string; text: string; types: number[] }): void;
  bind(message: { statement: string; values: (string | null)[] }): void;
  describe(message: { type: "P"; name: string }): void;
  execute(message: Record<string, never>): void;
  sync(): void;
}

let next = 0;
const known = new WeakMap<Backend, Map<string, string>>();

/** A statement that a session parses and plans once: most of the time of a run would go into that. */
export class PreparedStatement extends Statement {
  readonly #backend: Backend;
  readonly #text: string;
  readonly #values: readonly BoundValue[];
  #named: (() => void) | undefined;

  constructor(backend: Backend, text: string, values: readonly BoundValue[], mostBytes?: number) {
    super(text, values, mostBytes);
    this.#backend = backend;
    this.#text = text;
    this.#values = values;
  }

  override submit(connection: Connection): void {
    const wire = connection as unknown as Wire;
    const names = known.get(this.#backend) ?? new Map<string, string>();
    known.set(this.#backend, names);
    const types = this.#values.map(({ oid }) => oid);
    const key = `${types.join()} ${this.#text}`;
    const name = names.get(key);
    const statement = name ?? `s${next++}`;
    wire.stream.cork();
    if (name === undefined) wire.parse({ name: statement, text: this.#text, types });
    wire.bind({ statement, values: this.#values.map(({ text }) => text) });
    wire.describe({ type: "P", name: "" });
    wire.execute({});
    wire.sync();
    wire.stream.uncork();
    this.#named = () => names.set(key, statement);
  }

  /** Only what was understood is known to the session. */
  override handleCommandComplete(message: { text: string }): void {
    this.#named?.();
    super.handleCommandComplete(message);
  }
}

/** After a change of the schema: plans must not be kept that answer other columns than there are. */
export async function forgetPrepared(backend: Backend): Promise<void> {
  known.delete(backend);
  await backend.run(new Statement("deallocate all"));
}
