import { describe, expect, it } from "vitest";
import { bundlesOf, byName, ofType, plain, type Resources, resourcesOf, short } from "./assemble.ts";

const trigger = (resources: Resources) => ofType(resources, "Custom::Trigger")[0]![1];
const version = (resources: Resources): string => trigger(resources).Properties.HandlerArn.Ref;

describe("the migration", () => {
  const resources = resourcesOf();

  it("is invoked as a version of its function, and waited for", () => {
    expect(resources[version(resources)]!.Type).toBe("AWS::Lambda::Version");
    expect(short(resources[version(resources)]!.Properties.FunctionName)).toBe("MigrationsMigrate");
    expect(trigger(resources).Properties).toMatchObject({
      InvocationType: "RequestResponse",
      Timeout: "900000",
      ExecuteOnHandlerChange: true,
    });
  });

  it("runs again when its code changes, and only then", () => {
    const first = bundlesOf("one");
    const before = version(resourcesOf({ folders: first }));
    const again = version(resourcesOf({ folders: bundlesOf("one") }));
    const migrated = version(resourcesOf({ folders: { ...first, migrate: bundlesOf("two").migrate } }));
    const others = version(resourcesOf({ folders: { ...bundlesOf("two"), migrate: first.migrate } }));

    expect(again).toBe(before);
    expect(migrated).not.toBe(before);
    expect(others).toBe(before);
  });

  it("comes after the database", () => {
    const after = trigger(resources).DependsOn!.map(plain);
    expect(after).toEqual(expect.arrayContaining(["DatabaseCluster", "DatabaseClusterWriter", "DatabaseAppSecret"]));
  });

  it("comes before every other function and whatever starts one", () => {
    const [triggerId] = ofType(resources, "Custom::Trigger")[0]!;
    const functions = Object.entries(byName(resources, "AWS::Lambda::Function"))
      .filter(([name]) => name !== "migrate")
      .map(([, resource]) => resource);
    const mappings = ofType(resources, "AWS::Lambda::EventSourceMapping").map(([, resource]) => resource);
    const schedules = ofType(resources, "AWS::Scheduler::Schedule").map(([, resource]) => resource);

    for (const resource of [...functions, ...mappings]) expect(resource.DependsOn).toContain(triggerId);
    for (const { Properties } of schedules) {
      expect(functions).toContain(resources[Properties.Target.Arn["Fn::GetAtt"][0]]);
    }
  });
});
