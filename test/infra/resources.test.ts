import { describe, expect, it } from "vitest";
import { byName, ofType, plain, resourcesOf, short } from "./assemble.ts";

const resources = resourcesOf();
const functions = byName(resources, "AWS::Lambda::Function");
const queues = byName(resources, "AWS::SQS::Queue");

describe("the template", () => {
  it("holds these resources and no other", () => {
    const list = Object.entries(resources).map(([id, { Type }]) => `${Type} ${plain(id)}`);
    expect(list.sort().join("\n")).toMatchInlineSnapshot(`
      "AWS::EC2::RouteTable DatabaseVpcdatabaseSubnet1RouteTable
      AWS::EC2::RouteTable DatabaseVpcdatabaseSubnet2RouteTable
      AWS::EC2::SecurityGroup DatabaseClusterSecurityGroup
      AWS::EC2::Subnet DatabaseVpcdatabaseSubnet1Subnet
      AWS::EC2::Subnet DatabaseVpcdatabaseSubnet2Subnet
      AWS::EC2::SubnetRouteTableAssociation DatabaseVpcdatabaseSubnet1RouteTableAssociation
      AWS::EC2::SubnetRouteTableAssociation DatabaseVpcdatabaseSubnet2RouteTableAssociation
      AWS::EC2::VPC DatabaseVpc
      AWS::IAM::Policy ApiHandlerRoleDefaultPolicy
      AWS::IAM::Policy MigrationsMigrateRoleDefaultPolicy
      AWS::IAM::Policy PipelinesFetcherRoleDefaultPolicy
      AWS::IAM::Policy PipelinesFetcherScheduleRoleDefaultPolicy
      AWS::IAM::Policy PipelinesHeartbeaterRoleDefaultPolicy
      AWS::IAM::Policy PipelinesHeartbeaterScheduleRoleDefaultPolicy
      AWS::IAM::Policy PipelinesjobsrunningWorkerRoleDefaultPolicy
      AWS::IAM::Policy PipelinesvolumesWorkerRoleDefaultPolicy
      AWS::IAM::Role AWSCDKTriggerCustomResourceProviderCustomResourceProviderRole
      AWS::IAM::Role ApiHandlerRole
      AWS::IAM::Role CustomVpcRestrictDefaultSGCustomResourceProviderRole
      AWS::IAM::Role MigrationsMigrateRole
      AWS::IAM::Role PipelinesFetcherRole
      AWS::IAM::Role PipelinesFetcherScheduleRole
      AWS::IAM::Role PipelinesHeartbeaterRole
      AWS::IAM::Role PipelinesHeartbeaterScheduleRole
      AWS::IAM::Role PipelinesjobsrunningWorkerRole
      AWS::IAM::Role PipelinesvolumesWorkerRole
      AWS::Lambda::EventInvokeConfig PipelinesFetcherEventInvokeConfig
      AWS::Lambda::EventInvokeConfig PipelinesHeartbeaterEventInvokeConfig
      AWS::Lambda::EventSourceMapping PipelinesFetcherSqsEventSourcemillracedevPipelinesHints5FC99288
      AWS::Lambda::EventSourceMapping PipelinesjobsrunningWorkerSqsEventSourcemillracedevPipelinesjobsrunningItemsC3ABFDBB
      AWS::Lambda::EventSourceMapping PipelinesvolumesWorkerSqsEventSourcemillracedevPipelinesvolumesItemsE26C414D
      AWS::Lambda::Function AWSCDKTriggerCustomResourceProviderCustomResourceProviderHandler
      AWS::Lambda::Function ApiHandler
      AWS::Lambda::Function CustomVpcRestrictDefaultSGCustomResourceProviderHandler
      AWS::Lambda::Function MigrationsMigrate
      AWS::Lambda::Function PipelinesFetcher
      AWS::Lambda::Function PipelinesHeartbeater
      AWS::Lambda::Function PipelinesjobsrunningWorker
      AWS::Lambda::Function PipelinesvolumesWorker
      AWS::Lambda::Url ApiHandlerFunctionUrl
      AWS::Lambda::Version MigrationsMigrateCurrentVersion
      AWS::Logs::LogGroup ApiHandlerLog
      AWS::Logs::LogGroup MigrationsMigrateLog
      AWS::Logs::LogGroup PipelinesFetcherLog
      AWS::Logs::LogGroup PipelinesHeartbeaterLog
      AWS::Logs::LogGroup PipelinesjobsrunningWorkerLog
      AWS::Logs::LogGroup PipelinesvolumesWorkerLog
      AWS::RDS::DBCluster DatabaseCluster
      AWS::RDS::DBInstance DatabaseClusterWriter
      AWS::RDS::DBSubnetGroup DatabaseClusterSubnets
      AWS::SQS::Queue PipelinesHints
      AWS::SQS::Queue PipelinesHintsDead
      AWS::SQS::Queue PipelinesjobsrunningItems
      AWS::SQS::Queue PipelinesjobsrunningItemsDead
      AWS::SQS::Queue PipelinesvolumesItems
      AWS::SQS::Queue PipelinesvolumesItemsDead
      AWS::SQS::QueuePolicy PipelinesHintsDeadPolicy
      AWS::SQS::QueuePolicy PipelinesHintsPolicy
      AWS::SQS::QueuePolicy PipelinesjobsrunningItemsDeadPolicy
      AWS::SQS::QueuePolicy PipelinesjobsrunningItemsPolicy
      AWS::SQS::QueuePolicy PipelinesvolumesItemsDeadPolicy
      AWS::SQS::QueuePolicy PipelinesvolumesItemsPolicy
      AWS::Scheduler::Schedule PipelinesFetcherSchedule
      AWS::Scheduler::Schedule PipelinesHeartbeaterSchedule
      AWS::SecretsManager::Secret DatabaseAppSecret
      AWS::SecretsManager::Secret millracedevDatabaseClusterSecret
      AWS::SecretsManager::SecretTargetAttachment DatabaseClusterSecretAttachment
      Custom::Trigger MigrationsTrigger
      Custom::VpcRestrictDefaultSG DatabaseVpcRestrictDefaultSecurityGroupCustomResource"
    `);
  });

  it("gives every function and queue of ours a name, and no physical one", () => {
    expect(Object.keys(functions).sort()).toEqual([
      "api",
      "fetcher",
      "heartbeater",
      "migrate",
      "worker-jobs-running",
      "worker-volumes",
    ]);
    expect(Object.keys(queues).sort()).toEqual([
      "hints",
      "hints-dead",
      "jobs-running",
      "jobs-running-dead",
      "volumes",
      "volumes-dead",
    ]);
    for (const { Properties } of Object.values(functions)) expect(Properties.FunctionName).toBeUndefined();
    for (const { Properties } of Object.values(queues)) expect(Properties.QueueName).toBeUndefined();
  });
});

describe("functions", () => {
  it.each(Object.keys(functions))("%s runs on Node 24 and Arm, with JSON logs in a group that forgets", (name) => {
    const { Properties } = functions[name]!;
    expect(Properties).toMatchObject({
      Runtime: "nodejs24.x",
      Architectures: ["arm64"],
      Handler: "index.handler",
      LoggingConfig: { LogFormat: "JSON", ApplicationLogLevel: "DEBUG" },
    });
    expect(resources[Properties.LoggingConfig.LogGroup.Ref]!.Properties.RetentionInDays).toBe(7);
  });

  it("have the manifest's timeouts and the settings' reservations", () => {
    const numbers = Object.entries(functions).map(([name, { Properties }]) => [
      name,
      [Properties.Timeout, Properties.ReservedConcurrentExecutions],
    ]);
    expect(Object.fromEntries(numbers)).toEqual({
      api: [30, 10],
      fetcher: [60, 6],
      heartbeater: [90, 2],
      migrate: [840, undefined],
      "worker-jobs-running": [90, undefined],
      "worker-volumes": [90, undefined],
    });
  });

  it("on the way hint, fetcher, item, worker, hint are not taken for a runaway loop", () => {
    const allowed = Object.keys(functions).filter((name) => functions[name]!.Properties.RecursiveLoop === "Allow");
    expect(allowed.sort()).toEqual(["fetcher", "heartbeater", "worker-jobs-running", "worker-volumes"]);
  });

  it("share one bundle where they are the same", () => {
    const key = (name: string) => functions[name]!.Properties.Code.S3Key;
    expect(key("worker-volumes")).toBe(key("worker-jobs-running"));
    expect(new Set(Object.keys(functions).map(key)).size).toBe(5);
  });
});

describe("queues", () => {
  it.each(Object.keys(queues))("%s is encrypted and refuses plain HTTP", (name) => {
    const [id] = Object.entries(resources).find(([, resource]) => resource === queues[name])!;
    expect(queues[name]!.Properties.SqsManagedSseEnabled).toBe(true);
    const policy = ofType(resources, "AWS::SQS::QueuePolicy").find(([, p]) => p.Properties.Queues[0].Ref === id);
    expect(policy?.[1].Properties.PolicyDocument.Statement).toMatchObject([
      { Effect: "Deny", Action: "sqs:*", Condition: { Bool: { "aws:SecureTransport": "false" } } },
    ]);
  });

  it("feed their functions in batches, with partial answers", () => {
    const mappings = ofType(resources, "AWS::Lambda::EventSourceMapping").map(([, { Properties: p }]) => ({
      from: short(p.EventSourceArn),
      to: short(p.FunctionName),
      size: p.BatchSize,
      window: p.MaximumBatchingWindowInSeconds,
      concurrency: p.ScalingConfig.MaximumConcurrency,
      answers: p.FunctionResponseTypes,
    }));
    const common = { size: 10, window: 0, answers: ["ReportBatchItemFailures"] };
    expect(mappings).toEqual([
      { from: "PipelinesvolumesItems.Arn", to: "PipelinesvolumesWorker", concurrency: 2, ...common },
      { from: "PipelinesjobsrunningItems.Arn", to: "PipelinesjobsrunningWorker", concurrency: 3, ...common },
      { from: "PipelinesHints.Arn", to: "PipelinesFetcher", concurrency: 5, ...common },
    ]);
  });
});

describe("schedules", () => {
  it("run the fetcher and the heartbeater every minute, and drop what is late", () => {
    const schedules = ofType(resources, "AWS::Scheduler::Schedule").map(([, { Properties }]) => Properties);
    expect(schedules.map(({ Target }) => short(Target.Arn)).sort()).toEqual([
      "PipelinesFetcher.Arn",
      "PipelinesHeartbeater.Arn",
    ]);
    for (const schedule of schedules) {
      expect(schedule).toMatchObject({
        ScheduleExpression: "rate(1 minute)",
        FlexibleTimeWindow: { Mode: "OFF" },
        Target: {
          Input: '{"millrace":"schedule"}',
          RetryPolicy: { MaximumRetryAttempts: 0, MaximumEventAgeInSeconds: 60 },
        },
      });
    }
  });

  it("are not repeated by Lambda either", () => {
    const configs = ofType(resources, "AWS::Lambda::EventInvokeConfig").map(([, { Properties: p }]) => ({
      of: short(p.FunctionName),
      age: p.MaximumEventAgeInSeconds,
      retries: p.MaximumRetryAttempts,
    }));
    expect(configs).toEqual([
      { of: "PipelinesHeartbeater", age: 60, retries: 0 },
      { of: "PipelinesFetcher", age: 60, retries: 0 },
    ]);
  });
});

describe("the database", () => {
  const [[, { Properties: cluster }]] = ofType(resources, "AWS::RDS::DBCluster") as [
    [string, (typeof resources)[string]],
  ];

  it("is an encrypted Aurora PostgreSQL 17 behind the Data API", () => {
    expect(cluster).toMatchObject({
      Engine: "aurora-postgresql",
      EngineVersion: "17.9",
      DatabaseName: "millrace",
      EnableHttpEndpoint: true,
      StorageEncrypted: true,
      ServerlessV2ScalingConfiguration: { MinCapacity: 0.5, MaxCapacity: 2 },
    });
  });

  it("has no way in or out of its network", () => {
    const types = Object.values(resources).map(({ Type }) => Type);
    expect(types.filter((type) => /Gateway|::Route$|Ingress|::EIP/.test(type))).toEqual([]);
    for (const [, group] of ofType(resources, "AWS::EC2::SecurityGroup")) {
      expect(group.Properties.SecurityGroupIngress).toBeUndefined();
    }
  });
});

describe("the API", () => {
  it("has a URL for callers that sign", () => {
    const [[, url]] = ofType(resources, "AWS::Lambda::Url") as [[string, (typeof resources)[string]]];
    expect(url.Properties).toMatchObject({ AuthType: "AWS_IAM" });
    expect(short(url.Properties.TargetFunctionArn)).toBe("ApiHandler.Arn");
  });
});
