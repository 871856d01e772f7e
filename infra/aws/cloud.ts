import { Aws, Stack } from "aws-cdk-lib";
import * as ec2 from "aws-cdk-lib/aws-ec2";
import * as iam from "aws-cdk-lib/aws-iam";
import type * as lambda from "aws-cdk-lib/aws-lambda";
import { Construct } from "constructs";
import type { Ec2Settings, Settings } from "../settings.ts";

/** What a worker needs to work with volumes and instances. */
export interface WorkerCloud {
  readonly environment: Readonly<Record<string, string>>;
  /** Gives a worker the rights to it. */
  grant(worker: lambda.Function): void;
  /** Gives the rights to read what commands have written, and no others. */
  grantOutput(reader: lambda.Function): void;
}

/** The cloud of a stage. The local one asks for no rights: it exists on one machine only. */
export function defineCloud(scope: Construct, id: string, { cloud, ec2: settings }: Settings): WorkerCloud {
  if (cloud === "ec2" && settings !== undefined) return new Ec2Cloud(scope, id, settings);
  return { environment: { CLOUD: cloud }, grant() {}, grantOutput() {} };
}

/**
 * What instances are made of: a launch template, a role by which Systems Manager reaches them, and unless there is a
 * network already, a small one: a public subnet whose security group lets nobody in. Everything that workers make has
 * the tag `millrace:stack`, and their rights end there.
 */
class Ec2Cloud extends Construct implements WorkerCloud {
  readonly environment: Readonly<Record<string, string>>;
  readonly template: ec2.CfnLaunchTemplate;
  readonly role: iam.Role;
  readonly securityGroup: ec2.SecurityGroup;
  private readonly subnetId: string;

  constructor(scope: Construct, id: string, settings: Ec2Settings) {
    super(scope, id);
    const { vpc, subnetId, availabilityZone } = this.network(settings);
    this.subnetId = subnetId;
    this.securityGroup = new ec2.SecurityGroup(this, "SecurityGroup", {
      vpc,
      description: "Instances of Millrace: nothing in; out to Systems Manager and for jobs",
    });
    this.role = new iam.Role(this, "InstanceRole", {
      assumedBy: new iam.ServicePrincipal("ec2.amazonaws.com"),
      managedPolicies: [iam.ManagedPolicy.fromAwsManagedPolicyName("AmazonSSMManagedInstanceCore")],
    });
    this.template = this.defineTemplate(settings);
    this.environment = {
      CLOUD: "ec2",
      EC2_AVAILABILITY_ZONE: availabilityZone,
      EC2_LAUNCH_TEMPLATE_ID: this.template.ref,
      EC2_LAUNCH_TEMPLATE_VERSION: this.template.attrLatestVersionNumber,
      EC2_STACK: Stack.of(this).stackName,
    };
  }

  grant(worker: lambda.Function): void {
    for (const statement of this.statements()) worker.addToRolePolicy(statement);
  }

  grantOutput(reader: lambda.Function): void {
    for (const statement of this.scriptStatements()) reader.addToRolePolicy(statement);
  }

  private network({ network }: Ec2Settings): { vpc: ec2.IVpc; subnetId: string; availabilityZone: string } {
    if (network !== undefined) {
      const { vpcId, subnetId, availabilityZone } = network;
      const vpc = ec2.Vpc.fromVpcAttributes(this, "Vpc", { vpcId, availabilityZones: [availabilityZone] });
      return { vpc, subnetId, availabilityZone };
    }
    const vpc = new ec2.Vpc(this, "Vpc", {
      maxAzs: 1,
      natGateways: 0,
      subnetConfiguration: [{ name: "instances", subnetType: ec2.SubnetType.PUBLIC }],
      restrictDefaultSecurityGroup: true,
    });
    const { subnetId, availabilityZone } = vpc.publicSubnets[0]!;
    return { vpc, subnetId, availabilityZone };
  }

  /** The network stands in the template, so that a worker cannot choose another one. */
  private defineTemplate({ instanceType, diskGigabytes }: Ec2Settings): ec2.CfnLaunchTemplate {
    const { architecture } = new ec2.InstanceType(instanceType);
    const arm = architecture === ec2.InstanceArchitecture.ARM_64;
    // A public parameter of AWS, read at each deployment: the newest image, without an account at synthesis.
    const image = ec2.MachineImage.latestAmazonLinux2023({
      cpuType: arm ? ec2.AmazonLinuxCpuType.ARM_64 : ec2.AmazonLinuxCpuType.X86_64,
    });
    const profile = new iam.CfnInstanceProfile(this, "InstanceProfile", { roles: [this.role.roleName] });
    return new ec2.CfnLaunchTemplate(this, "Template", {
      launchTemplateData: {
        imageId: image.getImage(this).imageId,
        instanceType,
        iamInstanceProfile: { arn: profile.attrArn },
        instanceInitiatedShutdownBehavior: "terminate",
        metadataOptions: { httpTokens: "required", httpPutResponseHopLimit: 1 },
        networkInterfaces: [
          {
            deviceIndex: 0,
            subnetId: this.subnetId,
            groups: [this.securityGroup.securityGroupId],
            deleteOnTermination: true,
          },
        ],
        blockDeviceMappings: [
          {
            deviceName: "/dev/xvda",
            ebs: { encrypted: true, volumeType: "gp3", volumeSize: diskGigabytes, deleteOnTermination: true },
          },
        ],
      },
    });
  }

  /**
   * Launching is allowed with the template alone, and what stands in it cannot be replaced; everything made has the
   * stack's tag, and only what has it can be changed. Describing and asking for a command's result know no resources.
   * https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/use-launch-templates-to-control-launching-instances.html
   * https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/supported-iam-actions-tagging.html
   * https://docs.aws.amazon.com/systems-manager/latest/userguide/run-command-setting-up.html
   */
  private statements(): iam.PolicyStatement[] {
    const stack = Stack.of(this);
    const arn = (resource: string, resourceName = "*", account = Aws.ACCOUNT_ID) =>
      stack.formatArn({ service: "ec2", account, resource, resourceName });
    const volumes = arn("volume");
    const instances = arn("instance");
    const template = arn("launch-template", this.template.ref);
    const allow = (actions: string[], resources: string[], conditions: Record<string, unknown> = {}) =>
      new iam.PolicyStatement({ actions, resources, conditions });
    const ofStack = { "aws:RequestTag/millrace:stack": stack.stackName };
    const owned = { Null: { "aws:RequestTag/millrace:owner": "false", "aws:RequestTag/millrace:key": "false" } };
    const byTemplate = {
      ArnEquals: { "ec2:LaunchTemplate": template },
      Bool: { "ec2:IsLaunchTemplateResource": "true" },
    };
    return [
      allow(["ec2:DescribeVolumes"], ["*"]),
      allow(["ec2:CreateVolume"], [volumes], {
        StringEquals: ofStack,
        ...owned,
        Bool: { "ec2:Encrypted": "true" },
      }),
      allow(["ec2:RunInstances"], [instances], { StringEquals: ofStack, ...owned, ...byTemplate }),
      allow(["ec2:RunInstances"], [volumes], { StringEquals: ofStack, ...byTemplate }),
      allow(
        ["ec2:RunInstances"],
        [
          template,
          arn("image", "*", ""),
          arn("network-interface"),
          arn("security-group", this.securityGroup.securityGroupId),
          arn("subnet", this.subnetId),
        ],
        byTemplate,
      ),
      allow(["iam:PassRole"], [this.role.roleArn], {
        StringEquals: { "iam:PassedToService": `ec2.${Aws.URL_SUFFIX}` },
      }),
      allow(["ec2:CreateTags"], [instances, volumes], {
        StringEquals: { ...ofStack, "ec2:CreateAction": ["CreateVolume", "RunInstances"] },
      }),
      allow(
        ["ec2:AttachVolume", "ec2:DetachVolume", "ec2:DeleteVolume", "ec2:TerminateInstances"],
        [instances, volumes],
        {
          StringEquals: { "aws:ResourceTag/millrace:stack": stack.stackName },
        },
      ),
      ...this.scriptStatements(),
    ];
  }

  /** Scripts on instances: to start, watch and stop commands, and to read their output. */
  private scriptStatements(): iam.PolicyStatement[] {
    const stack = Stack.of(this);
    const allow = (actions: string[], resources: string[], conditions: Record<string, unknown> = {}) =>
      new iam.PolicyStatement({ actions, resources, conditions });
    return [
      allow(["ec2:DescribeInstances"], ["*"]),
      allow(["ssm:DescribeInstanceInformation", "ssm:GetCommandInvocation"], ["*"]),
      allow(
        ["ssm:SendCommand"],
        [stack.formatArn({ service: "ssm", account: "", resource: "document", resourceName: "AWS-RunShellScript" })],
      ),
      allow(["ssm:SendCommand"], [stack.formatArn({ service: "ec2", resource: "instance", resourceName: "*" })], {
        StringEquals: { "ssm:resourceTag/millrace:stack": stack.stackName },
      }),
    ];
  }
}
