import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import { pipelines } from "../../../functions/pipelines/index.ts";
import type { Database } from "../../../functions/pipelines/schema.ts";
import { createWriter } from "../../../lib/index.ts";
import { fetchSql } from "../../../lib/sql/fetch.ts";
import { scopeOf } from "../../../lib/sql/parts.ts";
import { type Random, seededRandom } from "../../stress/random.ts";
import { testPorts } from "../../support/ports.ts";
import { useWorld } from "./world.ts";

/*
 * Everything at once, in many interleavings: a fleet of four that is to be two, two jobs that end on one instance, an
 * instance whose worker has died, one that somebody terminates through the API, and a fetcher that was killed after its
 * lock was committed.
 */

const INTERLEAVINGS = 50;
/** A round is a pass over everything that is due: an interval. Expired locks are taken over after the first. */
const MOST_ROUNDS = 12;

const the = useWorld();
const sql = (text: string, values: readonly unknown[] = []) => the().sql(text, values);

/** All pipelines, some of them twice: in any order, up to five at once, begun at any moment. */
async function round(random: Random): Promise<void> {
  const names = pipelines.pipelines.flatMap(({ name }) => (random.percent(40) ? [name, name] : [name]));
  const order = random.some(names, names.length);
  while (order.length > 0)
    await Promise.all(
      order.splice(0, 1 + random.below(5)).map(async (name) => {
        for (let n = random.below(20); n > 0; n--) await setImmediate();
        await the().pass(name);
      }),
    );
}

async function disturb(fleet: string): Promise<{ jobs: string[]; left: string }> {
  const [first, second, third] = (await the().instances(fleet)).map((i) => i["id"] as string);
  const jobs: string[] = [];
  for (let n = 0; n < 2; n++) {
    const job = await the().job(fleet);
    jobs.push(job);
    await sql("update jobs set status = 'terminating', exit_code = 0, instance_id = $2 where id = $1", [job, first]);
  }
  await sql("update instances set busy = 2, status = 'busy' where id = $1", [first]);
  // a worker died over the second
  const token = crypto.randomUUID();
  await sql(
    "update instances set lock_token = $2, lock_owner = 'instances', lock_expires_at = now() - interval '1 s', due_at = now() where id = $1",
    [second, token],
  );
  await sql(
    "update millrace.items set state = 'processing', lock_token = $2, finished_at = null, attempts = 1, alive_until = now() - interval '1 s' where item_id = $1",
    [second, token],
  );
  await sql("update fleets set nodes = 2, due_at = now()");
  return { jobs, left: third! };
}

/** Locks rows as a fetcher does, and sends nothing. */
async function killedFetcher(pipeline: string): Promise<void> {
  const scope = scopeOf(pipelines, pipelines.get(pipeline));
  await the().api.run(fetchSql(scope, { token: crypto.randomUUID(), accepted: [], scheduled: false }));
}

const held = () =>
  sql(
    `${pipelines.lockedTables.map((t) => `select id, lock_owner from ${t} where lock_token is not null or lock_owner is not null or lock_expires_at is not null`).join(" union all ")}
     union all select item_id, state from millrace.items where finished_at is null or related is not null`,
  );

test(`${INTERLEAVINGS} interleavings of a contended fleet converge, with no lock left and the counters right`, {
  timeout: 300_000,
}, async () => {
  for (let seed = 1; seed <= INTERLEAVINGS; seed++) {
    const random = seededRandom(seed);
    await sql("truncate attachments, jobs, instances, fleets, volumes, events, millrace.items cascade");
    const fleet = await the().fleet(4, 2);
    await the().until(
      "four idle instances",
      async () =>
        (await the().instances(fleet)).every(({ status }) => status === "idle") &&
        (await the().instances(fleet)).length === 4,
    );
    const { jobs, left } = await disturb(fleet);
    if (random.percent(50)) await killedFetcher(random.pick(["fleets", "instances", "jobs-terminating"]));
    const writer = createWriter<Database>({
      database: the().api,
      registry: pipelines,
      hints: testPorts({ api: the().api }).hints,
    });
    const terminating = writer
      .update("instances", left, { status: "terminating" }, { waitSeconds: 10 })
      .catch((error: unknown) => error);
    const done = async () =>
      (await held()).length === 0 &&
      (await the().instances(fleet)).length === 2 &&
      (await sql("select 1 from jobs where status <> 'done'")).length === 0;
    let rounds = 0;
    while (rounds === 0 || !(await done())) {
      expect(rounds, `seed ${seed}: ${JSON.stringify([await held(), await the().instances(fleet)])}`).toBeLessThan(
        MOST_ROUNDS,
      );
      await round(random);
      rounds += 1;
      // an interval has passed, and the lock timeout of whoever was killed
      for (const table of pipelines.lockedTables) {
        await sql(`update ${table} set lock_expires_at = now() - interval '1 s' where lock_token is not null`);
        await sql(`update ${table} set due_at = now() where due_at is not null and lock_token is null`);
      }
    }
    const written = await terminating;
    if (written instanceof Error)
      expect(written).toMatchObject({ code: expect.stringMatching(/ROW_LOCKED|NO_SUCH_ROW/) });
    for (const job of jobs) expect(await the().row("jobs", job)).toMatchObject({ status: "done" });
    expect(await the().instances(fleet)).toMatchObject([
      { status: "idle", busy: 0 },
      { status: "idle", busy: 0 },
    ]);
    // at the cloud, too: two of each interleaving
    expect(the().cloud.instances.size).toBe(2 * seed);
  }
});
