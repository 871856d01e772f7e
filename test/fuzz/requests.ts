/* Random requests to every operation of the OpenAPI document: each part right, nearly right, or anything. */

import fc from "fast-check";
import { OPENAPI } from "../../functions/api/openapi.ts";
import { type Kind, named } from "./known.ts";
import { anyText, bodyLike } from "./values.ts";

export interface FuzzRequest {
  readonly method: string;
  /** With its query; `«kind»` stands for what there is. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | undefined;
}

export interface FuzzRoute {
  /** As `GET /volumes/{id}`. */
  readonly name: string;
  readonly request: fc.Arbitrary<FuzzRequest>;
}

// biome-ignore lint/suspicious/noExplicitAny: parts of an OpenAPI document
type Schema = any;

/** What an accepted request may be about, where not any row is right. By route and field. */
const OWN: Readonly<Record<string, Kind | number>> = {
  "DELETE /volumes/{id} id": "ownVolume",
  "DELETE /fleets/{id} id": "ownFleet",
  "PATCH /fleets/{id} id": "smallFleet",
  "PATCH /fleets/{id} nodes": 1,
  "POST /fleets nodes": 0,
  "DELETE /fleets/{id}/instances id": "smallFleet",
  "DELETE /fleets/{id}/instances ids": "smallInstance",
  "POST /jobs fleetId": "emptyFleet",
  "POST /jobs volumeIds": "ownVolume",
  "POST /jobs/{id}/stop id": "ownJob",
};
const ANY_ROW = ["volume", "fleet", "instance", "job"] as const;
/** The id of nothing. */
const NOBODY = "0b0c6b2e-3f7a-4a53-9f1c-2a6c4b1d9e01";
/** Pipelines and tables. */
const NAMES = ["volumes", "fleets", "instances", "jobs", "jobs-running", "jobs-submitted", "nope"];
/** Own rows, others of which nothing may come, ids of nothing. */
const idOf = (own: Kind | undefined): fc.Arbitrary<string> =>
  own === undefined
    ? fc.constantFrom(...ANY_ROW.map(named), NOBODY)
    : fc.oneof({ weight: 8, arbitrary: fc.constant(named(own)) }, { weight: 2, arbitrary: fc.uuid() });

/** A value that the schema allows. */
function allowed(schema: Schema, route: string, field: string): fc.Arbitrary<unknown> {
  const own = OWN[`${route} ${field}`];
  if (typeof own === "number") return fc.constant(own);
  if (schema.$ref !== undefined) return allowed(schemaOf(schema.$ref), route, field);
  if (schema.oneOf !== undefined) return fc.oneof(...schema.oneOf.map((one: Schema) => allowed(one, route, field)));
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum);
  if (schema.format === "uuid") return idOf(own);
  switch (schema.type) {
    case "object":
      return fc.record(
        Object.fromEntries(
          Object.entries(schema.properties ?? {}).map(([name, of]) => [name, allowed(of as Schema, route, name)]),
        ),
        { requiredKeys: schema.required ?? [] },
      );
    case "array":
      return fc.array(allowed(schema.items, route, field), { minLength: schema.minItems ?? 0, maxLength: 2 });
    case "integer":
      return fc.integer({ min: schema.minimum ?? 0, max: Math.min(schema.maximum ?? 100_000, 100_000) });
    default:
      if (field === "pipeline" || field === "table" || field === "name in path") return fc.constantFrom(...NAMES);
      if (field === "cursor") return cursorLike;
      return fc
        .tuple(fc.string({ unit: "grapheme", maxLength: 10 }), fc.uuid())
        .map(([text, id]) => `${text.replaceAll(/[/\p{Cc}]/gu, "")} ${id}`);
  }
}

function schemaOf(reference: string): Schema {
  return (OPENAPI.components.schemas as Record<string, Schema>)[reference.split("/").at(-1)!];
}

const cursorLike = fc.oneof(
  fc.constant(named("cursor")),
  fc
    .tuple(
      fc.constantFrom(
        "2026-11-30 12:00:00+00",
        "2026-02-30 00:00:00+00",
        "infinity",
        "0000-01-01 00:00:00+00",
        "294276-12-31 23:59:59+00",
      ),
      fc.oneof(fc.uuid(), anyText),
    )
    .map((parts) => Buffer.from(JSON.stringify(parts)).toString("base64url")),
);

const encoded = (text: string) => encodeURIComponent(text.toWellFormed()).replaceAll(/%C2%AB(\w+)%C2%BB/g, "«$1»");
/** A part of a path or query: encoded as it should be, or not. */
const part = (of: fc.Arbitrary<unknown>): fc.Arbitrary<string> =>
  fc.oneof(
    { weight: 16, arbitrary: of.map((value) => encoded(String(value))) },
    { weight: 3, arbitrary: anyText.map((text) => encoded(text.slice(0, 500))) },
    {
      weight: 1,
      arbitrary: fc.constantFrom("%", "%zz", "%00", "%ff%fe", "%C0%AF", "..", ".", "", ";", "a%2Fb", "«volume»x"),
    },
  );

const HEADERS: readonly Readonly<Record<string, string>>[] = [
  { "content-type": "application/json" },
  { "content-type": "application/json; charset=utf-16" },
  { "content-type": "text/plain" },
  { "content-type": "application/octet-stream" },
  { "content-type": "multipart/form-data; boundary=x" },
  { "content-type": "application/json", "content-encoding": "gzip" },
  { "content-type": "application/json", accept: "text/html;q=x, */*", "accept-encoding": "br" },
  { "content-type": "application/json", "x-http-method-override": "DELETE", "x-forwarded-for": "'; drop" },
  { "content-type": "application/json", cookie: "a=b; __proto__=c; =", host: "evil.example" },
  { "content-type": "application/json", authorization: "AWS4-HMAC-SHA256 Credential=x", "x-amz-date": "never" },
  { "content-type": "é".repeat(100), "if-match": '"x"', range: "bytes=9-1", expect: "nothing" },
];

function queryOf(parameters: readonly Schema[], route: string): fc.Arbitrary<string> {
  const near = parameters.map(({ name, schema }) =>
    fc.option(
      part(allowed(schema, route, name)).map((value) => `${name}=${value}`),
      { freq: 1, nil: undefined },
    ),
  );
  const more = fc.oneof(
    { weight: 12, arbitrary: fc.constant(undefined) },
    {
      weight: 1,
      arbitrary: fc.tuple(anyText, anyText).map(([a, b]) => `${encoded(a.slice(0, 500))}=${encoded(b.slice(0, 500))}`),
    },
    {
      weight: 1,
      arbitrary: fc.constantFrom("&&&", "=", "%", "limit=1&limit=2", "a[]=1", "__proto__[x]=1", "limit", "cursor="),
    },
  );
  return fc.tuple(...near, more).map((given) => {
    const text = given.filter((one) => one !== undefined).join("&");
    return text === "" ? "" : `?${text}`;
  });
}

function pathOf(path: string, parameters: readonly Schema[], route: string): fc.Arbitrary<string> {
  const parts = parameters.map(({ name, schema }) => {
    const field = schema.format === "uuid" ? name : `${name} in path`;
    return part(allowed(schema, route, field)).map((value) => [name, value] as const);
  });
  return fc
    .tuple(...parts)
    .map((given) => given.reduce((text, [name, value]) => text.replace(`{${name}}`, () => value), path));
}

/** A size of a fleet that this machine can bear: numbers are changed by chance, and every instance is a process. */
function bearable(route: string, text: string): string {
  const most = OWN[`${route} nodes`];
  if (typeof most !== "number") return text;
  try {
    const body = JSON.parse(text);
    return Number.isInteger(body?.nodes) && body.nodes > most && body.nodes <= 100
      ? JSON.stringify({ ...body, nodes: most })
      : text;
  } catch {
    return text;
  }
}

/** Every operation of the document. */
export function fuzzRoutes(): readonly FuzzRoute[] {
  return Object.entries(OPENAPI.paths as Record<string, Schema>).flatMap(
    ([path, { parameters: shared = [], ...operations }]) =>
      Object.entries(operations as Record<string, Schema>).map(
        ([verb, { parameters = [], requestBody }]): FuzzRoute => {
          const method = verb.toUpperCase();
          const name = `${method} ${path}`;
          const at = (where: string) => [...shared, ...parameters].filter((one: Schema) => one.in === where);
          const schema = requestBody?.content["application/json"].schema;
          const body =
            schema === undefined ? seldomBody : bodyLike(allowed(schema, name, "")).map((text) => bearable(name, text));
          return {
            name,
            request: fc
              .tuple(
                pathOf(path, at("path"), name),
                queryOf(at("query"), name),
                fc.oneof(
                  { weight: 8, arbitrary: fc.constant(HEADERS[0]!) },
                  { weight: 2, arbitrary: fc.constantFrom(...HEADERS) },
                ),
                body,
              )
              .map(([where, query, headers, text]) => ({ method, path: where + query, headers, body: text })),
          };
        },
      ),
  );
}

const seldomBody = fc.oneof({ weight: 9, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: anyText });

/** Paths and methods that the document does not have; and what reads, but nothing that changes a thing of the load. */
export const strangeRoute: FuzzRoute = {
  name: "(no route)",
  request: fc
    .tuple(
      fc.constantFrom("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "REPORT"),
      fc.oneof(
        fc.constantFrom(
          "//",
          "/volumes/",
          "/volumes//x",
          "/%2e%2e/volumes",
          "/Volumes",
          "/volumes/«volume»/x",
          "/instances/«instance»",
          "/hints/x",
          "/.git",
        ),
        anyText.map((text) => `/${encoded(text.slice(0, 1_000))}`),
      ),
      fc.constantFrom(...HEADERS),
      seldomBody,
    )
    .map(([method, path, headers, body]) => ({ method, path, headers, body })),
};
