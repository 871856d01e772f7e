import type { ExecuteStatementCommand } from "@aws-sdk/client-rds-data";
import {
  createOperator,
  createWriter,
  type DataApiDatabase,
  MillraceError,
  type Ports,
  type Registry,
} from "../../lib/index.ts";
import { dataApiClient, TARGET } from "./calls.ts";
import type { Functions } from "./functions.ts";
import { Process } from "./process.ts";
import type { Services } from "./subject.ts";
import type { Schema } from "./tables.ts";
import type { Move, World } from "./world.ts";

const API_SECONDS = 29;

/** The rows that somebody knows of; they may be gone. */
export interface KnownRows {
  readonly things: string[];
  readonly groups: string[];
  /** Groups that have tasks are never closed. */
  readonly closable: string[];
  readonly members: string[];
  readonly tasks: string[];
}

/** What callers of the API, other services and operators do. */
export class Outside {
  readonly #world: World;
  readonly #functions: Functions;
  readonly #registry: Registry<Services>;
  readonly #rows: KnownRows;
  #asked = 0;

  constructor(world: World, functions: Functions, registry: Registry<Services>, rows: KnownRows) {
    this.#world = world;
    this.#functions = functions;
    this.#registry = registry;
    this.#rows = rows;
  }

  moves(): readonly Move[] {
    const { things, groups, closable, members, tasks } = this.#rows;
    const act = (what: string, weight: number, run: (ports: Ports) => Promise<unknown>): Move => ({
      what,
      weight,
      run: () => this.#start(what, run),
    });
    const pick = (list: readonly string[]) => this.#world.pick(list);
    const wish = () => ({ wanted: ++this.#asked });
    return [
      act("asks something of a thing", 4, (p) => this.#writer(p).request("things", pick(things), wish())),
      act("asks something of a group", 2, (p) => this.#writer(p).request("groups", pick(groups), wish())),
      act("asks something of a member", 2, (p) => this.#writer(p).request("members", pick(members), wish())),
      act("asks something of a task", 1, (p) => this.#writer(p).request("tasks", pick(tasks), wish())),
      act("starts a thing anew", 2, (p) => this.#writer(p).update("things", pick(things), { status: "new" })),
      ...(closable.length === 0
        ? []
        : [act("closes a group", 1, (p) => this.#writer(p).update("groups", pick(closable), { status: "closing" }))]),
      act("works on members under their locks", 2, (p) => this.#underLock(p)),
      act("adds a member", 1, (p) => this.#addMember(p, pick(groups))),
      act("adds a thing", 1, (p) => this.#addThing(p)),
      act("deletes a thing with plain SQL", 1, (p) =>
        this.#sql(p, "update things set to_be_deleted = true where id = :id", pick(things)),
      ),
      act("removes a free thing with plain SQL", 0.5, (p) =>
        this.#sql(p, "delete from things where id = :id and lock_token is null", pick(things)),
      ),
      act("writes to a thing past its lock", 1.5, (p) =>
        this.#sql(p, "update things set status = 'new', due_at = now() where id = :id", pick(things)),
      ),
      act("removes a thing past its lock", 0.3, (p) => this.#sql(p, "delete from things where id = :id", pick(things))),
      act("pauses a pipeline for a while", 0.7, (p) => this.#pause(p)),
    ];
  }

  /** Whoever paused something lets it go on. */
  async resumeAll(): Promise<void> {
    for (const { name } of this.#registry.pipelines)
      this.#start(`lets ${name} go on`, (ports) => createOperator({ ...ports, registry: this.#registry }).resume(name));
  }

  #writer(ports: Ports) {
    const database = ports.database as DataApiDatabase<Schema>;
    return createWriter<Schema>({ database, registry: this.#registry, hints: ports.hints, clock: ports.clock });
  }

  async #underLock(ports: Ports): Promise<void> {
    const { members } = this.#rows;
    const ids = [...new Set([this.#world.pick(members), this.#world.pick(members)])];
    await this.#writer(ports).withLock("members", ids, {}, async (rows, held) => {
      for (const row of rows) {
        await held.update(
          row.id,
          { size: row.size + 1 },
          { insert: { logs: [{ key: this.#world.uuid(), pass: 0, changes: { [row.id]: 1 } }] } },
        );
        await ports.clock.wait(this.#world.pick([10, 5_000, 40_000]));
      }
    });
  }

  async #addMember(ports: Ports, group: string): Promise<void> {
    const id = this.#world.uuid();
    await this.#writer(ports).emit("members", [{ id, group_id: group }]);
    this.#rows.members.push(id);
  }

  async #addThing(ports: Ports): Promise<void> {
    const id = this.#world.uuid();
    await this.#writer(ports).emit("things", [{ id }]);
    this.#rows.things.push(id);
  }

  async #pause(ports: Ports): Promise<void> {
    const operator = createOperator({ ...ports, registry: this.#registry });
    const { name } = this.#world.pick(this.#registry.pipelines);
    await operator.pause(name);
    await ports.clock.wait(8_000);
    await operator.resume(name);
  }

  /** As another service would, that knows nothing of pipelines. */
  async #sql(_: Ports, sql: string, id: string): Promise<void> {
    const process = [...this.#world.processes].findLast((p) => p.kind === "api")!;
    const client = dataApiClient(this.#world, process);
    const parameters = [{ name: "id", value: { stringValue: id }, typeHint: "UUID" }];
    await client.send({ input: { ...TARGET, sql, parameters } } as ExecuteStatementCommand);
  }

  #start(what: string, run: (ports: Ports) => Promise<unknown>): void {
    const process = new Process(this.#world, "api", "old", API_SECONDS);
    this.#world.tell(process.name, what);
    run(this.#functions.portsOf(process)).then(
      () => process.end(),
      (error: unknown) => {
        process.end();
        if (String(error).includes("MR001")) this.#world.countFault("write past a lock, refused");
        // a caller hears that the row is gone or held, or that nobody knows: anything else is ours
        const coded = error instanceof MillraceError || (error as { $metadata?: unknown }).$metadata !== undefined;
        if (!coded) this.#world.violate(`${process.name}, ${what}: ${String(error)}`);
      },
    );
  }
}
