import { type Backend, type Login, openBackend } from "./backend.ts";

/** A backend on loan, to be given back once. */
export interface Loan {
  readonly backend: Backend;
  /** Gives it back; `discard` closes it instead, because its session must not be used again. */
  release(discard?: boolean): void;
}

export interface PoolOptions {
  /** Most connections at once, over all roles and databases. */
  readonly size: number;
  readonly statementTimeoutMs: number;
  /** Picks among idle backends: 0 to just under 1. */
  random(): number;
}

interface Waiter {
  readonly login: Login;
  readonly done: (loan: Loan) => void;
  readonly failed: (error: unknown) => void;
}

/** This many are opened for a role and database before any is used twice, so that no caller may rely on its session. */
const SPREAD = 4;

/**
 * Connections shared by all callers. Which idle one a caller gets is a matter of chance; nothing is reset in between,
 * so a setting made on one is there for some callers and not for others. Beyond `size` callers wait in line.
 */
export class BackendPool {
  readonly #options: PoolOptions;
  readonly #idle = new Map<string, Backend[]>();
  readonly #open = new Map<string, number>();
  readonly #line: Waiter[] = [];
  readonly #all = new Set<Backend>();
  #total = 0;
  #busy = 0;
  #highWater = 0;
  #serving = false;
  #closed = false;

  constructor(options: PoolOptions) {
    this.#options = options;
  }

  /** Waits its turn. Rejects with PostgreSQL's error if a connection cannot be opened. */
  acquire(login: Login): Promise<Loan> {
    return new Promise((done, failed) => {
      this.#line.push({ login, done, failed });
      this.#serve();
    });
  }

  stats() {
    const idle = [...this.#idle.values()].reduce((sum, list) => sum + list.length, 0);
    return { connections: this.#total, idle, busy: this.#busy, highWater: this.#highWater, queued: this.#line.length };
  }

  /** Ends every session; who waits is refused. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const waiter of this.#line.splice(0)) waiter.failed(new Error("the Data API is closed"));
    await Promise.all([...this.#all].map((backend) => backend.close().catch(() => undefined)));
  }

  #serve(): void {
    // Closing an idle connection to make room comes back here.
    if (this.#serving) return;
    this.#serving = true;
    while (this.#line.length > 0 && this.#serveFirst(this.#line[0] as Waiter)) this.#line.shift();
    this.#serving = false;
  }

  #serveFirst(waiter: Waiter): boolean {
    const key = keyOf(waiter.login);
    const idle = this.#idle.get(key) ?? [];
    const room = this.#total < this.#options.size;
    if (idle.length > 0 && (!room || (this.#open.get(key) ?? 0) >= SPREAD)) {
      const [backend] = idle.splice(Math.floor(this.#options.random() * idle.length), 1);
      waiter.done(this.#lend(key, backend as Backend));
      return true;
    }
    if (!room && !this.#evict()) return false;
    void this.#openFor(key, waiter);
    return true;
  }

  async #openFor(key: string, waiter: Waiter): Promise<void> {
    this.#count(key, 1);
    let backend: Backend | undefined;
    try {
      backend = await openBackend(waiter.login, this.#options.statementTimeoutMs, () => this.#lost(key, backend));
    } catch (error) {
      this.#count(key, -1);
      waiter.failed(error);
      return this.#serve();
    }
    this.#all.add(backend);
    if (!backend.alive()) this.#lost(key, backend);
    if (!this.#closed) return waiter.done(this.#lend(key, backend));
    waiter.failed(new Error("the Data API is closed"));
    await backend.close().catch(() => undefined);
  }

  #lend(key: string, backend: Backend): Loan {
    this.#busy++;
    this.#highWater = Math.max(this.#highWater, this.#busy);
    let lent = true;
    const release = (discard = false) => {
      if (!lent) return;
      lent = false;
      this.#busy--;
      if (!backend.alive()) this.#serve();
      else if (discard || this.#closed) void backend.close().catch(() => undefined);
      else {
        this.#idle.set(key, [...(this.#idle.get(key) ?? []), backend]);
        this.#serve();
      }
    };
    return { backend, release };
  }

  #lost(key: string, backend: Backend | undefined): void {
    if (!backend || !this.#all.delete(backend)) return;
    this.#idle.set(
      key,
      (this.#idle.get(key) ?? []).filter((other) => other !== backend),
    );
    this.#count(key, -1);
    this.#serve();
  }

  /** Closes an idle connection of whichever role and database has one. */
  #evict(): boolean {
    for (const list of this.#idle.values()) {
      const backend = list.shift();
      if (!backend) continue;
      void backend.close().catch(() => undefined);
      return true;
    }
    return false;
  }

  #count(key: string, change: number): void {
    this.#total += change;
    this.#open.set(key, (this.#open.get(key) ?? 0) + change);
  }
}

function keyOf({ user, password, database }: Login): string {
  return JSON.stringify([user, password, database]);
}
