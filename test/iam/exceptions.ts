/** Grants that no stack on one machine makes use of, and why they are there. */
export interface Exception {
  /** Logical id of the role without CDK's hash, or a beginning of it with `*`. */
  readonly role: string;
  /** As the statement has it. */
  readonly actions: readonly string[];
  readonly why: string;
  /** `ec2`: only in stages whose cloud is EC2. */
  readonly cloud?: "ec2";
}

const LOGS = ["logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents"];

const SECURITY_GROUP = [
  "ec2:AuthorizeSecurityGroupEgress",
  "ec2:AuthorizeSecurityGroupIngress",
  "ec2:RevokeSecurityGroupEgress",
  "ec2:RevokeSecurityGroupIngress",
];

/** Each must match a grant that is unused: one that matches nothing is an error. */
export const EXCEPTIONS: readonly Exception[] = [
  {
    role: "AWSCDKTriggerCustomResourceProviderCustomResourceProviderRole",
    actions: LOGS,
    why: "AWS's own policy, attached by CDK: its function writes its log while a stack is deployed; here the trigger is invoked without it",
  },
  {
    role: "CustomVpcRestrictDefaultSGCustomResourceProviderRole",
    actions: LOGS,
    why: "AWS's own policy, attached by CDK: its function runs while a stack is deployed, and there is no network here",
  },
  {
    role: "CustomVpcRestrictDefaultSGCustomResourceProviderRole",
    actions: SECURITY_GROUP,
    why: "CDK's function empties the VPC's default security group during a deployment; there is no network here",
  },
  {
    role: "CustomVpcRestrictDefaultSGCustomResourceProviderRole",
    actions: SECURITY_GROUP,
    why: "the same in the network of the instances",
    cloud: "ec2",
  },
  {
    role: "Pipelines*WorkerRole",
    actions: [
      ...["ec2:AttachVolume", "ec2:CreateTags", "ec2:CreateVolume", "ec2:DeleteVolume", "ec2:DescribeVolumes"],
      ...["ec2:DetachVolume", "ec2:RunInstances", "ec2:TerminateInstances", "iam:PassRole"],
    ],
    why: "EC2 volumes and instances; the local cloud is an HTTP server that asks for no rights",
    cloud: "ec2",
  },
  {
    role: "Pipelines*WorkerRole",
    actions: [
      "ec2:DescribeInstances",
      "ssm:DescribeInstanceInformation",
      "ssm:GetCommandInvocation",
      "ssm:SendCommand",
    ],
    why: "commands on EC2 instances by Run Command; the local cloud starts processes",
    cloud: "ec2",
  },
  {
    role: "ApiHandlerRole",
    actions: [
      "ec2:DescribeInstances",
      "ssm:DescribeInstanceInformation",
      "ssm:GetCommandInvocation",
      "ssm:SendCommand",
    ],
    why: "the output of running jobs is read on EC2 instances by a command; the local cloud has a file",
    cloud: "ec2",
  },
];
