import { GetSecretValueCommand, SecretsManagerClient } from "@aws-sdk/client-secrets-manager";
import type { Context } from "aws-lambda";
import { MillraceError, migrate, prepareApplicationRole, required, systemClock } from "../lib/index.ts";
import { migrations } from "./migrations/index.ts";
import { pipelines } from "./pipelines/index.ts";
import { database, logger } from "./ports.ts";

/** Brings the database up to date; run on each deploy, before the functions that need it. */
export async function handler(_event: unknown, context: Context): Promise<void> {
  logger.addContext(context);
  const db = database(context);
  const role = await applicationRole();
  await migrate({
    database: db,
    registry: pipelines,
    migrations,
    clock: systemClock,
    prepare: () => prepareApplicationRole(db, role),
    log: (message, details) => logger.info(message, { ...details }),
  });
}

/** The application's user and password: read here, set in the database, logged nowhere. */
async function applicationRole(): Promise<{ username: string; password: string }> {
  const client = new SecretsManagerClient({});
  const { SecretString } = await client.send(new GetSecretValueCommand({ SecretId: required("APP_SECRET_ARN") }));
  const secret = JSON.parse(SecretString ?? "{}") as { username?: string; password?: string };
  if (!secret.username || !secret.password)
    throw new MillraceError("ENVIRONMENT", {
      variable: "APP_SECRET_ARN",
      problem: "a secret without username or password",
    });
  return { username: secret.username, password: secret.password };
}
