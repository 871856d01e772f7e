import { failOver } from "./calls.ts";
import type { Functions } from "./functions.ts";
import type { Queue } from "./queues.ts";
import type { Move, World } from "./world.ts";

/** What befalls processes, clocks, queues and the database, beside what befalls single calls. */
export function misfortunes(world: World, functions: Functions, queues: ReadonlyMap<string, Queue>): readonly Move[] {
  const { time } = world;
  const running = [...world.processes];
  const full = [...queues.values()].filter((queue) => queue.messages.length > 0);
  const move = (fault: string, weight: number, run: () => Promise<void> | void): Move => ({
    what: fault,
    fault,
    weight,
    run,
  });
  return [
    ...(running.length === 0
      ? []
      : [
          move("process killed", 5, () => {
            const process = world.pick(running);
            world.tell(process.name, "is killed");
            process.kill();
          }),
          move("process frozen", 4, () => {
            const process = world.pick(running);
            const seconds = world.pick([3, 20, 45, 100]);
            world.tell(process.name, `stands still for ${seconds} s`);
            process.freeze(seconds);
          }),
          move("process's clock jumps", 1, () => {
            world.pick(running).skew += world.pick([-30_000, -500, 700, 20_000]);
          }),
        ]),
    move("database fails over", 1, async () => {
      await failOver(world);
      time.databaseSkew += world.pick([0, -400, 300]);
      world.resumingUntil = time.now + world.pick([0, 2_000, 15_000]);
    }),
    move("database's clock jumps", 0.5, () => {
      time.databaseSkew += world.pick([-900, 1_000, 40_000]);
    }),
    move("heartbeater away", 1, () => {
      functions.heartbeaterAwayUntil = time.now + world.pick([60_000, 150_000]);
      for (const process of running) if (process.kind === "heartbeater") process.kill();
    }),
    ...(full.length === 0
      ? []
      : [
          move("message lost", 1, () => {
            const queue = world.pick(full);
            queue.delete(world.pick(queue.messages));
          }),
          move("message delivered again", 2, () => {
            const queue = world.pick(full);
            world.pick(queue.messages).visibleAt = time.now;
          }),
        ]),
  ];
}

/** Everything works again from here on. */
export function heal(world: World, functions: Functions): void {
  world.calm = true;
  world.resumingUntil = 0;
  functions.heartbeaterAwayUntil = 0;
}
