import { Stack } from "aws-cdk-lib";
import type * as lambda from "aws-cdk-lib/aws-lambda";
import type { Construct } from "constructs";
import type { Manifest } from "../../lib/index.ts";
import type { Settings } from "../settings.ts";
import { Api } from "./api.ts";
import type { HandlerName } from "./bundle.ts";
import { checkSettings } from "./check-settings.ts";
import { Database } from "./database.ts";
import { Migrations } from "./migrations.ts";
import { Pipelines } from "./pipelines.ts";

export interface MillraceStackProps {
  readonly manifest: Manifest;
  /** The bundle of each handler. */
  readonly code: Readonly<Record<HandlerName, lambda.Code>>;
  readonly settings: Settings;
}

/** One stage: database, migrations, pipelines and the API, in the order in which a deployment needs them. */
export class MillraceStack extends Stack {
  readonly database: Database;
  readonly pipelines: Pipelines;
  readonly api: Api;
  readonly migrations: Migrations;

  constructor(scope: Construct, id: string, { manifest, code, settings }: MillraceStackProps) {
    super(scope, id, {
      description: `Millrace, stage ${settings.stage}`,
      terminationProtection: settings.terminationProtection,
    });
    checkSettings(settings);
    this.database = new Database(this, "Database", settings.database);
    this.migrations = new Migrations(this, "Migrations", {
      database: this.database,
      code: code.migrate,
      settings,
    });
    this.pipelines = new Pipelines(this, "Pipelines", { manifest, database: this.database, code, settings });
    this.api = new Api(this, "Api", {
      database: this.database,
      hintQueue: this.pipelines.hintQueue,
      cloud: this.pipelines.cloud,
      code: code.api,
      settings,
    });
    this.migrations.runBefore(...this.pipelines.functions, this.api.handler);
  }
}
