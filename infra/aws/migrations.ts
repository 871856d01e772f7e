import { Duration } from "aws-cdk-lib";
import type * as lambda from "aws-cdk-lib/aws-lambda";
import { Trigger } from "aws-cdk-lib/triggers";
import { Construct } from "constructs";
import type { Settings } from "../settings.ts";
import type { Database } from "./database.ts";
import { defineFunction } from "./functions.ts";

export interface MigrationsProps {
  readonly database: Database;
  /** The bundle of the handler, with all migrations in it. */
  readonly code: lambda.Code;
  readonly settings: Settings;
}

/**
 * Migrates the database in each deployment that changes a migration, before any function that uses the tables.
 * The trigger invokes a *version* of the function, and a new bundle makes a new version.
 * If it fails, the deployment is rolled back, and the schema is not: each step must suit the code before it.
 */
export class Migrations extends Construct {
  readonly handler: lambda.Function;
  readonly trigger: Trigger;

  constructor(scope: Construct, id: string, { database, code, settings }: MigrationsProps) {
    super(scope, id);
    this.handler = defineFunction(this, "Migrate", {
      name: "migrate",
      code,
      timeoutSeconds: 840,
      environment: {
        ...database.environment(database.ownerSecret),
        APP_SECRET_ARN: database.appSecret.secretArn,
      },
      settings,
    });
    database.grantMigration(this.handler);
    this.trigger = new Trigger(this, "Trigger", {
      handler: this.handler,
      // The deployment has to outwait the function, or it reports a failure while the migration goes on.
      timeout: Duration.minutes(15),
      executeAfter: [database],
    });
  }

  /** Makes functions wait until the tables are as they expect them. */
  runBefore(...functions: lambda.Function[]): void {
    this.trigger.executeBefore(...functions);
  }
}
