/* What must hold outside of the tables: at the cloud, in the queues, among the orphans. */

import { GetQueueAttributesCommand, ReceiveMessageCommand, SQSClient } from "@aws-sdk/client-sqs";
import type { LocalStack } from "../support/stack.ts";
import type { Check } from "./checks.ts";
import type { Wants } from "./wants.ts";

/** What the local cloud did. */
export interface Line {
  readonly op: string;
  readonly key: string | null;
  readonly name: string;
  readonly outcome: string;
}

const CREATIONS = ["createVolume", "createInstance", "runCommand"];
const DELETIONS = ["deleteVolume", "deleteInstance"];

/** By the cloud's own ledger each thing was made once and removed once, however often it was asked for. */
export async function checkLedger(stack: LocalStack, { volumes }: Wants): Promise<Check> {
  const lines = (await stack.control("GET", "/cloud/log")).body as Line[];
  return {
    name: "each thing was created once and deleted once, by the cloud's ledger",
    wrong: wrongInLedger(
      lines,
      await atCloud(stack),
      volumes.map((want) => want.name),
    ),
  };
}

/** @param there keys of what is at the cloud @param asked names of the volumes that were asked for, each time */
export function wrongInLedger(
  lines: readonly Line[],
  there: ReadonlySet<string>,
  asked: readonly string[],
): readonly string[] {
  const wrong: string[] = [];
  const count = (ops: readonly string[], key: string, ...outcomes: string[]) =>
    lines.filter((line) => ops.includes(line.op) && line.key === key && outcomes.includes(line.outcome)).length;
  for (const key of new Set(lines.flatMap(({ key }) => key ?? []))) {
    const name = lines.find((line) => line.key === key)?.name;
    // `killed` was done as well, and its caller killed instead of being answered
    const [made, removed] = [count(CREATIONS, key, "created"), count(DELETIONS, key, "deleted")];
    if (made > 1) wrong.push(`${name} (key ${key}) was made ${made} times`);
    if (removed > 1) wrong.push(`${name} (key ${key}) was removed ${removed} times`);
    if (made + count(CREATIONS, key, "killed") === 0 && removed > 0) wrong.push(`${name} (key ${key}) was never made`);
    const isThing = lines.some((line) => line.key === key && line.op !== "runCommand" && line.op !== "stopCommand");
    if (isThing && made > 0 && !there.has(key) && removed + count(DELETIONS, key, "killed") === 0)
      wrong.push(`${name} (key ${key}) is gone, and was never removed`);
  }
  // a key is one volume's: more keys than volumes of a name would be more volumes than were asked for
  const keys = new Map<string, Set<string>>();
  for (const { op, key, name } of lines)
    if (op === "createVolume" && key !== null) keys.set(name, (keys.get(name) ?? new Set()).add(key));
  for (const [name, set] of keys) {
    const times = asked.filter((one) => one === name).length;
    if (set.size > times) wrong.push(`${name} was asked for ${times} times, and has ${set.size} keys`);
  }
  return wrong;
}

async function atCloud(stack: LocalStack): Promise<Set<string>> {
  return new Set([...(await listed(stack, "volumes")), ...(await listed(stack, "instances"))].map(({ key }) => key));
}

async function listed(
  stack: LocalStack,
  kind: string,
): Promise<{ id: string; key: string; tag: string; name: string }[]> {
  return (await (await fetch(`${stack.local.cloudUrl}/${kind}`)).json()) as never;
}

/** The cloud has what the tables say, under the ids that stand there, and nothing besides. */
export async function checkCloud(stack: LocalStack): Promise<Check> {
  const wrong: string[] = [];
  for (const table of ["volumes", "instances"]) {
    const rows = new Map(
      (await stack.sql(`select id, provider_id from ${table}`)).map((row) => [row.id, row.provider_id]),
    );
    const things = await listed(stack, table);
    for (const { id, tag, name } of things)
      if (rows.get(tag) !== id) wrong.push(`${name} (${id}) is at the cloud; its row says ${rows.get(tag)}`);
    for (const [id, provider] of rows)
      if (!things.some((thing) => thing.id === provider)) wrong.push(`${table} ${id}: the cloud has no ${provider}`);
  }
  return { name: "the cloud has what the tables say, and nothing else", wrong };
}

/** Nothing was left behind at a provider: no pass of this application leaves anything. */
export async function checkOrphans(stack: LocalStack): Promise<Check> {
  const rows = await stack.sql("select pipeline, item_id, outcome, what from millrace.orphans");
  return { name: "no orphans", wrong: rows.map((row) => JSON.stringify(row)) };
}

/** No message was given up. */
export async function checkDeadLetters(stack: LocalStack): Promise<Check> {
  const { awsEndpoint: endpoint, region } = stack.local;
  const credentials = { accessKeyId: "any", secretAccessKey: "any" };
  const sqs = new SQSClient({ endpoint, region, credentials, useQueueUrlAsEndpoint: false });
  const wrong: string[] = [];
  for (const [name, { deadUrl }] of Object.entries(stack.local.queues)) {
    if (deadUrl === undefined) continue;
    const { Attributes } = await sqs.send(
      new GetQueueAttributesCommand({ QueueUrl: deadUrl, AttributeNames: ["All"] }),
    );
    if (Attributes?.["ApproximateNumberOfMessages"] === "0") continue;
    const { Messages = [] } = await sqs.send(new ReceiveMessageCommand({ QueueUrl: deadUrl, MaxNumberOfMessages: 10 }));
    wrong.push(...Messages.map(({ Body }) => `${name}: ${Body}`));
  }
  sqs.destroy();
  return { name: "the dead-letter queues are empty", wrong };
}
