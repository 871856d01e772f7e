import { createWriter, MillraceError, NOW, type Writer } from "../../lib/index.ts";
import type { StressSchema } from "./pipelines.ts";
import type { Actor, World } from "./world.ts";

/** How an API may be refused. */
const REFUSALS = ["ROW_LOCKED", "NO_SUCH_ROW", "LOCK_LOST"];
const LOCK = { waitSeconds: 0.3, lockSeconds: 1 };
const MOST_ROWS = 3;

const writers = new WeakMap<World, Writer<StressSchema>>();

function writerOn(world: World): Writer<StressSchema> {
  const known = writers.get(world);
  if (known !== undefined) return known;
  const { api, registry } = world.engine;
  const writer = createWriter<StressSchema>({
    database: api as never,
    registry,
    hints: { send: async () => undefined },
  });
  writers.set(world, writer);
  return writer;
}

/** An API of the application writes one row, holds some, or asks for one. */
export async function writeAsApi(actor: Actor): Promise<void> {
  const { world, random } = actor;
  const table = random.pick(["members", "parts", "things"] as const);
  const what = random.pick(["update", "with lock", "with lock", "request"] as const);
  world.tally.add("statements");
  try {
    if (what === "with lock") await countUnderLock(actor, table);
    else await writeOne(actor, table, what);
    world.tally.add(`writer ${what}`);
  } catch (error) {
    if (error instanceof MillraceError && REFUSALS.includes(error.code)) world.tally.add(`writer ${error.code}`);
    else world.errors.push(`writer ${what} of ${table}: ${(error as Error).message}`);
  }
}

type Written = "members" | "parts" | "things";

async function writeOne({ world, random }: Actor, table: Written, what: "update" | "request"): Promise<void> {
  const id = random.pick(world.ids[table]);
  const writer = writerOn(world);
  const insert = { logs: [{ thing_id: id, message: crypto.randomUUID(), level: "writer", at: NOW }] } as const;
  const sentAt = performance.now();
  if (what === "request") await writer.request(table, id, {} as never, { insert });
  else await writer.update(table, id, { note: "written by an API" }, { waitSeconds: LOCK.waitSeconds, insert });
  // the item of the first pipeline of the table remembers the writer's token as one that has finished
  const [first] = world.engine.registry
    .of(table)
    .map((p) => p.name)
    .sort();
  const answeredAt = performance.now();
  const sending = { kind: "release", sentAt, answeredAt, result: "none", unanswered: true } as const;
  world.ledger.sent(first!, id, crypto.randomUUID(), sending);
}

async function countUnderLock({ world, random }: Actor, table: Written): Promise<void> {
  const ids = random.some(world.ids[table], 1 + random.below(MOST_ROWS));
  const tokens = new Map(ids.map((id) => [id, crypto.randomUUID()]));
  const sentAt = performance.now();
  try {
    await writerOn(world).withLock(table, ids, LOCK, async (rows, held) => {
      world.ledger.locked(
        rows.map(({ id, lock_expires_at }) => {
          const until = lock_expires_at!.getTime();
          return { id, item: id, token: tokens.get(id)!, at: Date.now(), until };
        }),
      );
      for (const { id, busy } of rows) {
        if (random.percent(30)) continue;
        const by = random.pick([-1, 1]);
        const line = {
          thing_id: id,
          message: crypto.randomUUID(),
          level: "writer",
          at: NOW,
          changes: { [id]: by },
        } as const;
        await held.update(id, { busy: busy + by }, { insert: { logs: [line] } });
      }
    });
  } finally {
    const answeredAt = performance.now();
    for (const [id, token] of tokens)
      world.ledger.sent("writer", id, token, {
        kind: "release",
        sentAt,
        answeredAt,
        result: "ended",
        unanswered: true,
      });
  }
}
