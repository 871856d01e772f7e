import type { ServerAddress } from "../support/test-server.ts";
import { listedChoices, seededChoices } from "./choices.ts";
import { Subject } from "./environment.ts";
import type { Made, Wanted } from "./messages.ts";
import { simulate } from "./simulation.ts";

/*
 * A process that makes runs for its parent, one after the other: ids are made by a process-wide function, so two runs
 * in one process would disturb each other. Ends with its parent.
 */

async function make(subject: Subject, { seed, choices, tell }: Wanted): Promise<Made> {
  const { faults, story, ...outcome } = await simulate(
    subject,
    choices === undefined ? seededChoices(seed) : listedChoices(choices),
    seed,
  );
  return { ...outcome, seed, faults: [...faults], story: tell || outcome.violations.length > 0 ? story : [] };
}

const server = JSON.parse(process.argv[2]!) as ServerAddress;
const subject = await Subject.create(server);
process.on("message", (wanted: Wanted) => {
  void make(subject, wanted).then((made) => process.send!(made));
});
process.on("disconnect", () => void subject[Symbol.asyncDispose]().finally(() => process.exit()));
process.on("SIGINT", () => undefined);
process.send!("ready");
