/* What fuzz requests have made, apart from the load's own things: they may delete these, and all are deleted in the end. */

import { type FleetWant, type JobWant, noWants, type VolumeWant, type Wants } from "../chaos/wants.ts";
import type { LocalStack } from "../support/stack.ts";
import { until } from "../support/until.ts";

export interface Made {
  readonly volumes: VolumeWant[];
  readonly fleets: FleetWant[];
  readonly jobs: JobWant[];
  /** Without instances: nothing that a fuzz job names as its command ever runs. */
  readonly emptyFleet: FleetWant;
  /** With one instance, which may be terminated again and again. */
  readonly smallFleet: FleetWant;
  /** `nextCursor` of lists, the latest. */
  readonly cursors: string[];
}

const MOST_CURSORS = 50;

const want = (name: string, id: string) => ({ name, id, created: "yes", deleted: "no" }) as const;
const fleetWant = (name: string, id: string, nodes: number): FleetWant => ({
  ...want(name, id),
  nodes,
  maybe: [],
  resizing: false,
});

/** Makes what fuzz requests need: the two fleets, and a row of each kind that they may change. */
export async function makeFirst(stack: LocalStack): Promise<Made> {
  const make = async (name: string, nodes: number) => {
    const { body } = await stack.api("POST", "/fleets", { name, nodes });
    return fleetWant(name, body.id, nodes);
  };
  const emptyFleet = await make("fuzz without instances", 0);
  const smallFleet = await make("fuzz with one", 1);
  const made: Made = { volumes: [], fleets: [], jobs: [], cursors: [], emptyFleet, smallFleet };
  const first = {
    volumes: { name: "fuzz", sizeGb: 1 },
    fleets: { name: "fuzz", nodes: 0 },
    jobs: { fleetId: emptyFleet.id, command: ["true"] },
  };
  for (const [kind, body] of Object.entries(first)) {
    const answer = await stack.api("POST", `/${kind}`, body);
    note(made, `POST /${kind}`, JSON.stringify(answer.body));
  }
  await until(async () => (await stack.sql("select 1 from instances where status = 'idle'")).length > 0, {
    what: "an instance to be idle",
    timeoutMs: 60_000,
  });
  return made;
}

/** Notes what an accepted request has made. */
export function note(made: Made, route: string, text: string): void {
  const body = JSON.parse(text);
  if (route === "POST /volumes") made.volumes.push(want(body.name, body.id));
  else if (route === "POST /fleets") made.fleets.push(fleetWant(body.name, body.id, body.nodes));
  else if (route === "POST /jobs")
    made.jobs.push({
      ...want(`fuzz-${body.id}`, body.id),
      fleet: made.emptyFleet,
      volumes: made.volumes.filter(({ id }) => body.volumeIds.includes(id)),
      ending: "done",
      stopped: "unknown",
    });
  else if (typeof body?.nextCursor === "string" && made.cursors.length < MOST_CURSORS)
    made.cursors.push(body.nextCursor);
}

/** Deletes all of it through the API, and answers what must hold of it, and what was refused. */
export async function unmake(stack: LocalStack, made: Made): Promise<{ wants: Wants; refused: string[] }> {
  const fleets = [...made.fleets, made.emptyFleet, made.smallFleet];
  const refused: string[] = [];
  const remove = async (kind: string, one: VolumeWant) => {
    const { status } = await stack.api("DELETE", `/${kind}/${one.id}`);
    // gone already: a fuzz request has deleted it
    if (status !== 202 && status !== 404) refused.push(`DELETE /${kind}/${one.id}: ${status}`);
    one.deleted = "yes";
  };
  for (const one of fleets) await remove("fleets", one);
  for (const one of made.volumes) await remove("volumes", one);
  return { wants: { ...noWants(), volumes: made.volumes, fleets, jobs: made.jobs }, refused };
}
