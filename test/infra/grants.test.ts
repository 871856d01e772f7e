import { readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { pipelines } from "../../functions/pipelines/index.ts";
import { DeployedTemplate } from "../../infra/local/deployed-template.ts";
import { Access } from "../../infra/local/iam/access.ts";
import { statementsOf } from "../../infra/local/iam/policy-json.ts";
import { namesOf, readPolicies } from "../../infra/local/iam/read-policies.ts";
import { refusalError } from "../../infra/local/iam/refusals.ts";
import { SecretStore } from "../../infra/local/secrets.ts";
import type { Json, JsonObject, RawResource } from "../../infra/local/template.ts";
import { EXCEPTIONS } from "../iam/exceptions.ts";
import { many, policiesOf, settle } from "../iam/grants.ts";
import { resourcesOf } from "./assemble.ts";

/*
 * The calls that a stack made which did everything (npm run iam:report), judged by the template without one of its
 * grants after the other. A grant that no call misses is too much, or the file is old.
 */

const resources = resourcesOf({ manifest: pipelines.manifest }) as unknown as Readonly<Record<string, RawResource>>;
const secrets = new SecretStore(join(tmpdir(), "no-such-folder", "secrets.json"));

const calls = (JSON.parse(readFileSync(new URL("../iam/calls.json", import.meta.url), "utf8")) as string[]).map(
  (line) => {
    const [role = "", action = "", resource = ""] = line.split(" ");
    return { role, action, resource: resource.replace("-??????", `-${secrets.suffix}`) };
  },
);

/** What the calls are refused by a template with these resources. */
function refusedBy(Resources: Readonly<Record<string, RawResource>>) {
  const assembly = { stackName: "millrace-dev", template: { Resources }, assetFolder: () => "" };
  const addresses = { awsEndpoint: "http://127.0.0.1:1", databasePort: 1, functionUrl: () => "http://127.0.0.1:2/" };
  const template = new DeployedTemplate(assembly, addresses, secrets);
  const access = new Access(readPolicies(template), namesOf(template), () => {});
  return calls.flatMap(
    ({ role, action, resource }) => access.check({ role, session: role }, { action, resource }) ?? [],
  );
}

interface Cut {
  readonly role: string;
  readonly action: string;
  readonly resource: Json;
  /** The template without that grant and with all others. */
  readonly without: Readonly<Record<string, RawResource>>;
}

/** Every grant of the template, each with what is left without it. */
function* cuts(): Generator<Cut> {
  for (const [index, { role, document }] of policiesOf(resources).entries()) {
    for (const [at, { Action, Resource }] of statementsOf(document).entries()) {
      for (const action of many(Action)) {
        for (const resource of many(Resource)) {
          const copy = structuredClone(resources) as Readonly<Record<string, RawResource>>;
          cut(policiesOf(copy)[index]!.document, at, action, resource);
          yield { role, action: String(action), resource, without: copy };
        }
      }
    }
  }
}

/** Puts two statements for one: the other actions on all resources, the action on the other resources. */
function cut(document: JsonObject, at: number, action: Json, resource: Json): void {
  const statements = document["Statement"] as JsonObject[];
  const { Action, Resource, ...rest } = statements[at]!;
  const others = many(Resource).filter((each) => JSON.stringify(each) !== JSON.stringify(resource));
  const left: JsonObject[] = [
    { ...rest, Action: many(Action).filter((each) => each !== action), Resource: Resource! },
    { ...rest, Action: action, Resource: others },
  ];
  statements.splice(at, 1, ...left);
}

describe("grants", () => {
  it("allow every call of a stack that does everything", () => {
    expect(calls.length).toBeGreaterThan(90);
    expect(refusedBy(resources)).toEqual([]);
  });

  it("are each missed by a call that names them, when one is taken away", () => {
    const unmissed = [];
    for (const { role, action, resource, without } of cuts()) {
      const refusals = refusedBy(without);
      if (refusals.length === 0) unmissed.push({ role, action, resource: JSON.stringify(resource) });
      for (const refusal of refusals) {
        expect(refusal).toMatchObject({
          caller: { role },
          need: { action },
          reason: "noPermission",
          name: expect.any(String),
        });
        const { code, message } = refusalError(refusal);
        expect(code).toBe("ACCESS_DENIED");
        expect(message).toContain(
          `was refused ${action} on ${refusal.need.resource} (${refusal.name} in the template)`,
        );
        expect(message).toContain(`The missing statement: {"Effect":"Allow","Action":"${action}"`);
      }
    }
    const here = EXCEPTIONS.filter(({ cloud }) => cloud === undefined);
    expect(settle(unmissed, here).left).toEqual([]);
  });
});
