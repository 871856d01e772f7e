import {
  BatchExecuteStatementCommand,
  BeginTransactionCommand,
  CommitTransactionCommand,
  ExecuteStatementCommand,
  RDSDataClient,
  RollbackTransactionCommand,
  type SqlParameter,
} from "@aws-sdk/client-rds-data";
import {
  DeleteMessageCommand,
  GetQueueAttributesCommand,
  GetQueueUrlCommand,
  ReceiveMessageCommand,
  SendMessageCommand,
  SQSClient,
} from "@aws-sdk/client-sqs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type LocalStack, startLocalStack } from "../support/stack.ts";

let stack: LocalStack;
let rdsData: RDSDataClient;
let sqs: SQSClient;
beforeAll(async () => {
  stack = await startLocalStack();
  const { awsEndpoint: endpoint, region } = stack.local;
  const credentials = { accessKeyId: "any", secretAccessKey: "any" };
  rdsData = new RDSDataClient({ endpoint, region, credentials, maxAttempts: 1 });
  sqs = new SQSClient({ endpoint, region, credentials });
  await stack.sql("create table notes (id int primary key, body text, at timestamptz)");
  await stack.sql("grant all on notes to millrace_owner");
});
afterAll(() => stack?.stop());

const target = () => ({
  resourceArn: stack.local.clusterArn,
  secretArn: stack.local.secretArn,
  database: stack.local.database,
});

const execute = (sql: string, parameters: SqlParameter[] = [], transactionId?: string) =>
  rdsData.send(
    new ExecuteStatementCommand({ ...target(), sql, parameters, transactionId, includeResultMetadata: true }),
  );

const notes = async (): Promise<number[]> => (await stack.sql("select id from notes order by id")).map(({ id }) => id);

const begin = async () => (await rdsData.send(new BeginTransactionCommand(target()))).transactionId!;

test("RDS Data: parameters of every kind, with hints and without, arrive as they were meant", async () => {
  const text = (name: string, stringValue: string, typeHint?: SqlParameter["typeHint"]) =>
    ({ name, value: { stringValue }, ...(typeHint ? { typeHint } : {}) }) satisfies SqlParameter;
  const uuid = crypto.randomUUID();
  const { records, columnMetadata } = await execute(
    `select :long + 1 as long, :yes as yes, :double * 2 as double, :text as text, :nothing::text as nothing, :blob as blob,
       :uuid as uuid, :json->>'a' as json, :decimal + 1 as decimal, :day + 1 as day, :time as time, :timestamp as timestamp`,
    [
      { name: "long", value: { longValue: 41 } },
      { name: "yes", value: { booleanValue: true } },
      { name: "double", value: { doubleValue: 0.25 } },
      text("text", "it's :text; ☃"),
      { name: "nothing", value: { isNull: true } },
      { name: "blob", value: { blobValue: new Uint8Array([0, 255]) } },
      text("uuid", uuid, "UUID"),
      text("json", '{"a": "b"}', "JSON"),
      text("decimal", "1.10", "DECIMAL"),
      text("day", "2026-02-28", "DATE"),
      text("time", "23:59:59.5", "TIME"),
      text("timestamp", "2026-01-02 03:04:05.678", "TIMESTAMP"),
    ],
  );
  expect(columnMetadata?.map(({ name, typeName }) => `${name} ${typeName}`).slice(0, 3)).toEqual([
    "long int8",
    "yes bool",
    "double float8",
  ]);
  expect(records).toEqual([
    [
      { longValue: 42 },
      { booleanValue: true },
      { doubleValue: 0.5 },
      { stringValue: "it's :text; ☃" },
      { isNull: true },
      { blobValue: new Uint8Array([0, 255]) },
      { stringValue: uuid },
      { stringValue: "b" },
      { stringValue: "2.10" },
      { stringValue: "2026-03-01" },
      { stringValue: expect.stringMatching(/^23:59:59\.5/) },
      { stringValue: expect.stringMatching(/^2026-01-02 03:04:05\.678/) },
    ],
  ]);
});

test("RDS Data: without a hint a string is text; one that does not fit its hint is refused", async () => {
  const day = (stringValue: string, typeHint?: "DATE"): SqlParameter[] => [
    { name: "day", value: { stringValue }, ...(typeHint ? { typeHint } : {}) },
  ];
  const type = async (parameters: SqlParameter[]) =>
    (await execute("select pg_typeof(:day)::text", parameters)).records?.[0]?.[0]?.stringValue;
  expect([await type(day("2026-01-01")), await type(day("2026-01-01", "DATE"))]).toEqual(["text", "date"]);
  await expect(execute("select date '2026-01-01' = :day", day("2026-01-01"))).rejects.toThrow(/SQLState: 42883$/);
  await expect(execute("select :day", day("1st of May", "DATE"))).rejects.toMatchObject({
    name: "BadRequestException",
  });
});

test("RDS Data: a committed transaction is there, one rolled back is not, one that is over is not found", async () => {
  const kept = await begin();
  await execute("insert into notes (id) values (:id)", [{ name: "id", value: { longValue: 1 } }], kept);
  expect(await notes()).toEqual([]);
  expect(await rdsData.send(new CommitTransactionCommand({ ...target(), transactionId: kept }))).toMatchObject({
    transactionStatus: "Transaction Committed",
  });
  const dropped = await begin();
  await execute("insert into notes (id) values (2)", [], dropped);
  expect(await rdsData.send(new RollbackTransactionCommand({ ...target(), transactionId: dropped }))).toMatchObject({
    transactionStatus: "Rollback Complete",
  });
  expect(await notes()).toEqual([1]);
  await expect(execute("select 1", [], dropped)).rejects.toMatchObject({ name: "TransactionNotFoundException" });
});

test("RDS Data: an error carries its SQLState, and ends the transaction's use", async () => {
  await expect(execute("insert into notes (id) values (1)")).rejects.toMatchObject({
    name: "DatabaseErrorException",
    message: expect.stringMatching(/^ERROR: duplicate key value .*; SQLState: 23505$/s),
    $metadata: { httpStatusCode: 400 },
  });
  const transactionId = await begin();
  await expect(execute("select 1 / 0", [], transactionId)).rejects.toThrow(/SQLState: 22012$/);
  await expect(execute("select 1", [], transactionId)).rejects.toThrow(/SQLState: 25P02$/);
  await rdsData.send(new RollbackTransactionCommand({ ...target(), transactionId }));
});

test("RDS Data: a batch of parameter sets; a result above 1 MB is refused, one below comes whole", async () => {
  const set = (id: number): SqlParameter[] => [{ name: "id", value: { longValue: id } }];
  const sql = "insert into notes (id) values (:id)";
  const batch = new BatchExecuteStatementCommand({ ...target(), sql, parameterSets: [set(7), set(8), set(9)] });
  expect((await rdsData.send(batch)).updateResults?.length).toBe(3);
  expect(await notes()).toEqual([1, 7, 8, 9]);

  const { records } = await execute("select repeat('x', 1000000)");
  expect(records?.[0]?.[0]?.stringValue?.length).toBe(1_000_000);
  await expect(execute("select repeat('x', 1100000)")).rejects.toThrow(/size limit/);
  const [same] = await stack.sql("select count(*)::int as n from notes");
  expect(same.n).toBe(4);
});

test("SQS: send, receive, count and delete, by the queue that local.json names", async () => {
  const QueueUrl = stack.local.queues["volumes"]!.deadUrl!; // nobody else reads this one
  const attributes = async () => {
    const command = new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ["All"] });
    return (await sqs.send(command)).Attributes;
  };
  const QueueName = QueueUrl.slice(QueueUrl.lastIndexOf("/") + 1);
  expect((await sqs.send(new GetQueueUrlCommand({ QueueName }))).QueueUrl).toBe(QueueUrl);
  const { MessageId } = await sqs.send(
    new SendMessageCommand({
      QueueUrl,
      MessageBody: "a message ☃",
      MessageAttributes: { kind: { DataType: "String", StringValue: "test" } },
    }),
  );
  expect(await attributes()).toMatchObject({ ApproximateNumberOfMessages: "1" });
  const { Messages } = await sqs.send(
    new ReceiveMessageCommand({
      QueueUrl,
      WaitTimeSeconds: 5,
      MessageAttributeNames: ["All"],
      MessageSystemAttributeNames: ["All"],
    }),
  );
  expect(Messages).toMatchObject([
    {
      MessageId,
      Body: "a message ☃",
      Attributes: { ApproximateReceiveCount: "1" },
      MessageAttributes: { kind: { StringValue: "test" } },
    },
  ]);
  expect(await attributes()).toMatchObject({
    ApproximateNumberOfMessages: "0",
    ApproximateNumberOfMessagesNotVisible: "1",
  });
  await sqs.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle: Messages![0]!.ReceiptHandle }));
  expect(await attributes()).toMatchObject({ ApproximateNumberOfMessagesNotVisible: "0" });
  await expect(sqs.send(new GetQueueUrlCommand({ QueueName: "ghosts" }))).rejects.toMatchObject({
    name: "QueueDoesNotExist",
  });
});
