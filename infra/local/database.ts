/* The Aurora cluster of the template on a plain PostgreSQL: its master user, its database, its secrets. */

import pg from "pg";
import type { DeployedTemplate } from "./deployed-template.ts";
import { LocalError } from "./errors.ts";
import type { Postgres } from "./postgres.ts";
import { generateSecret, type SecretStore } from "./secrets.ts";
import type { JsonObject } from "./template.ts";

export interface ClusterPlan {
  readonly arn: string;
  readonly masterUser: string;
  readonly masterPassword: string;
  /** ARN of the master user's secret. */
  readonly masterSecretArn: string;
  readonly database: string;
}

/** Makes the secrets of the template that the state folder does not hold yet. */
export function makeSecrets(template: DeployedTemplate, secrets: SecretStore): void {
  for (const { id, name, properties } of template.ofType("AWS::SecretsManager::Secret")) {
    const { GenerateSecretString, SecretString } = properties;
    const make = () =>
      typeof SecretString === "string" ? SecretString : generateSecret((GenerateSecretString ?? {}) as JsonObject);
    secrets.ensure(template.valueOf(id), name, make);
  }
}

/** The one cluster of the template. Throws NOT_IN_TEMPLATE, or PROPERTY_UNSUPPORTED without the Data API. */
export function planCluster(template: DeployedTemplate, secrets: SecretStore, port: number): ClusterPlan {
  const [cluster, ...more] = template.ofType("AWS::RDS::DBCluster");
  if (!cluster || more.length > 0) throw new LocalError("NOT_IN_TEMPLATE", { what: "single Aurora cluster" });
  const { id, name, properties } = cluster;
  if (properties["EnableHttpEndpoint"] !== true) {
    const why = "the Data API is the only way in";
    throw new LocalError("PROPERTY_UNSUPPORTED", { id, property: "EnableHttpEndpoint", value: "false", why });
  }
  const masterUser = String(properties["MasterUsername"]);
  const database = String(properties["DatabaseName"] ?? "postgres");
  const arn = template.valueOf(id, "DBClusterArn");
  const address = { engine: "postgres", host: "127.0.0.1", port, dbname: database, dbClusterIdentifier: name };
  for (const attachment of template.ofType("AWS::SecretsManager::SecretTargetAttachment")) {
    secrets.merge(String(attachment.properties["SecretId"]), address);
  }
  const masterSecretArn = masterSecret(template, secrets, id, properties, masterUser);
  const login = secrets.credentials(masterSecretArn);
  if (!login) throw new LocalError("NOT_IN_TEMPLATE", { what: `secret for ${masterUser}` });
  return { arn, masterUser, masterPassword: login.password, masterSecretArn, database };
}

function masterSecret(
  template: DeployedTemplate,
  secrets: SecretStore,
  id: string,
  properties: JsonObject,
  username: string,
): string {
  if (properties["ManageMasterUserPassword"] === true) {
    const arn = template.valueOf(id, "MasterUserSecret.SecretArn");
    const options = { SecretStringTemplate: JSON.stringify({ username }), GenerateStringKey: "password" };
    secrets.ensure(arn, `rds!cluster-${id}`, () => generateSecret({ ...options, ExcludePunctuation: true }));
    return arn;
  }
  const all = template.ofType("AWS::SecretsManager::Secret").map((secret) => template.valueOf(secret.id));
  const own = all.find((arn) => secrets.credentials(arn)?.username === username);
  if (own === undefined) throw new LocalError("NOT_IN_TEMPLATE", { what: `secret with the user ${username}` });
  return own;
}

/** Makes the master user, with the rights that RDS gives it, and the database that it owns. Safe to repeat. */
export async function prepareDatabase(postgres: Postgres, plan: ClusterPlan): Promise<void> {
  const client = new pg.Client({ connectionString: postgres.url("postgres") });
  await client.connect();
  try {
    const user = client.escapeIdentifier(plan.masterUser);
    const database = client.escapeIdentifier(plan.database);
    const roles = await client.query("select 1 from pg_roles where rolname = $1", [plan.masterUser]);
    if (roles.rowCount === 0) await client.query(`create role ${user}`);
    const password = client.escapeLiteral(plan.masterPassword);
    await client.query(`alter role ${user} login createrole createdb password ${password}`);
    await client.query(`grant pg_monitor, pg_signal_backend to ${user}`);
    const databases = await client.query("select 1 from pg_database where datname = $1", [plan.database]);
    if (databases.rowCount === 0) await client.query(`create database ${database} owner ${user}`);
  } finally {
    await client.end();
  }
}
