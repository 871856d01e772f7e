import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished, vi } from "vitest";
import type { Cloud } from "../../../functions/cloud/cloud.ts";
import { createEc2Cloud } from "../../../functions/cloud/ec2/index.ts";
import type { Ec2Settings } from "../../../functions/cloud/ec2/settings.ts";

export const settings: Ec2Settings = {
  availabilityZone: "eu-west-1a",
  launchTemplateId: "lt-0abcdef0123456789",
  launchTemplateVersion: "7",
  stack: "millrace-prod",
};

/** Parameters of a request: flat for EC2's query protocol, as they are in JSON for Systems Manager. */
export type Sent = Readonly<Record<string, unknown>>;

export interface Answer {
  /** Default 200. */
  readonly status?: number;
  /** XML for EC2, a value for Systems Manager. */
  readonly body: unknown;
}

/** Answers of an action, in order; the last one stands for all that follow. One that throws cuts the connection. */
export type Answers = Readonly<Record<string, readonly (Answer | ((sent: Sent) => Answer | Promise<Answer>))[]>>;

export interface RunningAws {
  readonly cloud: Cloud;
  readonly url: string;
  /** Every request, in order: `[action, parameters]`. */
  readonly requests: [string, Sent][];
  /** The parameters of the requests of one action. */
  sent(action: string): Sent[];
  actions(): string[];
}

/** A server on loopback that the SDK's own clients speak with; it records what they send. One attempt a call. */
export async function runAws(answers: Answers): Promise<RunningAws> {
  const requests: [string, Sent][] = [];
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request.setEncoding("utf8")) body += chunk;
    const target = request.headers["x-amz-target"];
    const { Action, Version: _, ...query } = Object.fromEntries(new URLSearchParams(body));
    const action = typeof target === "string" ? target.replace("AmazonSSM.", "") : (Action ?? "?");
    const sent: Sent = target === undefined ? query : JSON.parse(body);
    const earlier = requests.filter(([name]) => name === action).length;
    requests.push([action, sent]);
    const next = answers[action]?.at(Math.min(earlier, answers[action].length - 1));
    let answer: Answer;
    try {
      answer = (typeof next === "function" ? await next(sent) : next) ?? failure(501, `NoAnswerFor${action}`);
    } catch {
      request.socket.destroy();
      return;
    }
    response.writeHead(answer.status ?? 200, { "content-type": target ? "application/x-amz-json-1.1" : "text/xml" });
    response.end(typeof answer.body === "string" ? answer.body : JSON.stringify(answer.body));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    vi.unstubAllEnvs();
    server.closeAllConnections();
    return new Promise<void>((resolve) => server.close(() => resolve()));
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  pointAt(url);
  return {
    cloud: createEc2Cloud(settings, 1),
    url,
    requests,
    sent: (action) => requests.filter(([name]) => name === action).map(([, sent]) => sent),
    actions: () => requests.map(([action]) => action),
  };
}

/** The environment by which the SDK finds its endpoint. */
export function pointAt(url: string): void {
  vi.stubEnv("AWS_ENDPOINT_URL", url);
  vi.stubEnv("AWS_REGION", "eu-west-1");
  vi.stubEnv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE");
  vi.stubEnv("AWS_SECRET_ACCESS_KEY", "secret");
  vi.stubEnv("AWS_MAX_ATTEMPTS", "1");
}

/** An error of EC2, as its API reference shows it. */
export const failure = (status: number, code: string, message = `${code}, says EC2`): Answer => ({
  status,
  body: `<?xml version="1.0" encoding="UTF-8"?>
<Response><Errors><Error><Code>${code}</Code><Message>${message}</Message></Error></Errors><RequestID>ea966190-f9aa-478e-9ede-example</RequestID></Response>`,
});

/** An error of Systems Manager. */
export const ssmFailure = (status: number, type: string): Answer => ({
  status,
  body: { __type: type, message: `${type}, says Systems Manager` },
});

/** The answer of an action of EC2, with what stands between its tags. */
export const xml = (action: string, inner: string): Answer => ({
  body: `<?xml version="1.0" encoding="UTF-8"?>
<${action}Response xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>59dbff89-35bd-4eac-99ed-be587EXAMPLE</requestId>${inner}</${action}Response>`,
});

interface Attached {
  readonly instanceId: string;
  readonly status: string;
}

export const volumesAre = (...volumes: { id: string; attached?: Attached }[]): Answer =>
  xml(
    "DescribeVolumes",
    `<volumeSet>${volumes
      .map(
        ({ id, attached }) =>
          `<item><volumeId>${id}</volumeId><size>10</size><snapshotId/><availabilityZone>eu-west-1a</availabilityZone><status>${attached ? "in-use" : "available"}</status><createTime>2026-11-30T10:00:00.000Z</createTime><attachmentSet>${
            attached === undefined
              ? ""
              : `<item><volumeId>${id}</volumeId><instanceId>${attached.instanceId}</instanceId><device>/dev/sdf</device><status>${attached.status}</status><attachTime>2026-11-30T10:00:00.000Z</attachTime><deleteOnTermination>false</deleteOnTermination></item>`
          }</attachmentSet><volumeType>gp3</volumeType><encrypted>true</encrypted></item>`,
      )
      .join("")}</volumeSet>`,
  );

export const instancesAre = (...instances: { id: string; state: string; devices?: string[] }[]): Answer =>
  xml(
    "DescribeInstances",
    `<reservationSet>${instances
      .map(
        ({ id, state, devices = ["/dev/xvda"] }) =>
          `<item><reservationId>r-1</reservationId><ownerId>111122223333</ownerId><groupSet/><instancesSet><item><instanceId>${id}</instanceId><imageId>ami-1</imageId><instanceState><code>16</code><name>${state}</name></instanceState><blockDeviceMapping>${devices
            .map((name) => `<item><deviceName>${name}</deviceName><ebs><volumeId>vol-0</volumeId></ebs></item>`)
            .join("")}</blockDeviceMapping></item></instancesSet></item>`,
      )
      .join("")}</reservationSet>`,
  );

/** Whether Systems Manager reaches the instance. */
export const pings = (...status: string[]): Answer => ({
  body: { InstanceInformationList: status.map((PingStatus) => ({ InstanceId: "i-0a", PingStatus })) },
});
