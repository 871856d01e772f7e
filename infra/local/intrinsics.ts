/* The functions that a template may call, one entry each. */

import type { Evaluation, Json, JsonObject } from "./template.ts";

type Intrinsic = (e: Evaluation, argument: Json, path: string) => Json | undefined;

const ZONES = ["a", "b", "c"] as const;

/** Whether an object with this one key is a call. IAM statements have a key "Condition" too, which holds an object. */
export function isIntrinsic(name: string, argument: Json): boolean {
  return name === "Ref" || name.startsWith("Fn::") || (name === "Condition" && typeof argument === "string");
}

function pseudo(e: Evaluation, name: string): Json | undefined {
  const { region, accountId, stackName } = e.context;
  const values: Readonly<Record<string, Json>> = {
    "AWS::Region": region,
    "AWS::AccountId": accountId,
    "AWS::Partition": "aws",
    "AWS::URLSuffix": "amazonaws.com",
    "AWS::StackName": stackName,
    "AWS::StackId": `arn:aws:cloudformation:${region}:${accountId}:stack/${stackName}/local`,
    "AWS::NotificationARNs": [],
  };
  return values[name];
}

function reference(e: Evaluation, id: string, attribute: string | undefined, path: string): Json {
  if (attribute === undefined) {
    const value = pseudo(e, id);
    if (value !== undefined) return value;
    const parameter = e.template.Parameters?.[id];
    if (parameter) return parameter.Default ?? e.fail(path, `parameter ${id} has no default`);
  }
  const resource = e.template.Resources[id];
  if (!resource) return e.fail(path, `there is no resource ${id}`);
  const value = e.context.attribute(id, attribute);
  return value ?? e.fail(path, `${id}, an ${resource.Type}, has no ${attribute ?? "Ref"} here`);
}

const substitute: Intrinsic = (e, argument, path) => {
  const [text, given] = Array.isArray(argument) ? argument : [argument];
  if (typeof text !== "string") return e.fail(path, "Fn::Sub needs a text");
  const own = (given ?? {}) as JsonObject;
  return text.replace(/\$\{(!?)([^}]+)\}/g, (_, literal: string, name: string) => {
    if (literal) return `\${${name}}`;
    if (Object.hasOwn(own, name)) return String(e.resolve(own[name]!, path));
    const dot = name.indexOf(".");
    if (dot < 0) return String(reference(e, name, undefined, path));
    return String(reference(e, name.slice(0, dot), name.slice(dot + 1), path));
  });
};

const importValue: Intrinsic = (e, argument, path) => {
  const name = e.resolve(argument, path);
  for (const { Export, Value } of Object.values(e.template.Outputs ?? {})) {
    if (Export && e.resolve(Export.Name, path) === name) return e.resolve(Value, path);
  }
  return e.fail(path, `nothing exports ${String(name)}`);
};

/** Every function that is carried out here, by its name in a template. */
export const INTRINSICS: Readonly<Record<string, Intrinsic>> = {
  Ref: (e, argument, path) =>
    argument === "AWS::NoValue" ? undefined : reference(e, String(argument), undefined, path),
  Condition: (e, argument, path) => e.condition(String(argument), path),
  "Fn::GetAtt": (e, argument, path) => {
    const [id, ...attribute] = typeof argument === "string" ? argument.split(".") : (argument as readonly Json[]);
    return reference(e, String(id), attribute.join("."), path);
  },
  "Fn::Sub": substitute,
  "Fn::Join": (e, argument, path) => {
    const [separator, items] = argument as readonly Json[];
    return e.list(items!, path).map(String).join(String(separator));
  },
  "Fn::Split": (e, argument, path) => {
    const [separator, text] = e.list(argument, path);
    return String(text).split(String(separator));
  },
  "Fn::Select": (e, argument, path) => {
    const [index, items] = argument as readonly Json[];
    return e.list(items!, path)[Number(e.resolve(index!, path))] ?? e.fail(path, `there is no item ${String(index)}`);
  },
  "Fn::If": (e, argument, path) => {
    const [name, yes, no] = argument as readonly Json[];
    return e.maybe(e.condition(String(name), path) ? yes! : no!, path);
  },
  "Fn::Equals": (e, argument, path) => {
    const [left, right] = e.list(argument, path);
    return left === right;
  },
  "Fn::Not": (e, argument, path) => !e.list(argument, path)[0],
  "Fn::And": (e, argument, path) => e.list(argument, path).every((each) => each === true),
  "Fn::Or": (e, argument, path) => e.list(argument, path).some((each) => each === true),
  "Fn::Base64": (e, argument, path) => Buffer.from(String(e.resolve(argument, path))).toString("base64"),
  "Fn::GetAZs": (e, argument, path) => {
    const region = String(e.resolve(argument, path)) || e.context.region;
    return ZONES.map((zone) => region + zone);
  },
  "Fn::FindInMap": (e, argument, path) => {
    const [map, top, second] = e.list(argument, path).map(String);
    return e.template.Mappings?.[map!]?.[top!]?.[second!] ?? e.fail(path, `no mapping ${map}.${top}.${second}`);
  },
  "Fn::ImportValue": importValue,
};
