import { CloudError } from "../errors.ts";

/** Where volumes and instances are made, and what marks them. All of it is made by the stack (infra/aws/cloud.ts). */
export interface Ec2Settings {
  /** Volumes are made here; it is that of the launch template's subnet, or they could never be attached. */
  readonly availabilityZone: string;
  /** Says everything about an instance: image, type, network, role, disk. */
  readonly launchTemplateId: string;
  readonly launchTemplateVersion: string;
  /** Value of the tag `millrace:stack`, the only one on which the worker's role may act. */
  readonly stack: string;
}

/** The settings in the environment of a worker. Errors: CLOUD_SETTING with the variable. */
export function ec2Settings(env: Readonly<Record<string, string | undefined>>): Ec2Settings {
  const text = (name: string, wanted: RegExp, example: string) => {
    const value = env[name];
    if (value !== undefined && wanted.test(value)) return value;
    throw new CloudError("CLOUD_SETTING", {
      name,
      value: value === undefined ? "not set" : `"${value}"`,
      wanted: `${example}, as the stack does where cloud is ec2`,
    });
  };
  return {
    availabilityZone: text("EC2_AVAILABILITY_ZONE", /^[a-z]+(-[a-z0-9]+)+$/, "an availability zone such as eu-west-1a"),
    launchTemplateId: text("EC2_LAUNCH_TEMPLATE_ID", /^lt-[0-9a-f]+$/, "the id of a launch template (lt-…)"),
    launchTemplateVersion: text("EC2_LAUNCH_TEMPLATE_VERSION", /^\d+$/, "a version of it, a number"),
    stack: text("EC2_STACK", /^.{1,256}$/, "the value of the tag millrace:stack"),
  };
}
