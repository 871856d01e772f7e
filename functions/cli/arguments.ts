import { InvalidArgumentError } from "commander";
import type { FleetJson, ListJson, VolumeJson } from "../api/json.ts";
import type { ApiClient } from "./client.ts";
import { CliError } from "./errors.ts";

/** Parses a whole number from `least` on. */
export const wholeNumber = (least: number) => (text: string) => {
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < least) {
    throw new InvalidArgumentError(`It must be a whole number from ${least}.`);
  }
  return value;
};

/** Every value of an option that may be given several times. */
export const collect = (value: string, before: readonly string[] = []): readonly string[] => [...before, value];

/** The options that are given, as a query with its question mark. */
export function query(options: object): string {
  const given = Object.entries(options)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]): [string, string] => [name, String(value)]);
  return given.length === 0 ? "" : `?${new URLSearchParams(given)}`;
}

const UUID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i;

/** The id of a fleet by its name or id. Errors: NAME_UNKNOWN. */
export async function fleetId(client: ApiClient, nameOrId: string): Promise<string> {
  return UUID.test(nameOrId) ? nameOrId : idOf("fleet", nameOrId, await named<FleetJson>(client, "fleets", nameOrId));
}

/** The id of a volume by its name or id; one that is being deleted gives way. Errors: NAME_UNKNOWN, NAME_AMBIGUOUS. */
export async function volumeId(client: ApiClient, nameOrId: string): Promise<string> {
  if (UUID.test(nameOrId)) return nameOrId;
  const found = await named<VolumeJson>(client, "volumes", nameOrId);
  const staying = found.filter(({ status }) => status !== "deleting");
  return idOf("volume", nameOrId, staying.length === 0 ? found : staying);
}

async function named<T>(client: ApiClient, path: string, name: string): Promise<readonly T[]> {
  return (await client.call<ListJson<T>>("GET", `/${path}${query({ name })}`)).items;
}

function idOf(kind: string, name: string, found: readonly { readonly id: string }[]): string {
  const [first, ...others] = found;
  if (first === undefined) throw new CliError("NAME_UNKNOWN", { kind, name });
  if (others.length > 0)
    throw new CliError("NAME_AMBIGUOUS", { kind, name, ids: found.map(({ id }) => id).join(", ") });
  return first.id;
}
