import { describe, expect, test } from "vitest";
import { type Need, Policies } from "../../../../infra/local/iam/policies.ts";
import type { Caller } from "../../../../infra/local/iam/principals.ts";

const QUEUE = "arn:aws:sqs:us-east-1:000000000000:volumes";
const FN = "arn:aws:lambda:us-east-1:000000000000:function:fetcher";
const WORKER: Caller = { role: "Worker", session: "worker-volumes", functionArn: FN };
const ROLE = "arn:aws:iam::000000000000:role/Worker";
const SEND: Need = { action: "sqs:SendMessage", resource: QUEUE };
const ANYTHING = { Effect: "Allow", Action: "*", Resource: "*" };

/** A policy variable, which is not evaluated. */
const VARIABLE = `$${"{aws:username}"}`;

interface Given {
  readonly role?: readonly object[];
  readonly queue?: readonly object[];
}

function policies({ role = [], queue = [] }: Given): Policies {
  const all = new Policies();
  all.addToRole("Worker", "Policy", { Statement: role as never });
  all.addToResource(QUEUE, "QueuePolicy", { Statement: queue as never });
  return all;
}

/** Why the worker may not, or undefined. */
const refused = (given: Given, need = SEND, caller: Caller = WORKER) => policies(given).judge(caller, need).refused;
const allows = (statement: object, need = SEND) => refused({ role: [{ Effect: "Allow", ...statement }] }, need);

describe("a statement of a role", () => {
  test.each<[string, object]>([
    ["the action and resource named", { Action: "sqs:SendMessage", Resource: QUEUE }],
    ["one of several", { Action: ["sqs:GetQueueUrl", "sqs:SendMessage"], Resource: ["arn:x", QUEUE] }],
    ["an action pattern, in any case", { Action: "SQS:Send*", Resource: "*" }],
    ["a question mark for one character", { Action: "sqs:SendMessag?", Resource: "*" }],
    ["a resource pattern, over colons too", { Action: "sqs:SendMessage", Resource: "arn:aws:sqs:*:volumes" }],
    ["all actions but others", { NotAction: ["sqs:DeleteMessage", "iam:*"], Resource: QUEUE }],
    ["all resources but others", { Action: "sqs:SendMessage", NotResource: [`${QUEUE}-dead`, "arn:aws:s3:::*"] }],
  ])("with %s allows", (_, statement) => {
    expect(allows(statement)).toBeUndefined();
  });

  test.each<[string, object]>([
    ["another action", { Action: "sqs:ReceiveMessage", Resource: QUEUE }],
    ["another resource", { Action: "sqs:SendMessage", Resource: `${QUEUE}-dead` }],
    ["a resource in another case", { Action: "sqs:SendMessage", Resource: QUEUE.replace("volumes", "Volumes") }],
    ["a resource that only begins so", { Action: "sqs:SendMessage", Resource: QUEUE.slice(0, -4) }],
    ["a dot that is no wildcard", { Action: "sqs.SendMessage", Resource: QUEUE }],
    ["a question mark for none or two", { Action: ["sqs:SendMessage?", "sqs:SendMes?e"], Resource: QUEUE }],
    ["an asterisk that is meant literally", { Action: "sqs:SendMessage", Resource: `${QUEUE.slice(0, -7)}\${*}` }],
    ["all actions but this", { NotAction: ["sqs:Send*"], Resource: QUEUE }],
    ["all resources but this", { Action: "sqs:SendMessage", NotResource: ["arn:aws:sqs:*"] }],
    ["no resource", { Action: "sqs:SendMessage" }],
  ])("with %s does not", (_, statement) => {
    expect(allows(statement)).toBe("noPermission");
  });

  test("is about its own role; a role without any may nothing", () => {
    expect(refused({ role: [ANYTHING] }, SEND, { role: "Other", session: "x" })).toBe("noPermission");
    expect(refused({ role: [ANYTHING] }, SEND, { service: "events.amazonaws.com" })).toBe("noPermission");
    expect(refused({})).toBe("noPermission");
  });

  test("that denies wins, wherever it stands; what it is not about stays allowed", () => {
    const deny = { Effect: "Deny", Action: "sqs:Send*", Resource: QUEUE };
    for (const role of [
      [ANYTHING, deny],
      [deny, ANYTHING],
    ]) {
      expect(refused({ role })).toBe("deniedByRole");
      expect(refused({ role }, { ...SEND, action: "sqs:DeleteMessage" })).toBeUndefined();
    }
    const allowedByQueue = { Effect: "Allow", Principal: "*", Action: "sqs:*" };
    expect(refused({ role: [deny], queue: [allowedByQueue] })).toBe("deniedByRole");
  });
});

describe("a statement of a queue", () => {
  const statement = (Principal: unknown, Effect = "Allow") => ({ Effect, Principal, Action: "sqs:*", Resource: QUEUE });

  test.each<[string, unknown]>([
    ["everybody", "*"],
    ["everybody of AWS", { AWS: "*" }],
    ["the role", { AWS: ROLE }],
    ["the role among others", { AWS: ["arn:aws:iam::000000000000:role/Other", ROLE] }],
    ["the role's session", { AWS: "arn:aws:sts::000000000000:assumed-role/Worker/worker-volumes" }],
  ])("about %s allows the role's calls without a policy of its own, and denies them whatever that says", (_, who) => {
    expect(refused({ queue: [statement(who)] })).toBeUndefined();
    expect(refused({ role: [ANYTHING], queue: [statement(who, "Deny")] })).toBe("deniedByResource");
  });

  test.each<[string, unknown]>([
    ["another role", { AWS: "arn:aws:iam::000000000000:role/Work*" }],
    ["a service", { Service: "events.amazonaws.com" }],
  ])("about %s says nothing of it", (_, who) => {
    expect(refused({ queue: [statement(who)] })).toBe("noPermission");
    expect(refused({ role: [ANYTHING], queue: [statement(who, "Deny")] })).toBeUndefined();
  });

  test("about the account leaves permissions to the roles, and denies for all of them", () => {
    for (const account of ["000000000000", "arn:aws:iam::000000000000:root"]) {
      expect(refused({ queue: [statement({ AWS: account })] })).toBe("noPermission");
      expect(refused({ role: [ANYTHING], queue: [statement({ AWS: account }, "Deny")] })).toBe("deniedByResource");
    }
  });

  test("is about its own queue, and about the actions it names", () => {
    expect(refused({ queue: [statement("*")] }, { ...SEND, resource: `${QUEUE}-dead` })).toBe("noPermission");
    const receive = { ...statement("*"), Action: "sqs:ReceiveMessage" };
    expect(refused({ queue: [receive] })).toBe("noPermission");
  });

  test("of a service lets that service in, and nobody else", () => {
    const all = new Policies();
    const Principal = { Service: "events.amazonaws.com" };
    all.addToResource(FN, "P", { Statement: { Effect: "Allow", Principal, Action: "lambda:InvokeFunction" } });
    const need = { action: "lambda:InvokeFunction", resource: FN };
    expect(all.judge({ service: "events.amazonaws.com" }, need).refused).toBeUndefined();
    expect(all.judge({ service: "s3.amazonaws.com" }, need).refused).toBe("noPermission");
    expect(all.judge("anonymous", need).refused).toBe("noPermission");
  });
});

describe("what is not evaluated is an error", () => {
  const inRole = (statement: object) => () => refused({ role: [{ ...ANYTHING, ...statement }] });
  const inQueue = (statement: object) => () => refused({ queue: [{ ...ANYTHING, Principal: "*", ...statement }] });

  test.each<[string, () => unknown]>([
    ["the condition operator NumericLessThan", inRole({ Condition: { NumericLessThan: { "aws:SourceArn": "1" } } })],
    ["the condition operator constructor", inRole({ Condition: { constructor: { "aws:SourceArn": "1" } } })],
    ["the condition key aws:TagKeys", inRole({ Condition: { StringEquals: { "aws:TagKeys": "a" } } })],
    [`the policy variable in ${VARIABLE}`, inRole({ Resource: VARIABLE })],
    [`the policy variable in ${VARIABLE}`, inRole({ Condition: { StringLike: { "aws:SourceArn": VARIABLE } } })],
    ["Action beside NotAction", inRole({ NotAction: "sqs:*" })],
    ["Resource beside NotResource", inRole({ NotResource: "*" })],
    ['the effect "allow"', inRole({ Effect: "allow" })],
    ["the element NotPrincipal", inQueue({ NotPrincipal: "*" })],
    ["a principal in a role's policy", inRole({ Principal: "*" })],
    ["a statement without a principal", inQueue({ Principal: undefined })],
    ["a principal of the kind Federated", inQueue({ Principal: { Federated: "x" } })],
    ["the principal everybody", inQueue({ Principal: "everybody" })],
  ])("%s", (what, run) => {
    expect(run).toThrow(
      expect.objectContaining({ code: "POLICY_UNSUPPORTED", details: expect.objectContaining({ what }) }),
    );
  });
});

test("a judgement names the grants that allow, action by action, resource by resource", () => {
  const all = policies({
    role: [
      { Effect: "Allow", Action: ["sqs:SendMessage", "sqs:DeleteMessage"], Resource: [QUEUE, `${QUEUE}-dead`] },
      { Effect: "Deny", Action: "iam:*", Resource: "*" },
    ],
  });
  const grant = (action: string, resource: string) => ({ role: "Worker", policy: "Policy", action, resource });
  expect(all.judge(WORKER, SEND).by).toEqual([grant("sqs:SendMessage", QUEUE)]);
  expect(all.grants()).toEqual([
    grant("sqs:SendMessage", QUEUE),
    grant("sqs:SendMessage", `${QUEUE}-dead`),
    grant("sqs:DeleteMessage", QUEUE),
    grant("sqs:DeleteMessage", `${QUEUE}-dead`),
  ]);
});
