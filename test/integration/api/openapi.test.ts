import { expect, test } from "vitest";
import type {
  EventJson,
  FleetJson,
  InstanceJson,
  JobJson,
  ListJson,
  OutputJson,
  PipelineJson,
  ProblemJson,
  VolumeJson,
} from "../../../functions/api/json.ts";
import { OPENAPI } from "../../../functions/api/openapi.ts";
import { useApi } from "./running-api.ts";

const api = useApi();
const schemas: Readonly<Record<string, unknown>> = OPENAPI.components.schemas;

async function call<T>(method: string, path: string, body?: unknown) {
  const content = body === undefined ? {} : { body: JSON.stringify(body) };
  const response = await api().app.request(path, { method, ...content });
  return (await response.json()) as T;
}

interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly format?: string;
}

const typeOf = (value: unknown) =>
  value === null ? "null" : Array.isArray(value) ? "array" : Number.isInteger(value) ? "integer" : typeof value;
const FORMATS: Readonly<Record<string, RegExp>> = {
  uuid: /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/,
  "date-time": /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/,
};

/** Where and how a value is other than its schema says; also every field that the schema does not name. */
function differences(schema: Schema, value: unknown, at: string): readonly string[] {
  if (schema.$ref !== undefined)
    return differences(schemas[schema.$ref.replace("#/components/schemas/", "")] as Schema, value, at);
  const found: string[] = [];
  const type = typeOf(value);
  if (schema.type !== undefined && ![schema.type].flat().includes(type)) found.push(`${at} is ${type}`);
  if (schema.enum !== undefined && !schema.enum.includes(value)) found.push(`${at} is ${String(value)}`);
  if (typeof value === "number" && (value < (schema.minimum ?? value) || value > (schema.maximum ?? value)))
    found.push(`${at} is ${value}`);
  if (typeof value === "string" && value.length < (schema.minLength ?? 0)) found.push(`${at} is too short`);
  if (typeof value === "string" && schema.format !== undefined && FORMATS[schema.format]?.test(value) !== true)
    found.push(`${at} is no ${schema.format}: ${value}`);
  if (type === "array" && schema.items !== undefined)
    for (const [n, item] of (value as unknown[]).entries())
      found.push(...differences(schema.items, item, `${at}[${n}]`));
  if (type === "object") {
    const { properties = {}, required = [] } = schema;
    const row = value as Readonly<Record<string, unknown>>;
    for (const name of required) if (!(name in row)) found.push(`${at}.${name} is missing`);
    for (const [name, field] of Object.entries(row)) {
      const known = properties[name];
      found.push(
        ...(known === undefined
          ? [`${at}.${name} is not in the document`]
          : differences(known, field, `${at}.${name}`)),
      );
    }
  }
  return found;
}
const check = (name: string, value: unknown) => expect(differences({ $ref: name }, value, name)).toEqual([]);

test("the document names the routes that there are, and is served", async () => {
  const { routes } = await call<{ routes: string[] }>("GET", "/");
  const documented = Object.entries(OPENAPI.paths).flatMap(([path, operations]) =>
    Object.keys(operations)
      .filter((method) => method !== "parameters")
      .map((method) => `${method.toUpperCase()} ${path.replaceAll(/\{(\w+)\}/g, ":$1")}`),
  );
  expect(documented.toSorted()).toEqual(routes.toSorted());
  expect(await call("GET", "/openapi.json")).toEqual(JSON.parse(JSON.stringify(OPENAPI)));
});

test("every reference in it leads to a schema", () => {
  const names = [...JSON.stringify(OPENAPI).matchAll(/"#\/components\/schemas\/(\w+)"/g)].map(([, name]) => name ?? "");
  expect(names.length).toBeGreaterThan(10);
  expect(names.filter((name) => !(name in schemas))).toEqual([]);
});

test("the check notices a field too many, one too few and a wrong type", () => {
  const event = { id: "7", at: "2026-11-30T12:00:00.000Z", kind: "none", subjectId: null, more: 1 };
  expect(differences({ $ref: "Event" }, event, "Event")).toEqual([
    "Event.message is missing",
    "Event.id is no uuid: 7",
    "Event.kind is none",
    "Event.subjectId is null",
    "Event.more is not in the document",
  ]);
});

test("what is answered is as the document says: every resource, bare and with all that can be in it", async () => {
  const volume = await call<VolumeJson>("POST", "/volumes", { name: "data", sizeGb: 1 });
  const fleet = await call<FleetJson>("POST", "/fleets", { name: "web", nodes: 2 });
  const [row] = await api().sql("insert into instances (fleet_id, number, slots) values ($1, 1, 1) returning id", [
    fleet.id,
  ]);
  const instance = await call<InstanceJson>("GET", `/instances/${row?.["id"]}`);
  const job = await call<JobJson>("POST", "/jobs", { fleetId: fleet.id, command: ["true"], volumeIds: [volume.id] });
  check("Volume", volume);
  check("Fleet", fleet);
  check("Instance", instance);
  check("Job", job);
  check("Output", await call<OutputJson>("GET", `/jobs/${job.id}/output`));

  const lock = `lock_owner = 'x', lock_token = gen_random_uuid(), lock_expires_at = now() + interval '1 h', due_at = now()`;
  await api().sql(
    `update instances set ${lock}, provider_id = 'i-1', status_message = 'why', status = 'busy', busy = 1`,
  );
  await api().sql(`update fleets set ${lock}, status_message = 'why', to_be_deleted = true`);
  await api().sql(`update volumes set ${lock}`);
  await api().sql(
    `update jobs set ${lock}, status = 'failed', exit_code = 3, status_message = 'why', instance_id = $1, command_id = 'c',
     started_at = now(), finished_at = now(), output = 'end', output_from = 100`,
    [instance.id],
  );
  await api().sql(`insert into millrace.items (item_id, pipeline, state, attempts, last_error)
    select id, p, 'failed', 2, 'no' from (select id, 'volumes' from volumes union select id, 'fleets' from fleets union
      select id, 'instances' from instances union select id, 'jobs-terminating' from jobs) r (id, p)`);
  await call("POST", "/pipelines/volumes/pause", { by: "Ann" });
  for (const [name, path] of [
    ["Volume", "/volumes"],
    ["Fleet", "/fleets"],
    ["Instance", `/fleets/${fleet.id}/instances`],
    ["Job", "/jobs"],
    ["Event", "/events"],
    ["Pipeline", "/pipelines"],
  ] as const) {
    const { items, ...rest } = await call<ListJson<VolumeJson | EventJson | PipelineJson>>("GET", path);
    expect([path, items.length > 0, rest]).toEqual([path, true, { nextCursor: null }]);
    for (const item of items) {
      check(name, item);
      // all that may be in it is in it
      const { properties } = schemas[name] as Required<Schema>;
      expect(Object.keys(item).toSorted()).toEqual(Object.keys(properties).toSorted());
    }
  }
  const output = await call<OutputJson>("GET", `/jobs/${job.id}/output`);
  check("Output", output);
  expect(output.skipped).toBe(100);
});

test("problems are, too, with and without fields", async () => {
  for (const path of ["/nothing", "/volumes?limit=0"]) check("Problem", await call<ProblemJson>("GET", path));
});
