import { expect, test } from "vitest";
import {
  attributeOf,
  checkResourceTypes,
  type Names,
  physicalName,
  RUNNING,
  WITHOUT_MEANING,
} from "../../../infra/local/resource-types.ts";

const names: Names = {
  name: (id) => `${id}-name`,
  property: (_, property) => (property === "FunctionName" ? "fn" : `property ${property}`),
  awsEndpoint: "http://127.0.0.1:4566",
  databasePort: 5432,
  secretSuffix: "aBcDeF",
  functionUrl: () => "http://127.0.0.1:4567/",
};

test("a resource type on no list is refused by its name", () => {
  const template = { Resources: { Bucket: { Type: "AWS::S3::Bucket" } } };
  expect(() => checkResourceTypes(template)).toThrow(
    expect.objectContaining({ code: "RESOURCE_TYPE_UNKNOWN", details: { id: "Bucket", type: "AWS::S3::Bucket" } }),
  );
});

test("what has no meaning here is answered by type, what runs is not", () => {
  const template = {
    Resources: {
      Vpc: { Type: "AWS::EC2::VPC" },
      A: { Type: "AWS::EC2::Subnet" },
      B: { Type: "AWS::EC2::Subnet" },
      Q: { Type: "AWS::SQS::Queue" },
    },
  };
  expect([...checkResourceTypes(template)]).toEqual([
    ["AWS::EC2::VPC", ["Vpc"]],
    ["AWS::EC2::Subnet", ["A", "B"]],
  ]);
});

test("no type is on both lists", () => {
  expect(Object.keys(RUNNING).filter((type) => type in WITHOUT_MEANING)).toEqual([]);
});

test.each([
  ["AWS::SQS::Queue", undefined, "http://127.0.0.1:4566/000000000000/Id-name"],
  ["AWS::SQS::Queue", "Arn", "arn:aws:sqs:us-east-1:000000000000:Id-name"],
  ["AWS::Lambda::Function", undefined, "Id-name"],
  ["AWS::Lambda::Function", "Arn", "arn:aws:lambda:us-east-1:000000000000:function:Id-name"],
  ["AWS::Lambda::Version", undefined, "arn:aws:lambda:us-east-1:000000000000:function:fn:1"],
  ["AWS::SecretsManager::Secret", undefined, "arn:aws:secretsmanager:us-east-1:000000000000:secret:Id-name-aBcDeF"],
  ["AWS::RDS::DBCluster", "Endpoint.Port", "5432"],
  ["AWS::IAM::Role", "Arn", "arn:aws:iam::000000000000:role/Id-name"],
  ["AWS::EC2::VPC", undefined, "Id-name"],
  ["AWS::EC2::VPC", "CidrBlock", "Id-name.CidrBlock"],
  ["AWS::SQS::Queue", "Wrong", undefined],
  ["AWS::S3::Bucket", undefined, undefined],
])("%s %s is %s", (type, attribute, expected) => {
  expect(attributeOf(type, "Id", attribute, names)).toBe(expected);
});

test.each([
  [{ Type: "AWS::SQS::Queue" }, "Hints1A2B"],
  [{ Type: "AWS::SQS::Queue", Metadata: { "millrace:name": "hints" } }, "hints"],
  [{ Type: "AWS::SQS::Queue", Metadata: { "millrace:name": "hints" }, Properties: { QueueName: "mine" } }, "mine"],
])("the name of %j is %s", (resource, expected) => {
  expect(physicalName("Hints1A2B", resource)).toBe(expected);
});
