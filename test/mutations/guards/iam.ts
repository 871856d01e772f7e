// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is source text
import type { Mutation } from "../mutation.ts";

const policies = "infra/local/iam/policies.ts";
const conditions = "infra/local/iam/conditions.ts";
const statement = "infra/local/iam/statement.ts";
const glob = "infra/local/iam/glob.ts";
const principals = "infra/local/iam/principals.ts";
const checks = "infra/local/iam/checks.ts";
const read = "infra/local/iam/read-policies.ts";
const judged = ["test/unit/local/iam/policies.test.ts", "test/unit/local/iam/conditions.test.ts"];
const started = ["test/unit/local/iam/read-policies.test.ts"];

export const mutations: readonly Mutation[] = [
  {
    file: policies,
    remove: 'if (own.some(({ effect }) => effect === "Deny")) return { refused: "deniedByRole", by: [] };',
    tests: judged,
    guard: "a role's explicit denial wins",
  },
  {
    file: policies,
    remove: 'if (its.some(({ effect }) => effect === "Deny")) return { refused: "deniedByResource", by: [] };',
    tests: judged,
    guard: "a resource's explicit denial wins",
  },
  {
    file: conditions,
    remove: "if (actual === undefined) return absent;",
    by: "if (actual === undefined) return false;",
    tests: judged,
    guard: "an absent key is what its operator makes of it",
  },
  {
    file: conditions,
    remove: "tests.some((test) => test(actual)) !== negated",
    by: "tests.some((test) => test(actual))",
    tests: judged,
    guard: "a negated operator holds when nothing matches",
  },
  {
    file: conditions,
    remove: "if (!CONDITION_KEYS.has(known)) throw unsupported(id, `the condition key ${key}`);",
    tests: judged,
    guard: "a condition key without a value here is an error",
  },
  {
    file: conditions,
    remove: "return (context) => tests.every((holds) => holds(context));",
    by: "return (context) => tests.some((holds) => holds(context));",
    tests: judged,
    guard: "all of a condition block has to hold",
  },
  {
    file: glob,
    remove: "patterns.every((each, i) => each.test(parts[i]!))",
    by: "glob(pattern).test(arn)",
    tests: judged,
    guard: "a wildcard does not reach over a part of an ARN",
  },
  {
    file: statement,
    remove: "return condition === undefined || condition(context);",
    by: "return true;",
    tests: judged,
    guard: "a condition is asked",
  },
  {
    file: statement,
    remove: "!all.some((each) => each.matches(actual))",
    by: "true",
    tests: judged,
    guard: "NotAction and NotResource leave something out",
  },
  {
    file: statement,
    remove: "if (!ELEMENTS.has(element)) throw unsupported(id, `the element ${element}`);",
    tests: judged,
    guard: "an element that is not evaluated is an error",
  },
  {
    file: principals,
    remove: 'return effect === "Deny" && names.some',
    by: "return names.some",
    tests: judged,
    guard: "the account as principal permits nobody",
  },
  {
    file: checks,
    remove: 'mayTake("lambda.amazonaws.com", fn.identity.role, `function ${fn.spec.name}`);',
    tests: started,
    guard: "Lambda may take a function's role",
  },
  {
    file: checks,
    remove: 'for (const each of logNeeds(fn, "any")) need(fn.identity, each, `to write the log of ${fn.spec.name}`);',
    tests: started,
    guard: "a function may write its log",
  },
  {
    file: checks,
    remove: 'for (const action of POLLING) need(caller, { action, resource: queueArn }, "the event source mapping");',
    tests: started,
    guard: "a function may read its queue",
  },
  {
    file: checks,
    remove: "if (isOpen && fn) need",
    by: "if (false) need",
    tests: started,
    guard: "an open function URL is opened by the function's policy",
  },
  {
    file: read,
    remove: 'if (properties["PermissionsBoundary"] !== undefined) throw unsupported(id, "a permissions boundary");',
    tests: started,
    guard: "a permissions boundary is an error",
  },
  {
    file: read,
    remove: "refuseKeys(template);",
    tests: started,
    guard: "keys of KMS are an error",
  },
];
