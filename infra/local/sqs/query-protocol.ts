/*
 * The older protocol of SQS, which AWS still answers and CLIs of before November 2023 speak (Debian 12 has one): a form
 * goes in, XML comes out. https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/CommonParameters.html
 */

import type { AwsAnswer } from "../aws-answer.ts";
import type { Json, JsonObject } from "../template.ts";

/** Names of lists and maps: as a form numbers them (`AttributeName.1`), and as JSON has them. */
const LISTS: Readonly<Record<string, string>> = {
  AttributeName: "AttributeNames",
  MessageAttributeName: "MessageAttributeNames",
  MessageSystemAttributeName: "MessageSystemAttributeNames",
  SendMessageBatchRequestEntry: "Entries",
  DeleteMessageBatchRequestEntry: "Entries",
  ChangeMessageVisibilityBatchRequestEntry: "Entries",
  TagKey: "TagKeys",
};
const MAPS: Readonly<Record<string, string>> = {
  Attribute: "Attributes",
  MessageAttribute: "MessageAttributes",
  MessageSystemAttribute: "MessageSystemAttributes",
  Tag: "Tags",
};
const NUMBERS = new Set(["DelaySeconds", "VisibilityTimeout", "MaxNumberOfMessages", "WaitTimeSeconds", "MaxResults"]);

type Tree = { [part: string]: Tree | string };

interface QueryCall {
  readonly operation: string;
  /** The call as the JSON protocol has it. */
  readonly body: string;
}

/** Reads a form; undefined when it names no action. */
export function readQuery(form: string): QueryCall | undefined {
  const tree: Tree = {};
  for (const [name, value] of new URLSearchParams(form)) plant(tree, name.split("."), value);
  const { Action, Version: _, ...rest } = tree;
  if (typeof Action !== "string") return undefined;
  return { operation: Action, body: JSON.stringify(toJson(rest)) };
}

function plant(tree: Tree, [first = "", ...rest]: readonly string[], value: string): void {
  if (rest.length === 0) {
    tree[first] = value;
    return;
  }
  const below = tree[first];
  const branch: Tree = typeof below === "object" ? below : {};
  tree[first] = branch;
  plant(branch, rest, value);
}

function toJson(tree: Tree): JsonObject {
  const entries = Object.entries(tree).map(([name, value]): [string, Json] => {
    if (typeof value === "string") return [name, NUMBERS.has(name) ? Number(value) : value];
    const items = Object.entries(value)
      .sort(([a], [b]) => Number(a) - Number(b))
      .map(([, item]) => (typeof item === "string" ? item : toJson(item)));
    if (LISTS[name] !== undefined) return [LISTS[name], items];
    if (MAPS[name] !== undefined) return [MAPS[name], Object.fromEntries((items as JsonObject[]).map(keyAndValue))];
    return [name, toJson(value)];
  });
  return Object.fromEntries(entries);
}

const keyAndValue = ({ Name, Key, Value = "" }: JsonObject): [string, Json] => [String(Name ?? Key), Value];

/** The answer to a JSON call as the query protocol has it. */
export function writeQuery(operation: string, answer: AwsAnswer): AwsAnswer {
  const { status } = answer;
  const body = JSON.parse(answer.body) as JsonObject;
  const requestId = element("RequestId", crypto.randomUUID());
  const headers = { "content-type": "text/xml" };
  if (status === 200) {
    const result = `<${operation}Result>${children(body, operation)}</${operation}Result>`;
    const metadata = `<ResponseMetadata>${requestId}</ResponseMetadata>`;
    return { status, headers, body: document(`${operation}Response`, result + metadata) };
  }
  const named = String(body["__type"] ?? "InternalFailure").split("#");
  const [code = named.at(-1)!, type = "Sender"] = answer.headers["x-amzn-query-error"]?.split(";") ?? [];
  const message = String(body["message"] ?? "");
  const error = element("Type", type) + element("Code", code) + element("Message", message);
  return { status, headers, body: document("ErrorResponse", `<Error>${error}</Error>${requestId}`) };
}

const XMLNS = "http://queue.amazonaws.com/doc/2012-11-05/";
const document = (name: string, content: string) =>
  `<?xml version="1.0"?>\n<${name} xmlns="${XMLNS}">${content}</${name}>`;

function children(value: JsonObject, operation: string): string {
  return Object.entries(value)
    .map(([name, each]) => {
      if (Array.isArray(each)) return each.map((item) => element(singular(name, operation), item, operation)).join("");
      const plural = Object.entries(MAPS).find(([, many]) => many === name);
      if (plural === undefined) return element(name, each, operation);
      const key = name === "Tags" ? "Key" : "Name";
      const pairs = Object.entries(each as JsonObject);
      return pairs.map(([Name, Value]) => element(plural[0], { [key]: Name, Value }, operation)).join("");
    })
    .join("");
}

function singular(list: string, operation: string): string {
  if (list === "Successful") return `${operation}ResultEntry`;
  if (list === "Failed") return "BatchResultErrorEntry";
  return list.replace(/^q/, "Q").replace(/s$/, ""); // Messages, QueueUrls, and the queueUrls of one operation
}

function element(name: string, value: Json, operation = ""): string {
  const content =
    value !== null && typeof value === "object" ? children(value as JsonObject, operation) : escaped(value);
  return `<${name}>${content}</${name}>`;
}

const ENTITIES: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;" };
const escaped = (value: Json) => String(value).replace(/[&<>\r]/g, (each) => ENTITIES[each]!);
