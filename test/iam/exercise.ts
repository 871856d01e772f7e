import { InvokeCommand, LambdaClient } from "@aws-sdk/client-lambda";
import { submitJob, untilInstances, untilJob } from "../support/compute.ts";
import type { LocalStack } from "../support/stack.ts";
import { until } from "../support/until.ts";
import { cloudFault, createVolume, untilGone, untilStatus } from "../support/volumes.ts";

/** A step of the exercise, told as it begins. */
export type Tell = (step: string) => void;

/**
 * Makes a stack do everything that its roles have rights for: every pipeline, the ways of a pass that need more rights
 * than the normal one, every route of the API that calls AWS, and the migration, also one that fails.
 */
export async function exercise(stack: LocalStack, tell: Tell): Promise<void> {
  tell("a heartbeater that is gone, and messages that are lost on their way: volumes");
  await stack.sql("update millrace.upkeep set done_at = now() - interval '1 hour' where task = 'heartbeat'");
  const data = await lostMessages(stack, ["volumes"], () => createVolume(stack, "data"));
  await untilStatus(stack, "data", "active");

  tell("a volume that fails at first: its fetcher asks to be woken for the next try");
  await cloudFault(stack, { match: "flaky", kind: "fail", count: 1 });
  const flaky = await createVolume(stack, "flaky");

  tell("fleets, instances and jobs, each with a lost message");
  const wanted = { name: "dev", nodes: 2, slots: 1 };
  const { body: fleet } = await lostMessages(stack, ["fleets", "instances"], () =>
    stack.api("POST", "/fleets", wanted),
  );
  await expectStatus(stack.api("POST", "/fleets", wanted), 409);
  await untilInstances(stack, fleet.id, { idle: 2 });
  const job = await lostMessages(stack, ["jobs-submitted", "jobs-running", "jobs-terminating"], () =>
    submitJob(stack, fleet.id, ["sh", "-c", "echo hello; sleep 1; echo bye"], [data.id]),
  );
  await untilJob(stack, job.id, ["done"]);
  await expectStatus(stack.api("GET", `/jobs/${job.id}/output?from=0`), 200);

  tell("a job that is stopped, lists, pause, resume and hints");
  const stopped = await submitJob(stack, fleet.id, ["sleep", "100"]);
  await untilJob(stack, stopped.id, ["running"]);
  await expectStatus(stack.api("POST", `/jobs/${stopped.id}/stop`), 202);
  for (const path of ["/volumes", "/fleets", "/jobs", "/events", "/pipelines"])
    await expectStatus(stack.api("GET", path), 200);
  await expectStatus(stack.api("POST", "/pipelines/volumes/pause", { by: "iam:report" }), 200);
  await expectStatus(stack.api("POST", "/pipelines/volumes/resume"), 200);
  await expectStatus(stack.api("POST", "/hints", { table: "volumes" }), 202);
  await untilJob(stack, stopped.id, ["terminated"]);

  tell("a worker that dies: the heartbeater asks for its row to be fetched");
  await takenOver(stack);

  tell("deletions");
  await untilStatus(stack, "flaky", "active");
  await expectStatus(stack.api("DELETE", `/fleets/${fleet.id}`), 202);
  for (const { id } of [data, flaky]) {
    await expectStatus(stack.api("DELETE", `/volumes/${id}`), 202);
    await untilGone(stack, id, 60_000);
  }

  tell("a migration that fails in its transaction");
  await expectStatus(
    stack.control("POST", "/data-api/faults", { kind: "error", match: "millrace.verifier", count: 1 }),
    201,
  );
  await migrate(stack);
}

async function expectStatus(answering: Promise<{ status: number; body: unknown }>, status: number): Promise<void> {
  const answer = await answering;
  if (answer.status !== status) throw new Error(`${status} expected: ${JSON.stringify(answer)}`);
}

/**
 * Does something that sends items through these pipelines, one after the other, while their workers are stopped. Of each
 * message it is then said that it was sent an hour ago: the heartbeater sends it again, and the worker goes on.
 */
async function lostMessages<T>(stack: LocalStack, pipelines: readonly string[], work: () => Promise<T>): Promise<T> {
  for (const pipeline of pipelines) await stack.control("POST", `/functions/worker-${pipeline}/stop`);
  const result = await work();
  for (const pipeline of pipelines) {
    const isResent = () =>
      stack.logs("heartbeater").some((l) => l.message === "items.resent" && l.pipeline === pipeline);
    await until(
      async () => {
        await stack.sql(
          "update millrace.items set queued_at = now() - interval '1 hour' where pipeline = $1 and state = 'queued'",
          [pipeline],
        );
        return isResent();
      },
      { what: `a message to ${pipeline} to be sent again`, timeoutMs: 120_000, everyMs: 200 },
    );
    await stack.control("POST", `/functions/worker-${pipeline}/start`);
  }
  return result;
}

/** A row whose lock has expired while nobody fetches: its worker is stopped, so that the hint alone tells of it. */
async function takenOver(stack: LocalStack): Promise<void> {
  await stack.control("POST", "/functions/worker-volumes/stop");
  const { id } = await createVolume(stack, "orphan");
  const hinted = async () => {
    const { body } = await stack.control("GET", "/access");
    const unused = body.unused as { role: string; action: string; resource: string }[];
    return !unused.some(({ role, action, resource }) => {
      return role.startsWith("PipelinesHeartbeaterRole") && action === "sqs:SendMessage" && resource.endsWith(":hints");
    });
  };
  await until(
    async () => {
      await stack.sql(
        "update volumes set lock_expires_at = now() - interval '1 second' where id = $1 and lock_token is not null",
        [id],
      );
      return hinted();
    },
    { what: "the heartbeater's hint", timeoutMs: 120_000, everyMs: 500 },
  );
  await stack.control("POST", "/functions/worker-volumes/start");
  await untilStatus(stack, "orphan", "active");
}

/** Runs the migration once more, as the trigger does; answers nothing of how it ended. */
async function migrate({ local }: LocalStack): Promise<void> {
  const credentials = { accessKeyId: "developer", secretAccessKey: "developer" };
  const client = new LambdaClient({ endpoint: local.awsEndpoint, region: local.region, credentials });
  await client.send(new InvokeCommand({ FunctionName: "migrate", Payload: "{}" }));
  client.destroy();
}
