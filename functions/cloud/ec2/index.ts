import { EC2Client } from "@aws-sdk/client-ec2";
import { SSMClient } from "@aws-sdk/client-ssm";
import type { Cloud } from "../cloud.ts";
import { ec2Attachments } from "./attachments.ts";
import type { Aws } from "./calls.ts";
import { ec2Commands } from "./commands.ts";
import { ec2Instances } from "./instances.ts";
import type { Ec2Settings } from "./settings.ts";
import { ec2Volumes } from "./volumes.ts";

/** Milliseconds between two looks at what AWS is still doing; a script takes one to three seconds. */
const PAUSE_MS = 1_000;

/** Amazon's cloud: EBS volumes, EC2 instances, commands through Systems Manager. Region and credentials: the SDK's. */
export function createEc2Cloud(settings: Ec2Settings, pauseMs = PAUSE_MS): Cloud {
  // Every call may be repeated, so the SDK's three attempts are safe; a connection is there soon or not at all.
  const options = { requestHandler: { connectionTimeout: 2_000, requestTimeout: 10_000 } };
  const aws: Aws = { ec2: new EC2Client(options), ssm: new SSMClient(options), settings, pauseMs };
  return { ...ec2Volumes(aws), ...ec2Instances(aws), ...ec2Attachments(aws), ...ec2Commands(aws) };
}
