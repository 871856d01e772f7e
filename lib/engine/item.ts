import { isPipelineName } from "../define/names.ts";
import { MillraceError } from "../errors.ts";

/** Everything a worker is told. What the row needs is read from the row. */
export interface Item {
  readonly pipeline: string;
  readonly id: string;
  /** Proof of holding the row; the worker replaces it by one of its own. */
  readonly token: string;
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

export const isUuid = (value: unknown): value is string => typeof value === "string" && UUID.test(value);

/** The body of an item message: `{"v":1,"pipeline":"volumes","id":"…","token":"…"}`. */
export const itemBody = ({ pipeline, id, token }: Item): string => JSON.stringify({ v: 1, pipeline, id, token });

/** Reasons name the field and never what stands there: a message can be a megabyte, and is no business of a log. @throws ITEM_MALFORMED */
export function parseItem(body: string): Item {
  const message = parseObject(body, "ITEM_MALFORMED");
  const { v, pipeline, id, token } = message;
  if (v !== 1) throw new MillraceError("ITEM_MALFORMED", { reason: "v is not 1" });
  if (!isPipelineName(pipeline)) throw new MillraceError("ITEM_MALFORMED", { reason: "pipeline is no name of one" });
  if (!isUuid(id)) throw new MillraceError("ITEM_MALFORMED", { reason: "id is no uuid" });
  if (!isUuid(token)) throw new MillraceError("ITEM_MALFORMED", { reason: "token is no uuid" });
  return { pipeline, id: id.toLowerCase(), token: token.toLowerCase() };
}

export function parseObject(body: string, code: "ITEM_MALFORMED" | "HINT_MALFORMED"): Record<string, unknown> {
  let message: unknown;
  try {
    message = JSON.parse(body);
  } catch (cause) {
    throw new MillraceError(code, { reason: "the body is no JSON" }, { cause });
  }
  if (typeof message !== "object" || message === null || Array.isArray(message))
    throw new MillraceError(code, { reason: "the body is no JSON object" });
  return message as Record<string, unknown>;
}
