import { describe, expect, test } from "vitest";
import { Access } from "../../../../infra/local/iam/access.ts";
import { describeAccess } from "../../../../infra/local/iam/describe-access.ts";
import { Policies } from "../../../../infra/local/iam/policies.ts";
import { deniedAnswer, type Refusal } from "../../../../infra/local/iam/refusals.ts";

const caller = { role: "WorkerRole", session: "worker-volumes" };
const CLUSTER = "arn:aws:rds:us-east-1:000000000000:cluster:db";
const QUEUE = "arn:aws:sqs:us-east-1:000000000000:volumes";
const SECRET = "arn:aws:secretsmanager:us-east-1:000000000000:secret:App-aBcDeF";
const STREAM = "arn:aws:logs:us-east-1:000000000000:log-group:Log:log-stream:local/[$LATEST]0123456789abcdef";

function access(...statements: object[]): { access: Access; told: Refusal[] } {
  const policies = new Policies();
  policies.addToRole("WorkerRole", "WorkerPolicy", { Statement: statements as never });
  const told: Refusal[] = [];
  const names = new Map([[CLUSTER, "Cluster1A2B"]]);
  return { access: new Access(policies, names, (refusal) => told.push(refusal)), told };
}

test("a refusal is told once, with function, action, resource, logical id and the statement that is missing", () => {
  const { access: guarded, told } = access();
  const need = { action: "rds-data:ExecuteStatement", resource: CLUSTER };
  for (let n = 0; n < 3; n += 1) expect(guarded.check(caller, need)).toMatchObject({ reason: "noPermission" });
  expect(told).toHaveLength(1);
  expect(() => guarded.must(caller, need)).toThrow(
    `worker-volumes (role WorkerRole) was refused rds-data:ExecuteStatement on ${CLUSTER} (Cluster1A2B in the template): no policy allows it. The missing statement: {"Effect":"Allow","Action":"rds-data:ExecuteStatement","Resource":"${CLUSTER}"}`,
  );
  expect(guarded.refused?.need).toBe(need);
});

test("a denial is told as one: another permission would not help", () => {
  const { access: guarded } = access({ Effect: "Deny", Action: "*", Resource: "*" });
  expect(() => guarded.must(caller, { action: "sqs:SendMessage", resource: QUEUE })).toThrow(
    /a policy of the role denies it\. Take the denial away/,
  );
});

test("the statement that is missing for a log is about its group", () => {
  const { access: guarded } = access();
  expect(() => guarded.must(caller, { action: "logs:PutLogEvents", resource: STREAM })).toThrow(
    '"Resource":"arn:aws:logs:us-east-1:000000000000:log-group:Log:*"',
  );
});

test("grants are used by the calls that they allow, and by no others", () => {
  const { access: open } = access(
    { Effect: "Allow", Action: ["sqs:SendMessage", "sqs:DeleteMessage"], Resource: QUEUE },
    { Effect: "Allow", Action: "secretsmanager:GetSecretValue", Resource: SECRET },
    { Effect: "Allow", Action: "logs:*", Resource: "*" },
  );
  expect(open.unused()).toHaveLength(4);
  open.must(caller, { action: "sqs:SendMessage", resource: QUEUE });
  open.must(caller, { action: "secretsmanager:GetSecretValue", resource: SECRET });
  open.must(caller, { action: "logs:PutLogEvents", resource: STREAM });
  open.check(caller, { action: "sqs:ReceiveMessage", resource: QUEUE });
  expect(describeAccess(open, "aBcDeF")).toEqual({
    calls: [
      {
        role: "WorkerRole",
        action: "logs:PutLogEvents",
        resource: "arn:aws:logs:us-east-1:000000000000:log-group:Log:log-stream:local/[$LATEST]*",
      },
      { role: "WorkerRole", action: "secretsmanager:GetSecretValue", resource: SECRET.replace("aBcDeF", "??????") },
      { role: "WorkerRole", action: "sqs:SendMessage", resource: QUEUE },
    ],
    refused: [{ role: "WorkerRole", action: "sqs:ReceiveMessage", resource: QUEUE }],
    unused: [{ role: "WorkerRole", policy: "WorkerPolicy", action: "sqs:DeleteMessage", resource: QUEUE }],
    grants: 4,
  });
});

describe("each service refuses in its own way", () => {
  const refusal = (action: string, resource: string): Refusal => ({
    caller,
    need: { action, resource },
    reason: "noPermission",
    name: undefined,
  });
  const user = "User: arn:aws:sts::000000000000:assumed-role/WorkerRole/worker-volumes is not authorized to perform:";

  test.each([
    ["rds-data", "rds-data:ExecuteStatement", CLUSTER, 403, "AccessDeniedException", "rds-data:ExecuteStatement"],
    ["lambda", "lambda:InvokeFunction", "arn:f", 403, "AccessDeniedException", "lambda:InvokeFunction"],
    [
      "secretsmanager",
      "secretsmanager:GetSecretValue",
      SECRET,
      400,
      "AccessDeniedException",
      "secretsmanager:GetSecretValue",
    ],
    ["sqs", "sqs:SendMessage", QUEUE, 403, "com.amazonaws.sqs#AccessDenied", "sqs:sendmessage"],
  ])("%s", (service, action, resource, status, type, named) => {
    const answer = deniedAnswer(service, refusal(action, resource));
    const message = `${user} ${named} on resource: ${resource} because no identity-based policy allows the ${named} action`;
    expect([answer.status, JSON.parse(answer.body)]).toMatchObject([status, { __type: type, message }]);
  });
});
