import { describe, expect, test } from "vitest";
import { itemBody, parseItem } from "../../../lib/index.ts";

const ID = "0b0c6b2e-3f7a-4a53-9f1c-2a6c4b1d9e01";
const TOKEN = "7d9f1c7e-54f2-4c43-8a0e-6f3b2a1c0d02";
const good = { v: 1, pipeline: "volumes", id: ID, token: TOKEN };
const refusal = (reason: string) =>
  expect.objectContaining({ code: "ITEM_MALFORMED", message: `this is no item message: ${reason}` });

describe("an item message", () => {
  test("says what it is about and nothing else", () => {
    const item = { pipeline: "volumes", id: ID, token: TOKEN, row: "secret" };
    expect(itemBody(item)).toBe(`{"v":1,"pipeline":"volumes","id":"${ID}","token":"${TOKEN}"}`);
    expect(parseItem(itemBody(item))).toEqual({ pipeline: "volumes", id: ID, token: TOKEN });
  });

  test("may say more than we know, and write its uuids large", () => {
    const body = JSON.stringify({ ...good, id: ID.toUpperCase(), token: TOKEN.toUpperCase(), since: "v2" });
    expect(parseItem(body)).toEqual({ pipeline: "volumes", id: ID, token: TOKEN });
  });

  test.each<[string, string, string]>([
    ["no JSON", "volumes", "the body is no JSON"],
    ["an empty body", "", "the body is no JSON"],
    ["null", "null", "the body is no JSON object"],
    ["a string", '"volumes"', "the body is no JSON object"],
    ["a list", "[1]", "the body is no JSON object"],
    ["no version", JSON.stringify({ ...good, v: undefined }), "v is not 1"],
    ["another version", JSON.stringify({ ...good, v: 2 }), "v is not 1"],
    ["a version that is text", JSON.stringify({ ...good, v: "1" }), "v is not 1"],
    ["a version that cannot be text", '{"v":{"toString":1,"valueOf":1}}', "v is not 1"],
    ["a version too deep to be text", `{"v":${"[".repeat(100_000)}${"]".repeat(100_000)}}`, "v is not 1"],
    ["no pipeline", JSON.stringify({ ...good, pipeline: undefined }), "pipeline is no name of one"],
    [
      "a pipeline as long as a message",
      JSON.stringify({ ...good, pipeline: "x".repeat(1_000_000) }),
      "pipeline is no name of one",
    ],
    ["an id that is no uuid", JSON.stringify({ ...good, id: `${ID}0` }), "id is no uuid"],
    ["an id that only contains one", JSON.stringify({ ...good, id: `x${ID}` }), "id is no uuid"],
    ["an id that is a number", JSON.stringify({ ...good, id: 7 }), "id is no uuid"],
    ["no token", JSON.stringify({ ...good, token: undefined }), "token is no uuid"],
    ["a token that is no uuid", JSON.stringify({ ...good, token: "'; drop" }), "token is no uuid"],
  ])("is refused with %s", (_, body, reason) => {
    expect(() => parseItem(body)).toThrow(refusal(reason));
  });
});
