import type { Command } from "commander";
import type { ListJson, VolumeJson } from "../api/json.ts";
import { query, wholeNumber } from "./arguments.ts";
import { engineFields, fields, nextTry, table } from "./format.ts";
import type { Session } from "./session.ts";

/** `millrace volumes …` */
export function addVolumes(program: Command, open: (command: Command) => Session): void {
  const volumes = program.command("volumes").description("the volumes of the reference application");

  volumes
    .command("create")
    .description("submit a volume; a pipeline then creates it at the cloud")
    .argument("<name>", "what to call it")
    .requiredOption("--size <gb>", "its size in GB, a whole number from 1", wholeNumber(1))
    .action(async (name: string, options: { size: number }, command: Command) => {
      const { client, print } = open(command);
      const volume = await client.call<VolumeJson>("POST", "/volumes", { name, sizeGb: options.size });
      print(volume, () => `volume ${volume.id} is ${volume.status}\n`);
    });

  volumes
    .command("list")
    .description("list volumes, newest first")
    .option("--limit <n>", "how many at most", wholeNumber(1))
    .option("--cursor <cursor>", "where to go on: what the page before printed last")
    .option("--status <status>", "only those: submitted, active, failed or deleting")
    .option("--name <name>", "only those of this name")
    .action(async (options: ListOptions, command: Command) => {
      const { client, print } = open(command);
      const list = await client.call<ListJson<VolumeJson>>("GET", `/volumes${query(options)}`);
      print(list, (now) => listText(list, now));
    });

  volumes
    .command("show")
    .description("one volume: status, attempts, last error, next try and lock")
    .argument("<id>")
    .action(async (id: string, _options: object, command: Command) => {
      const { client, print } = open(command);
      const volume = await client.call<VolumeJson>("GET", `/volumes/${encodeURIComponent(id)}`);
      print(volume, (now) => volumeText(volume, now));
    });

  volumes
    .command("delete")
    .description("ask for a volume to be deleted; works while it is held, too")
    .argument("<id>")
    .action(async (id: string, _options: object, command: Command) => {
      const { client, print } = open(command);
      const volume = await client.call<VolumeJson>("DELETE", `/volumes/${encodeURIComponent(id)}`);
      print(volume, () => `volume ${volume.id} is ${volume.status}\n`);
    });
}

interface ListOptions {
  readonly limit?: number;
  readonly cursor?: string;
  readonly status?: string;
  readonly name?: string;
}

function listText({ items, nextCursor }: ListJson<VolumeJson>, now: Date): string {
  if (items.length === 0) return "no volumes\n";
  const rows = items.map((v) => [v.id, v.name, `${v.sizeGb} GB`, v.status, `${v.attempts}`, nextTry(v, now)]);
  const text = table(["ID", "NAME", "SIZE", "STATUS", "ATTEMPTS", "NEXT TRY"], rows);
  return nextCursor === null ? text : `${text}more: --cursor ${nextCursor}\n`;
}

function volumeText(volume: VolumeJson, now: Date): string {
  return fields([
    ["id", volume.id],
    ["name", volume.name],
    ["size", `${volume.sizeGb} GB`],
    ["status", volume.status],
    ...engineFields(volume, now),
  ]);
}
