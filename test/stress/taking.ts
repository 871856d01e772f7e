import { claimSql } from "../../lib/sql/claim.ts";
import { enqueueSql } from "../../lib/sql/enqueue.ts";
import { fetchSql } from "../../lib/sql/fetch.ts";
import { heartbeatSql } from "../../lib/sql/heartbeat.ts";
import { scopeOf } from "../../lib/sql/parts.ts";
import { renewSql } from "../../lib/sql/renew.ts";
import { type Actor, anyPipeline, type Held, type Message, remember, send, take } from "./world.ts";

const BATCH = 5;

/** One fetch and its messages: some are refused, some arrive twice, some although they were refused. */
export async function fetchAndSend(actor: Actor): Promise<void> {
  const { world, random } = actor;
  const p = anyPipeline(actor);
  const token = crypto.randomUUID();
  const accepted = world.marks.get(p.name)!.splice(0);
  const scheduled = random.percent(30);
  const answers = await send(actor, () =>
    fetchSql(scopeOf(world.engine.registry, p), { token, accepted: random.some(accepted, accepted.length), scheduled }),
  );
  const ids = new Set<string>();
  for (const { rows } of answers) {
    for (const row of rows) {
      world.tally.add(`fetch ${row.why}`);
      world.tally.add("fetch of expired locks", row.expired);
      world.tally.add("fetch found workers lost", (JSON.parse(row.lost) as unknown[]).length);
      for (const id of JSON.parse(row.ids) as string[]) ids.add(id);
    }
  }
  const messages = [...ids].map((id) => ({ id, token }));
  const refused = messages.filter(() => random.percent(15));
  const arriving = messages.filter((m) => !refused.includes(m) || random.percent(30));
  remember(world.queues.get(p.name)!, ...arriving, ...arriving.filter(() => random.percent(20)));
  await mark(
    actor,
    p.name,
    messages.filter((m) => !refused.includes(m)),
    refused,
  );
}

/** Marks what was sent: by a statement, or by the next fetch; or the fetcher dies before. */
async function mark(actor: Actor, name: string, accepted: Message[], refused: Message[]): Promise<void> {
  const { world, random } = actor;
  if (accepted.length + refused.length === 0 || random.percent(10)) return;
  if (random.percent(40) && refused.length === 0) {
    world.marks.get(name)!.push(...accepted);
    return;
  }
  const p = world.engine.registry.get(name);
  const answers = await send(actor, () =>
    enqueueSql(p, random.some(accepted, accepted.length), random.some(refused, refused.length), 1),
  );
  for (const { rows } of answers) {
    world.tally.add("enqueue queued", rows[0]?.queued);
    world.tally.add("enqueue freed", rows[0]?.freed);
  }
}

/** One batch of messages: new, delivered twice (in one batch too), and stale ones. */
export async function claim(actor: Actor): Promise<void> {
  const { world, random } = actor;
  const p = anyPipeline(actor);
  const queue = world.queues.get(p.name)!;
  const messages = take(actor, queue, BATCH, 70);
  if (messages.length === 0) return;
  const twice = messages.filter(() => random.percent(15));
  const keys = [...messages, ...twice].map((m) => ({ ...m, next: crypto.randomUUID() }));
  const mode = { alone: random.percent(50), skipLocked: random.percent(40) };
  const answers = await send(actor, () =>
    claimSql(p, random.some(keys, keys.length), `${actor.sender.way} worker`, mode),
  );
  const ours = new Map<string, Held>();
  for (const { rows } of answers) {
    for (const row of rows) {
      const { millrace_id: id, millrace_token: token, millrace_result: result } = row;
      world.tally.add(`claim ${result}`);
      const message = keys.find((k) => k.next === token)!;
      const again = result === "alone" || (result === "stale" && mode.skipLocked && random.percent(40));
      if (again) remember(queue, { id: message.id, token: message.token });
      if (result !== "ours") continue;
      const at = new Date(row.millrace_now).getTime();
      world.ledger.claimed({ pipeline: p.name, id, token, message: message.token, at });
      ours.set(token, { id, token, seen: row.millrace_seen_due, state: row.millrace_state });
    }
  }
  remember(world.held.get(p.name)!, ...ours.values());
}

export async function renew(actor: Actor): Promise<void> {
  const { world, random } = actor;
  const p = anyPipeline(actor);
  const held = take(actor, world.held.get(p.name)!, BATCH, 0);
  if (held.length === 0) return;
  const keys = held.map(({ id, token }) => ({ id, token, left: random.pick([0.2, 30]) }));
  for (const { id, left } of keys) if (left < 1) world.ledger.loosened(id);
  const answers = await send(actor, () => renewSql(p, random.some(keys, keys.length)));
  for (const { rows } of answers) for (const row of rows) world.tally.add(row.renewed ? "renew kept" : "renew lost");
}

export async function heartbeat(actor: Actor): Promise<void> {
  const { world } = actor;
  for (const { rows } of await send(actor, () => heartbeatSql(world.engine.registry))) {
    for (const row of rows) {
      world.tally.add("heartbeat extended", row.extended);
      const again = JSON.parse(row.resend) as Message[];
      world.tally.add("heartbeat sent again", again.length);
      remember(world.queues.get(row.pipeline)!, ...again);
    }
  }
}
