import { heartbeatOnce } from "../../lib/engine/heartbeat.ts";
import { type Database, fetchPipeline, type Item, MillraceError, type Registry } from "../../lib/index.ts";
import { type DrivenClock, drivenClock, settled } from "./driven-clock.ts";
import { requestRows } from "./endings.ts";
import type { TestEngine } from "./engine.ts";
import { passes } from "./passes.ts";
import { messagesOf, testPorts, work } from "./ports.ts";
import { until } from "./until.ts";
import { sweepRows } from "./upkeep.ts";

/** One thing that happens. `pick` chooses among what is there. */
export type Step =
  | { readonly do: "fetch"; readonly send: "accepted" | "refused" | "lost" }
  | { readonly do: "deliver"; readonly pick: number; readonly count: number; readonly again: boolean }
  | { readonly do: "finish"; readonly pick: number; readonly how: How; readonly answer: "heard" | "lost" | "not run" }
  | { readonly do: "crash"; readonly pick: number }
  | { readonly do: "renew"; readonly pick: number }
  | { readonly do: "expire"; readonly pick: number }
  | { readonly do: "time"; readonly seconds: number }
  | { readonly do: "request"; readonly pick: number }
  | { readonly do: "heartbeat" }
  | { readonly do: "sweep"; readonly scan: boolean };
export type How = "apply" | "throw" | "retry";

/** A pass that stands still in `process` until a step lets it go on. */
interface Standing {
  readonly pass: number;
  readonly worker: Worker;
  readonly go: (how: How) => void;
}

interface Worker {
  readonly clock: DrivenClock;
  /** Statements that are under way. */
  calls: number;
}

export interface World {
  /** Does one step, and whatever follows from it by itself. */
  step(step: Step): Promise<void>;
  /** @throws when a row was written by two holders at once */
  check(): Promise<void>;
  /** Without faults from now on, until everything is at rest. @throws when it does not come to rest, or forgot a request */
  rest(): Promise<void>;
}

const PERIOD_SECONDS = 60;

/** A few rows with everything that moves them. A pass adds 1 to the row's size, and leaves its number in `logs`. */
export async function world(engine: TestEngine, rows: number): Promise<World> {
  await engine.clear();
  const ids = await Promise.all(Array.from({ length: rows }, (_, n) => engine.thing({ name: `row ${n}` })));
  const requested = new Map(ids.map((id) => [id, 0]));
  const begun: number[] = [];
  const accepted = new Map<string, { pass: number; at: number }[]>(ids.map((id) => [id, []]));
  const box: Item[] = [];
  let standing: Standing[] = [];
  let now = 0;
  let lastLog = 0;
  let applies: "heard" | "lost" | "not run" = "heard";
  let sends: "accepted" | "refused" | "lost" = "accepted";

  /** Passes of one worker stand still at a gate, with the numbers of their rows. */
  const registryOf = (worker: Worker): Registry<unknown> =>
    passes(
      {
        provision: {
          async process({ row, apply, retry }) {
            const pass = begun.push(now) - 1;
            const how = await new Promise<How>((go) => standing.push({ pass, worker, go }));
            if (how === "throw") throw new Error("boom");
            if (how === "retry") return retry("busy");
            const logs = [{ thing_id: row.id, message: String(pass) }];
            return apply({ set: { size: row.size + 1 }, insert: { logs }, due: null });
          },
        },
      },
      { maxAttempts: 1_000_000, backoff: { firstSeconds: 1, maxSeconds: 20 } },
    );

  function newWorker() {
    const worker: Worker = { clock: drivenClock(), calls: 0 };
    const run = async (...[statement, options]: Parameters<Database["run"]>) => {
      worker.calls += 1;
      try {
        const unanswered = new MillraceError("DATABASE_UNANSWERED", { statement: statement.name });
        const applying = statement.name.startsWith("apply");
        if (applying && applies === "not run") throw unanswered;
        const answered = await engine.api.run(statement, options);
        if (applying && applies === "lost") throw unanswered;
        return answered;
      } finally {
        worker.calls -= 1;
      }
    };
    const ports = testPorts(engine, {
      clock: worker.clock,
      database: { run } as Database,
      items: {
        send: async (items) => {
          if (sends === "accepted") box.push(...items);
          return items.map(() => (sends === "refused" ? "refused" : "accepted"));
        },
      },
    });
    return { worker, ports, registry: registryOf(worker) };
  }

  /** Resolves when a worker stands still: no statement is under way, and none follows by itself. */
  async function still(worker: Worker): Promise<void> {
    for (;;) {
      await settled();
      if (worker.calls > 0) await until(() => worker.calls === 0, { what: "an answer", everyMs: 1 });
      else if ((worker.clock.waits()[0] ?? Number.POSITIVE_INFINITY) <= 15) await worker.clock.advance(15);
      else return;
    }
  }

  const at = <T>(list: readonly T[], pick: number): T | undefined => list[pick % Math.max(1, list.length)];

  async function finish(one: Standing | undefined, how: How): Promise<void> {
    if (one === undefined) return;
    standing = standing.filter((s) => s !== one);
    one.go(how);
    await still(one.worker);
  }

  async function deliver(items: readonly Item[]): Promise<void> {
    const { worker, ports, registry } = newWorker();
    void work(registry, messagesOf(items), ports);
    await still(worker);
  }

  /** Lets time go by: whatever lies ahead comes nearer. A held row's `due_at` stays, or it would look requested. */
  const pass = (seconds: number) =>
    engine.query(`with by as (select make_interval(secs => ${seconds}) as s),
      t as (update things set lock_expires_at = lock_expires_at - s, due_at = case when due_at > now() then due_at - s else due_at end from by returning 1),
      u as (update millrace.upkeep set done_at = done_at - s from by returning 1),
      w as (update millrace.wakeups set wake_at = wake_at - s from by returning 1)
      update millrace.items set alive_until = alive_until - s, queued_at = queued_at - s, claimed_at = claimed_at - s,
        locked_at = locked_at - s, finished_at = finished_at - s from by`);

  async function act(step: Step): Promise<unknown> {
    if (step.do === "fetch") {
      sends = step.send;
      const { ports, registry } = newWorker();
      return fetchPipeline(registry, "things", ports);
    }
    if (step.do === "deliver") {
      const some = Array.from({ length: step.count }, (_, n) => at(box, step.pick + n)).filter((i) => i !== undefined);
      if (!step.again) for (const item of some) if (box.includes(item)) box.splice(box.indexOf(item), 1);
      return deliver(some);
    }
    if (step.do === "finish") {
      applies = step.answer;
      return finish(at(standing, step.pick), step.how);
    }
    const chosen = "pick" in step ? at(standing, step.pick) : undefined;
    if (step.do === "crash") {
      // the process dies with all its passes
      standing = standing.filter((s) => s.worker !== chosen?.worker);
      return;
    }
    if (step.do === "renew") {
      await chosen?.worker.clock.advance(6_667);
      return chosen && still(chosen.worker);
    }
    if (step.do === "time") return pass(step.seconds);
    if (step.do === "heartbeat") {
      const { ports, registry } = newWorker();
      return heartbeatOnce(registry, ports);
    }
    if (step.do === "sweep") return sweepRows(engine, { scan: step.scan });
    const id = at(ids, step.pick)!;
    if (step.do === "expire") {
      await engine.query("update millrace.items set alive_until = now() - interval '1 s' where item_id = $1", [id]);
      return engine.query(
        "update things set lock_expires_at = now() - interval '1 s' where lock_token is not null and id = $1",
        [id],
      );
    }
    requested.set(id, now);
    return requestRows(engine, [id]);
  }

  async function check(): Promise<void> {
    const logs = await engine.query<{ id: string; thing_id: string; message: string }>(
      "select id, thing_id, message from logs where id > $1 order by id",
      [lastLog],
    );
    for (const { id, thing_id, message } of logs) {
      lastLog = Number(id);
      const before = accepted.get(thing_id)!;
      const pass = Number(message);
      const last = before.at(-1);
      if (last !== undefined && begun[pass]! <= last.at)
        throw new Error(
          `step ${now}: pass ${pass}, begun at ${begun[pass]}, was accepted after pass ${last.pass} was at ${last.at}`,
        );
      before.push({ pass, at: now });
    }
    const sizes = await engine.query<{ id: string; size: number }>("select id, size from things");
    for (const { id, size } of sizes)
      if (size - 1 !== accepted.get(id)!.length) throw new Error(`step ${now}: a write was lost or done twice`);
  }

  async function step(one: Step): Promise<void> {
    now += 1;
    applies = "heard";
    sends = "accepted";
    await act(one);
    await check();
  }

  const unrest = () =>
    engine.query(
      `select t.name, t.lock_token, t.lock_owner, t.due_at, i.state, i.finished_at from things t left join millrace.items i on i.item_id = t.id
       where t.due_at is not null or t.lock_token is not null or t.lock_owner is not null or t.lock_expires_at is not null or i.finished_at is null`,
    );

  return {
    step,
    check,
    async rest() {
      for (let round = 0; (await unrest()).length > 0; round++) {
        if (round === 10) throw new Error(`no rest after ${round} periods: ${JSON.stringify(await unrest())}`);
        await step({ do: "time", seconds: PERIOD_SECONDS });
        await step({ do: "heartbeat" });
        await step({ do: "fetch", send: "accepted" });
        while (box.length > 0) await step({ do: "deliver", pick: 0, count: 10, again: false });
        // what stood still all the time goes on now, too late or not
        while (standing.length > 0) await step({ do: "finish", pick: 0, how: "apply", answer: "heard" });
      }
      for (const [id, when] of requested)
        if (!accepted.get(id)!.some((a) => begun[a.pass]! > when))
          throw new Error(`what was asked of ${id} was forgotten`);
    },
  };
}
