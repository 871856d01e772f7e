import { expect, it } from "vitest";
import { ofType, resourcesOf, short } from "./assemble.ts";

const resources = resourcesOf();
const secrets = ofType(resources, "AWS::SecretsManager::Secret").map(([, { Properties }]) => Properties);

it("generates the passwords of both users, and knows neither", () => {
  expect(secrets.map(({ GenerateSecretString: generate }) => generate.SecretStringTemplate)).toEqual([
    '{"username":"millrace_owner"}',
    '{"username":"millrace_app"}',
  ]);
  for (const secret of secrets) {
    expect(secret).toMatchObject({ GenerateSecretString: { GenerateStringKey: "password" } });
    expect(secret.SecretString).toBeUndefined();
  }
});

it("lets CloudFormation fill in the owner's password, and nothing else read a secret", () => {
  const reads: string[] = [];
  const walk = (value: unknown, path: string): void => {
    if (typeof value === "string" && value.includes("{{resolve:")) reads.push(path);
    if (value === null || typeof value !== "object") return;
    for (const [key, each] of Object.entries(value)) walk(each, path === "" ? key : `${path}.${key}`);
  };
  const [[id, cluster]] = ofType(resources, "AWS::RDS::DBCluster") as [[string, (typeof resources)[string]]];
  walk(resources, "");
  expect(reads).toEqual([expect.stringMatching(`^${id}.Properties.MasterUserPassword`)]);
  expect(short(cluster.Properties.MasterUserPassword)).toMatch(
    /^\{\{resolve:secretsmanager:millracedevDatabaseClusterSecret/,
  );
});
