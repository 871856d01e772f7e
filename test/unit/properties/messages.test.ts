import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { hintBody, parseHint } from "../../../lib/engine/hint.ts";
import { itemBody, parseItem } from "../../../lib/index.ts";
import { hintLike, itemLike } from "../../fuzz/messages.ts";
import { codeOr, holds } from "../../support/property.ts";

const name = fc.stringMatching(/^[a-z][a-z0-9-]{0,62}$/);
const time = fc.date({ noInvalidDate: true }).map((at) => at.toISOString());

describe("any body is a message, or refused with a code and with little of it in the error", () => {
  test.each([
    ["an item's", itemLike, parseItem, "ITEM_MALFORMED"],
    ["a hint's", hintLike, parseHint, "HINT_MALFORMED"],
  ] as const)("%s", (_, bodies, parse, code) => {
    holds(
      fc.property(bodies, (body) => {
        const got = codeOr(() => parse(body) as object);
        if ("value" in got) expect(got.value).toBeTypeOf("object");
        else {
          expect(got.code).toBe(code);
          expect(got.message.length).toBeLessThan(200);
        }
      }),
      3_000,
    );
  });
});

test("an item comes back as it went out", () => {
  holds(
    fc.property(name, fc.uuid(), fc.uuid(), (pipeline, id, token) => {
      expect(parseItem(itemBody({ pipeline, id, token }))).toEqual({ pipeline, id, token });
    }),
  );
});

test("a hint comes back as it went out", () => {
  const table = fc.string({ unit: "grapheme", minLength: 1, maxLength: 15 }).filter((t) => !/\p{Cc}/u.test(t));
  const hint = fc.oneof(
    fc.record({ pipeline: name }),
    fc.record({ pipeline: name, at: time }),
    fc.record({ table: table.filter((t) => Buffer.byteLength(t) <= 63) }),
  );
  holds(
    fc.property(hint, (one) => {
      expect(parseHint(hintBody(one))).toEqual(one);
    }),
  );
});
