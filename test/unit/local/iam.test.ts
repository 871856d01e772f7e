import { expect, test } from "vitest";
import { Roles } from "../../../infra/local/iam.ts";

const QUEUE = "arn:aws:sqs:us-east-1:000000000000:volumes";

function roles(...statements: Record<string, unknown>[]): Roles {
  const all = new Roles();
  all.add("worker", "Policy", { Statement: statements as never });
  return all;
}

test.each([
  ["the action and resource named", { Action: "sqs:SendMessage", Resource: QUEUE }, true],
  ["one of several", { Action: ["sqs:GetQueueUrl", "sqs:SendMessage"], Resource: ["arn:x", QUEUE] }, true],
  ["an action pattern, in any case", { Action: "SQS:Send*", Resource: "*" }, true],
  ["a resource pattern", { Action: "sqs:SendMessage", Resource: "arn:aws:sqs:*:volumes" }, true],
  ["another action", { Action: "sqs:ReceiveMessage", Resource: QUEUE }, false],
  ["another resource", { Action: "sqs:SendMessage", Resource: `${QUEUE}-dead` }, false],
  [
    "a resource that only begins so",
    { Action: "sqs:SendMessage", Resource: "arn:aws:sqs:us-east-1:000000000000:vol" },
    false,
  ],
  ["a dot that is no wildcard", { Action: "sqs.SendMessage", Resource: QUEUE }, false],
])("a statement with %s", (_, statement, expected) => {
  expect(roles({ Effect: "Allow", ...statement }).allows("worker", "sqs:SendMessage", QUEUE)).toBe(expected);
});

test("a role without statements may nothing", () => {
  expect(roles().allows("worker", "sqs:SendMessage", QUEUE)).toBe(false);
  expect(new Roles().allows("nobody", "sqs:SendMessage", QUEUE)).toBe(false);
});

test("a denial goes over what is allowed", () => {
  const allow = { Effect: "Allow", Action: "sqs:*", Resource: "*" };
  const deny = { Effect: "Deny", Action: "sqs:SendMessage", Resource: QUEUE };
  expect(roles(allow, deny).allows("worker", "sqs:SendMessage", QUEUE)).toBe(false);
  expect(roles(allow, deny).allows("worker", "sqs:DeleteMessage", QUEUE)).toBe(true);
});

test.each(["Condition", "NotAction", "NotResource"])("a statement with %s is refused", (property) => {
  expect(() => roles({ Effect: "Allow", Action: "*", Resource: "*", [property]: {} })).toThrow(
    expect.objectContaining({ code: "PROPERTY_UNSUPPORTED" }),
  );
});
