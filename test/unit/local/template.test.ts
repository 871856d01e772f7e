// biome-ignore-all lint/suspicious/noTemplateCurlyInString: Fn::Sub is written so

import { expect, test } from "vitest";
import { createResolver, type Json, type Template } from "../../../infra/local/template.ts";

const template: Template = {
  Resources: { Queue: { Type: "AWS::SQS::Queue" }, Fn: { Type: "AWS::Lambda::Function" } },
  Parameters: { Stage: { Default: "dev" }, Needed: {} },
  Conditions: {
    IsDev: { "Fn::Equals": [{ Ref: "Stage" }, "dev"] },
    Never: { "Fn::Not": [{ Condition: "IsDev" }] },
    Both: { "Fn::And": [{ Condition: "IsDev" }, { Condition: "Never" }] },
    Either: { "Fn::Or": [{ Condition: "IsDev" }, { Condition: "Never" }] },
  },
  Mappings: { Sizes: { "us-east-1": { large: 3 } } },
  Outputs: { Shared: { Value: { Ref: "Queue" }, Export: { Name: "the-queue" } } },
};

const resolver = createResolver(template, {
  region: "us-east-1",
  accountId: "000000000000",
  stackName: "mill",
  attribute: (id, attribute) => (attribute === "Nothing" ? undefined : `${id}/${attribute ?? "ref"}`),
  dynamicReference: (reference) => (reference.startsWith("resolve:secretsmanager:") ? "s3cret" : undefined),
});
const resolve = (value: Json) => resolver.resolve(value, "here");

test.each<[string, Json, Json]>([
  ["a plain value", { a: [1, true, "x", null] }, { a: [1, true, "x", null] }],
  ["Ref to a resource", { Ref: "Queue" }, "Queue/ref"],
  ["Ref to a parameter", { Ref: "Stage" }, "dev"],
  ["Ref to a pseudo parameter", { Ref: "AWS::AccountId" }, "000000000000"],
  ["Fn::GetAtt as a list", { "Fn::GetAtt": ["Queue", "Arn"] }, "Queue/Arn"],
  ["Fn::GetAtt as a text with dots", { "Fn::GetAtt": "Queue.Endpoint.Address" }, "Queue/Endpoint.Address"],
  ["Fn::Join with references inside", { "Fn::Join": ["-", ["a", { Ref: "Stage" }, { Ref: "Fn" }]] }, "a-dev-Fn/ref"],
  [
    "Fn::Sub of a text",
    { "Fn::Sub": "arn:${AWS::Partition}:${Fn}:${Queue.Arn}:${!Kept}" },
    "arn:aws:Fn/ref:Queue/Arn:${Kept}",
  ],
  ["Fn::Sub with values of its own", { "Fn::Sub": ["${A}${Stage}", { A: { Ref: "Fn" } }] }, "Fn/refdev"],
  ["Fn::Select of Fn::Split", { "Fn::Select": [1, { "Fn::Split": ["/", { Ref: "Queue" }] }] }, "ref"],
  ["Fn::If", { "Fn::If": ["IsDev", "yes", "no"] }, "yes"],
  ["Fn::If under a condition that does not hold", { "Fn::If": ["Both", "yes", "no"] }, "no"],
  ["Fn::If under either of two", { "Fn::If": ["Either", "yes", "no"] }, "yes"],
  ["Fn::FindInMap", { "Fn::FindInMap": ["Sizes", { Ref: "AWS::Region" }, "large"] }, 3],
  ["Fn::GetAZs", { "Fn::Select": [0, { "Fn::GetAZs": "" }] }, "us-east-1a"],
  ["Fn::Base64", { "Fn::Base64": "hi" }, "aGk="],
  ["Fn::ImportValue of an export of the same app", { "Fn::ImportValue": "the-queue" }, "Queue/ref"],
  ["a key whose value is AWS::NoValue goes", { a: 1, b: { Ref: "AWS::NoValue" } }, { a: 1 }],
  ["a list item that is AWS::NoValue goes", ["a", { "Fn::If": ["Never", "b", { Ref: "AWS::NoValue" }] }], ["a"]],
  ["a reference to a secret inside a text", { "Fn::Join": ["", ["x{{resolve:secretsmanager:", "id}}"]] }, "xs3cret"],
  [
    "a policy's Condition is no function",
    { Condition: { StringEquals: { a: "b" } } },
    { Condition: { StringEquals: { a: "b" } } },
  ],
])("%s", (_, given, expected) => {
  expect(resolve(given)).toEqual(expected);
});

test.each<[string, Json, string]>([
  ["an unknown function", { "Fn::Transform": {} }, "here: the function Fn::Transform is not known here"],
  ["an unknown resource", { a: { Ref: "Missing" } }, "here.a: there is no resource Missing"],
  [
    "an attribute that is not there",
    { "Fn::GetAtt": ["Queue", "Nothing"] },
    "Queue, an AWS::SQS::Queue, has no Nothing",
  ],
  ["a parameter without default", { Ref: "Needed" }, "parameter Needed has no default"],
  ["an unknown condition", { "Fn::If": ["What", 1, 2] }, "there is no condition What"],
  ["an unknown secret", "{{resolve:ssm:x}}", "nothing is known of {{resolve:ssm:x}}"],
  ["nothing at all", { Ref: "AWS::NoValue" }, "AWS::NoValue cannot stand here"],
  ["an item that is not there", { "Fn::Select": [3, ["a"]] }, "there is no item 3"],
])("refused: %s", (_, given, text) => {
  expect(() => resolve(given)).toThrow(
    expect.objectContaining({ code: "TEMPLATE_UNRESOLVED", message: expect.stringContaining(text) }),
  );
});
