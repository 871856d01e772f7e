import type pg from "pg";
import type { Login } from "../../infra/local/data-api/backend.ts";
import { migrate, type Registry, systemClock } from "../../lib/index.ts";
import { createDatabaseOn, type TestDatabase } from "../support/database-on.ts";
import { connect } from "../support/engine-on.ts";
import type { ServerAddress } from "../support/test-server.ts";
import type { KnownRows } from "./acts.ts";
import { SteppedDatabase } from "./database.ts";
import { Invariants } from "./invariants.ts";
import type { Version } from "./process.ts";
import { pipelinesOf, type Services } from "./subject.ts";
import { fenceTasks, TABLES, tablesOf } from "./tables.ts";
import { installAudit, prepareVirtualTime } from "./virtual-schema.ts";
import { START, type World } from "./world.ts";

/** A database in virtual time with the pipelines that are simulated in it; one run at a time. */
export class Subject implements AsyncDisposable {
  readonly database: SteppedDatabase;
  readonly observer: pg.Client;
  readonly registries: Readonly<Record<Version, Registry<Services>>> = {
    old: pipelinesOf("old"),
    new: pipelinesOf("new"),
  };
  readonly invariants: Invariants;
  rows: KnownRows = { things: [], groups: [], closable: [], members: [], tasks: [] };
  readonly #database: TestDatabase;
  readonly #randomUuid = crypto.randomUUID;
  #upgraded = false;

  private constructor(made: TestDatabase, database: SteppedDatabase, observer: pg.Client) {
    this.#database = made;
    this.database = database;
    this.observer = observer;
    this.invariants = new Invariants(observer, this.registries.old);
  }

  static async create(server: ServerAddress): Promise<Subject> {
    const database = await createDatabaseOn(server);
    const admin = await database.connect("superuser");
    await prepareVirtualTime(admin, database.name);
    const { hostname, port } = new URL(server.databaseUrl);
    const login: Login = {
      host: hostname,
      port: Number(port),
      user: "millrace_app",
      password: "app",
      database: database.name,
    };
    const url = new URL(server.databaseUrl);
    const superuser = { ...login, user: url.username, password: url.password };
    // the checks are planned once, for any run
    await admin.query("set plan_cache_mode = force_generic_plan");
    admin.on("error", () => undefined);
    const subject = new Subject(database, await SteppedDatabase.connect(login, superuser), admin);
    await subject.#migrate("old", START);
    await installAudit(admin);
    return subject;
  }

  /** Ids and tokens come from here as long as this subject is used. */
  useIds(next: () => string): void {
    crypto.randomUUID = next as typeof crypto.randomUUID;
  }

  /** Brings the schema up to the new version, as a deployment does; while it runs, nothing else does. */
  async upgrade(world: World): Promise<void> {
    await this.#migrate("new", new Date(world.time.now + world.time.databaseSkew));
    this.#upgraded = true;
  }

  async #migrate(version: Version, now: Date): Promise<void> {
    const { useIds, observer } = this;
    await observer.query("update sim.clock set at = $1", [now]);
    const simulated = crypto.randomUUID;
    useIds(this.#randomUuid.bind(crypto));
    try {
      const owner = this.#owner();
      const registry = this.registries[version];
      await migrate({ database: owner, registry, migrations: tablesOf(version), clock: systemClock });
      await this.database.forget();
    } finally {
      useIds(simulated);
    }
  }

  #owner() {
    return connect<unknown>(this.#database, this.#database.dataApiConfig.ownerSecretArn);
  }

  /** Takes the new schema back, for the next run. */
  async #downgrade(): Promise<void> {
    await this.observer.query(
      "alter table tasks drop column grade cascade; delete from millrace.migrations where name = '0002-grades'",
    );
    await this.#migrate("old", START);
    // the fence went with the column
    await fenceTasks(this.#owner().kysely);
    this.#upgraded = false;
  }

  /** An empty database, then some rows of each kind. */
  async fill(world: World): Promise<void> {
    await this.observer.query(`truncate ${TABLES.join(", ")}, logs, sim.audit, millrace.items, millrace.upkeep, millrace.orphans restart identity;
      update millrace.wakeups set wake_at = null; update millrace.pipelines set paused_at = null, drain = false, fetched_at = null;
      update sim.clock set at = '2030-01-01T00:00:00Z'; delete from sim.audit`);
    if (this.#upgraded) await this.#downgrade();
    this.invariants.begin();
    const ids = (n: number) => Array.from({ length: n }, () => world.uuid());
    const groups = ids(1 + world.pick([0, 1]));
    const closable = ids(world.pick([0, 1, 2]));
    const things = ids(world.pick([2, 1, 5]));
    const members: string[] = [];
    // a task does not name members that go with their group
    const lasting: string[] = [];
    for (const group of [...groups, ...closable]) {
      const some = ids(world.pick([2, 1, 3]));
      members.push(...some);
      if (groups.includes(group)) lasting.push(...some);
      await this.observer.query("insert into groups (id) values ($1)", [group]);
      for (const id of some)
        await this.observer.query("insert into members (id, group_id) values ($1, $2)", [id, group]);
    }
    const tasks = ids(world.pick([1, 2, 3]));
    for (const id of things) await this.observer.query("insert into things (id) values ($1)", [id]);
    for (const id of tasks) {
      const group = world.pick(groups);
      const both = [...new Set([world.pick(lasting), world.pick(lasting)])];
      await this.observer.query("insert into tasks (id, group_id, member_ids) values ($1, $2, $3)", [id, group, both]);
    }
    this.rows = { ...this.rows };
    for (const [list, of] of [
      [things, "things"],
      [groups, "groups"],
      [closable, "closable"],
      [members, "members"],
      [tasks, "tasks"],
    ] as const)
      this.rows[of].splice(0, Number.POSITIVE_INFINITY, ...list);
  }

  async isPaused(): Promise<boolean> {
    const { rows } = await this.observer.query("select 1 from millrace.pipelines where paused_at is not null");
    return rows.length > 0;
  }

  /** The passes that were accepted. */
  async accepted(): Promise<readonly number[]> {
    const { rows } = await this.observer.query<{ pass: number }>("select pass from logs where pass > 0 order by id");
    return rows.map((r) => r.pass);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    crypto.randomUUID = this.#randomUuid;
    await this.database.close();
    await this.#database.drop();
  }
}
