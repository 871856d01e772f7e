import { Duration, RemovalPolicy } from "aws-cdk-lib";
import * as ec2 from "aws-cdk-lib/aws-ec2";
import * as iam from "aws-cdk-lib/aws-iam";
import * as rds from "aws-cdk-lib/aws-rds";
import type { ISecret } from "aws-cdk-lib/aws-secretsmanager";
import { Construct } from "constructs";
import type { DatabaseSettings } from "../settings.ts";

/**
 * Aurora PostgreSQL reached through the Data API only: the network has no way in and no way out.
 * Two users: `millrace_owner` migrates, `millrace_app` is all that the other functions know.
 */
export class Database extends Construct {
  readonly cluster: rds.DatabaseCluster;
  readonly ownerSecret: ISecret;
  readonly appSecret: ISecret;
  readonly name = "millrace";

  constructor(scope: Construct, id: string, settings: DatabaseSettings) {
    super(scope, id);
    const vpc = new ec2.Vpc(this, "Vpc", {
      maxAzs: 2,
      natGateways: 0,
      subnetConfiguration: [{ name: "database", subnetType: ec2.SubnetType.PRIVATE_ISOLATED }],
      restrictDefaultSecurityGroup: true,
    });
    this.cluster = new rds.DatabaseCluster(this, "Cluster", {
      engine: rds.DatabaseClusterEngine.auroraPostgres({ version: rds.AuroraPostgresEngineVersion.VER_17_9 }),
      writer: rds.ClusterInstance.serverlessV2("Writer"),
      readers: Array.from({ length: settings.readers }, (_, index) =>
        rds.ClusterInstance.serverlessV2(`Reader${index + 1}`, { scaleWithWriter: true }),
      ),
      serverlessV2MinCapacity: settings.minCapacity,
      serverlessV2MaxCapacity: settings.maxCapacity,
      serverlessV2AutoPauseDuration:
        settings.autoPauseMinutes === undefined ? undefined : Duration.minutes(settings.autoPauseMinutes),
      credentials: rds.Credentials.fromGeneratedSecret("millrace_owner"),
      defaultDatabaseName: this.name,
      enableDataApi: true,
      vpc,
      vpcSubnets: { subnetType: ec2.SubnetType.PRIVATE_ISOLATED },
      storageEncrypted: true,
      backup: { retention: Duration.days(settings.backupRetentionDays) },
      deletionProtection: settings.deletionProtection,
      removalPolicy: settings.removal === "snapshot" ? RemovalPolicy.SNAPSHOT : RemovalPolicy.DESTROY,
    });
    this.ownerSecret = this.cluster.secret!;
    this.appSecret = new rds.DatabaseSecret(this, "AppSecret", { username: "millrace_app" });
  }

  /** The environment by which a function finds the database and its user. */
  environment(secret: ISecret): Record<string, string> {
    return {
      DATABASE_CLUSTER_ARN: this.cluster.clusterArn,
      DATABASE_SECRET_ARN: secret.secretArn,
      DATABASE_NAME: this.name,
    };
  }

  /** Lets a function run single statements as the application user. It cannot open a transaction or be the owner. */
  grantStatements(grantee: iam.IGrantable): void {
    this.grant(grantee, this.appSecret, ["rds-data:ExecuteStatement"]);
  }

  /** Lets a function also run transactions as the application user, as a unique name needs one. */
  grantTransactions(grantee: iam.IGrantable): void {
    this.grant(grantee, this.appSecret, ["rds-data:ExecuteStatement", ...TRANSACTIONS]);
  }

  /** Lets the migration run transactions as the owner. */
  grantMigration(grantee: iam.IGrantable): void {
    this.grant(grantee, this.ownerSecret, ["rds-data:ExecuteStatement", ...TRANSACTIONS]);
    grantSecret(grantee, this.appSecret);
  }

  private grant(grantee: iam.IGrantable, secret: ISecret, actions: string[]): void {
    iam.Grant.addToPrincipal({ grantee, actions, resourceArns: [this.cluster.clusterArn] });
    grantSecret(grantee, secret);
  }
}

const TRANSACTIONS = ["rds-data:BeginTransaction", "rds-data:CommitTransaction", "rds-data:RollbackTransaction"];

function grantSecret(grantee: iam.IGrantable, secret: ISecret): void {
  iam.Grant.addToPrincipal({ grantee, actions: ["secretsmanager:GetSecretValue"], resourceArns: [secret.secretArn] });
}
