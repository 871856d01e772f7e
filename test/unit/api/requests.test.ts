import { describe, expect, test } from "vitest";
import type { ApiProblem } from "../../../functions/api/problems.ts";
import { Hint, NewVolume, readBody, readId, readQuery, VolumeQuery } from "../../../functions/api/requests.ts";

const post = (body: string) => new Request("http://api/", { method: "POST", body });
const get = (query: string) => new Request(`http://api/volumes?${query}`);

/** What the call throws, in a shape that can be compared. */
async function problemOf(call: () => unknown) {
  try {
    await call();
  } catch (error) {
    const { code, message, fields } = error as ApiProblem;
    return { code, message, fields };
  }
  throw new Error("it did not throw");
}

describe("the body of a new volume", () => {
  test("is handed on as it is", async () => {
    const volume = { name: "Jörg's data 📦", sizeGb: 10 };
    expect(await readBody(post(JSON.stringify(volume)), NewVolume)).toEqual(volume);
  });

  test.each([
    ['{"sizeGb":1}', "name", "is missing"],
    ['{"name":7,"sizeGb":1}', "name", "must be a text"],
    ['{"name":"  ","sizeGb":1}', "name", "must not be empty"],
    [`{"name":"${"x".repeat(201)}","sizeGb":1}`, "name", "must have at most 200 characters"],
    ['{"name":"a\\u0000b","sizeGb":1}', "name", "must not contain control characters"],
    ['{"name":"a/b","sizeGb":1}', "name", "must be a folder's name: not . or .., and without /"],
    ['{"name":".","sizeGb":1}', "name", "must be a folder's name: not . or .., and without /"],
    ['{"name":"..","sizeGb":1}', "name", "must be a folder's name: not . or .., and without /"],
    [`{"name":"${"ä".repeat(128)}","sizeGb":1}`, "name", "must have at most 255 bytes, as a folder's name"],
    ['{"name":"a"}', "sizeGb", "is missing"],
    ['{"name":"a","sizeGb":"1"}', "sizeGb", "must be a whole number from 1 to 65536"],
    ['{"name":"a","sizeGb":0}', "sizeGb", "must be a whole number from 1 to 65536"],
    ['{"name":"a","sizeGb":1.5}', "sizeGb", "must be a whole number from 1 to 65536"],
    ['{"name":"a","sizeGb":65537}', "sizeGb", "must be a whole number from 1 to 65536"],
    ['{"name":"a","sizeGb":1,"sizeGB":2}', "sizeGB", "is not known here"],
    ["[]", "body", "must be a JSON object"],
    ["null", "body", "must be a JSON object"],
  ])("%s is refused: %s %s", async (body, field, problem) => {
    const { code, message, fields } = await problemOf(() => readBody(post(body), NewVolume));
    expect([code, fields]).toEqual(["BODY_INVALID", [{ field, problem }]]);
    expect(message).toContain(problem);
  });

  test("names every field that is wrong", async () => {
    const { fields } = await problemOf(() => readBody(post("{}"), NewVolume));
    expect(fields.map(({ field }) => field)).toEqual(["name", "sizeGb"]);
  });

  test.each(["", "{", "name=a"])("%j is no JSON", async (body) => {
    expect(await problemOf(() => readBody(post(body), NewVolume))).toMatchObject({ code: "BODY_MALFORMED" });
  });
});

describe("the query of a list", () => {
  test("has defaults, and numbers for text", () => {
    expect(readQuery(get(""), VolumeQuery)).toEqual({ limit: 50 });
    expect(readQuery(get("limit=7&cursor=c&status=active"), VolumeQuery)).toEqual({
      limit: 7,
      cursor: "c",
      status: "active",
    });
  });

  test.each([
    ["limit=0", "limit"],
    ["limit=101", "limit"],
    ["limit=", "limit"],
    ["limit=1e1000", "limit"],
    ["cursor=", "cursor"],
    ["status=gone", "status"],
    ["offset=3", "offset"],
  ])("%s is refused", async (query, field) => {
    const problem = await problemOf(() => readQuery(get(query), VolumeQuery));
    expect(problem).toMatchObject({ code: "QUERY_INVALID", fields: [{ field }] });
  });
});

test("a hint is for a pipeline or for a table, not for both or neither", async () => {
  expect(await readBody(post('{"pipeline":"volumes"}'), Hint)).toEqual({ pipeline: "volumes" });
  expect(await readBody(post('{"table":"volumes"}'), Hint)).toEqual({ table: "volumes" });
  for (const body of ["{}", '{"pipeline":"a","table":"b"}', '{"pipeline":""}']) {
    expect(await problemOf(() => readBody(post(body), Hint))).toMatchObject({ code: "BODY_INVALID" });
  }
});

test("an id is a uuid", async () => {
  expect(readId("6A1F7C1E-8C0E-4A52-9D0F-0F0E6C9A1B2D")).toBe("6a1f7c1e-8c0e-4a52-9d0f-0f0e6c9a1b2d");
  for (const id of ["", "7", "6a1f7c1e8c0e4a529d0f0f0e6c9a1b2d", "6a1f7c1e-8c0e-4a52-9d0f-0f0e6c9a1b2d'"]) {
    expect(await problemOf(() => readId(id))).toMatchObject({ code: "ID_INVALID" });
  }
});
