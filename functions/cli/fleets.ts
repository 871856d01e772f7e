import type { Command } from "commander";
import type { FleetJson, InstanceJson, ListJson } from "../api/json.ts";
import { fleetId, query, wholeNumber } from "./arguments.ts";
import { engineFields, fields, nextTry, pageText } from "./format.ts";
import type { Session } from "./session.ts";

interface PageOptions {
  readonly limit?: number;
  readonly cursor?: string;
}

/** `millrace fleets …` */
export function addFleets(program: Command, open: (command: Command) => Session): void {
  const fleets = program.command("fleets").description("fleets of instances, on which jobs run");

  fleets
    .command("create")
    .description("make a fleet; a pipeline then keeps its instances")
    .argument("<name>", "what to call it; no other fleet has that name")
    .requiredOption("--nodes <n>", "how many instances it is to have, from 0", wholeNumber(0))
    .option("--slots <n>", "jobs that an instance runs at once", wholeNumber(1), 1)
    .addHelpText("after", "\nExample:\n  millrace fleets create web --nodes 3 --slots 2")
    .action(async (name: string, { nodes, slots }: { nodes: number; slots: number }, command: Command) => {
      const { client, print } = open(command);
      const fleet = await client.call<FleetJson>("POST", "/fleets", { name, nodes, slots });
      print(fleet, () => `fleet ${fleet.name} (${fleet.id}) is ${fleet.status}\n`);
    });

  paged(fleets.command("list").description("list fleets, newest first")).action(
    async (options: PageOptions, command: Command) => {
      const { client, print } = open(command);
      const list = await client.call<ListJson<FleetJson>>("GET", `/fleets${query(options)}`);
      print(list, (now) =>
        pageText(list, "fleets", ["ID", "NAME", "NODES", "SLOTS", "STATUS", "INSTANCES", "NEXT TRY"], (f) => [
          f.id,
          f.name,
          `${f.nodes}`,
          `${f.slots}`,
          f.status,
          countsText(f),
          nextTry(f, now),
        ]),
      );
    },
  );

  fleets
    .command("show")
    .description("one fleet and how many instances it has")
    .argument("<name-or-id>")
    .action(async (name: string, _options: object, command: Command) => {
      const { client, print } = open(command);
      const fleet = await client.call<FleetJson>("GET", await path(client, name));
      print(fleet, (now) => fleetText(fleet, now));
    });

  fleets
    .command("resize")
    .description("change how many instances it is to have; idle ones go first")
    .argument("<name-or-id>")
    .requiredOption("--nodes <n>", "how many, from 0", wholeNumber(0))
    .addHelpText("after", "\nExample:\n  millrace fleets resize web --nodes 5")
    .action(async (name: string, { nodes }: { nodes: number }, command: Command) => {
      const { client, print } = open(command);
      const fleet = await client.call<FleetJson>("PATCH", await path(client, name), { nodes });
      print(fleet, () => `fleet ${fleet.name} is to have ${fleet.nodes} nodes\n`);
    });

  fleets
    .command("delete")
    .description("stop its jobs, terminate its instances, delete it")
    .argument("<name-or-id>")
    .action(async (name: string, _options: object, command: Command) => {
      const { client, print } = open(command);
      const fleet = await client.call<FleetJson>("DELETE", await path(client, name));
      print(fleet, () => `fleet ${fleet.name} is ${fleet.status}\n`);
    });

  paged(
    fleets.command("instances").description("the instances of a fleet, newest first").argument("<name-or-id>"),
  ).action(async (name: string, options: PageOptions, command: Command) => {
    const { client, print } = open(command);
    const list = await client.call<ListJson<InstanceJson>>(
      "GET",
      `${await path(client, name)}/instances${query(options)}`,
    );
    print(list, (now) =>
      pageText(list, "instances", ["ID", "NUMBER", "STATUS", "BUSY", "MESSAGE", "NEXT TRY"], (i) => [
        i.id,
        `${i.number}`,
        i.status,
        `${i.busy}/${i.slots}`,
        i.statusMessage ?? "-",
        nextTry(i, now),
      ]),
    );
  });
}

const paged = (command: Command) =>
  command
    .option("--limit <n>", "how many at most", wholeNumber(1))
    .option("--cursor <cursor>", "where to go on: what the page before printed last");

const path = async (client: Session["client"], name: string) =>
  `/fleets/${encodeURIComponent(await fleetId(client, name))}`;

const countsText = ({ instances }: FleetJson) =>
  Object.entries(instances)
    .map(([status, count]) => `${count} ${status}`)
    .join(", ") || "-";

function fleetText(fleet: FleetJson, now: Date): string {
  return fields([
    ["id", fleet.id],
    ["name", fleet.name],
    ["nodes", `${fleet.nodes}`],
    ["slots", `${fleet.slots}`],
    ["status", fleet.status],
    ["message", fleet.statusMessage ?? "-"],
    ["instances", countsText(fleet)],
    ...engineFields(fleet, now),
  ]);
}
