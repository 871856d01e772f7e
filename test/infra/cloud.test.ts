import { describe, expect, it } from "vitest";
import { checkSettings } from "../../infra/aws/check-settings.ts";
import { type Ec2Settings, settingsOf } from "../../infra/settings.ts";
import { byName, ofType, plain, type Resources, resourcesOf, short } from "./assemble.ts";

const settings = settingsOf("prod");
const resources = resourcesOf({ settings });
const network = { vpcId: "vpc-0a", subnetId: "subnet-0a", availabilityZone: "eu-west-1a" };
const own = { ...settings, ec2: { instanceType: "m7i.large", diskGigabytes: 20, network } };

const ofCloud = (all: Resources) => Object.entries(all).filter(([id]) => id.startsWith("PipelinesCloud"));
const typesOf = (all: Resources) => ofCloud(all).map(([id, { Type }]) => `${plain(id)} ${Type}`);
const dataOf = (all: Resources) => ofType(all, "AWS::EC2::LaunchTemplate")[0]![1].Properties.LaunchTemplateData;

interface Statement {
  readonly Effect: string;
  readonly Action: string | string[];
  readonly Resource: unknown;
  readonly Condition?: Record<string, Record<string, unknown>>;
}

/** What a worker may do at EC2, Systems Manager and IAM: `actions on resources if conditions`. */
function rights(all: Resources, worker: string): string[] {
  return ofType(all, "AWS::IAM::Policy")
    .filter(([, { Properties }]) => Properties.Roles.some((r: { Ref: string }) => plain(r.Ref) === worker))
    .flatMap(([, { Properties }]) => Properties.PolicyDocument.Statement as Statement[])
    .filter(({ Action }) => [Action].flat().some((action) => /^(ec2|ssm|iam):/.test(action)))
    .map(({ Effect, Action, Resource, Condition = {} }) => {
      const targets = [Resource].flat().map((each) => short(each).replace(/^arn:AWS::Partition:/, ""));
      const conditions = Object.entries(Condition).flatMap(([test, keys]) =>
        Object.entries(keys).map(([key, value]) => `${test} ${key} ${[value].flat().map(short).join("|")}`),
      );
      return `${Effect} ${[Action].flat().join(" ")} on ${targets.join(" ")}${conditions.map((c) => `\n  if ${c}`).join("")}`;
    });
}

describe("the ec2 cloud of a stage", () => {
  it("is made of this, and the local one of nothing", () => {
    expect(typesOf(resources)).toMatchInlineSnapshot(`
      [
        "PipelinesCloudVpc AWS::EC2::VPC",
        "PipelinesCloudVpcinstancesSubnet1Subnet AWS::EC2::Subnet",
        "PipelinesCloudVpcinstancesSubnet1RouteTable AWS::EC2::RouteTable",
        "PipelinesCloudVpcinstancesSubnet1RouteTableAssociation AWS::EC2::SubnetRouteTableAssociation",
        "PipelinesCloudVpcinstancesSubnet1DefaultRoute AWS::EC2::Route",
        "PipelinesCloudVpcIGW AWS::EC2::InternetGateway",
        "PipelinesCloudVpcVPCGW AWS::EC2::VPCGatewayAttachment",
        "PipelinesCloudVpcRestrictDefaultSecurityGroupCustomResource Custom::VpcRestrictDefaultSG",
        "PipelinesCloudSecurityGroup AWS::EC2::SecurityGroup",
        "PipelinesCloudInstanceRole AWS::IAM::Role",
        "PipelinesCloudInstanceProfile AWS::IAM::InstanceProfile",
        "PipelinesCloudTemplate AWS::EC2::LaunchTemplate",
      ]
    `);
    expect(typesOf(resourcesOf({ settings: settingsOf("dev") }))).toEqual([]);
  });

  it("needs no network of its own where there is one", () => {
    expect(typesOf(resourcesOf({ settings: own }))).toMatchInlineSnapshot(`
      [
        "PipelinesCloudSecurityGroup AWS::EC2::SecurityGroup",
        "PipelinesCloudInstanceRole AWS::IAM::Role",
        "PipelinesCloudInstanceProfile AWS::IAM::InstanceProfile",
        "PipelinesCloudTemplate AWS::EC2::LaunchTemplate",
      ]
    `);
    const [{ SubnetId, Groups }] = dataOf(resourcesOf({ settings: own })).NetworkInterfaces;
    expect([SubnetId, short(Groups[0])]).toEqual(["subnet-0a", "PipelinesCloudSecurityGroup.GroupId"]);
  });

  it("launches instances that ask for tokens, keep their disk encrypted and end when they are shut down", () => {
    expect(dataOf(resources)).toMatchObject({
      InstanceType: "t4g.small",
      InstanceInitiatedShutdownBehavior: "terminate",
      MetadataOptions: { HttpTokens: "required", HttpPutResponseHopLimit: 1 },
      BlockDeviceMappings: [
        {
          DeviceName: "/dev/xvda",
          Ebs: { Encrypted: true, VolumeSize: 8, VolumeType: "gp3", DeleteOnTermination: true },
        },
      ],
    });
  });

  it.each([
    ["t4g.small", "arm64"],
    ["m7i.large", "x86_64"],
  ])("%s takes the image for %s, which a deployment looks up", (instanceType, architecture) => {
    const all = resourcesOf({ settings: { ...settings, ec2: { instanceType, diskGigabytes: 8 } } });
    expect(dataOf(all).ImageId.Ref).toMatch(/^SsmParameterValueawsserviceamiamazonlinuxlatestal2023/);
    expect(dataOf(all).ImageId.Ref).toContain(architecture.replace("_", ""));
  });

  it("lets nobody in", () => {
    const groups = ofType(resources, "AWS::EC2::SecurityGroup").filter(([id]) => id.startsWith("PipelinesCloud"));
    expect(groups.map(([, { Properties }]) => Properties.SecurityGroupIngress)).toEqual([undefined]);
    expect(ofType(resources, "AWS::EC2::SecurityGroupIngress").filter(([id]) => /Cloud/.test(id))).toEqual([]);
  });

  it("gives instances the role that Systems Manager needs and no other", () => {
    const [, { Properties }] = ofCloud(resources).find(([id]) => plain(id) === "PipelinesCloudInstanceRole")!;
    expect(Properties.ManagedPolicyArns.map(short)).toEqual([
      "arn:AWS::Partition:iam::aws:policy/AmazonSSMManagedInstanceCore",
    ]);
    const attached = ofType(resources, "AWS::IAM::Policy").filter(([, policy]) =>
      policy.Properties.Roles.some((r: { Ref: string }) => plain(r.Ref) === "PipelinesCloudInstanceRole"),
    );
    expect(attached).toEqual([]);
  });
});

describe("workers", () => {
  it("know it by their environment", () => {
    for (const worker of ["worker-volumes", "worker-jobs-running"]) {
      const { Variables } = byName(resources, "AWS::Lambda::Function")[worker]!.Properties.Environment;
      const { EC2_AVAILABILITY_ZONE, ...others } = Variables as Record<string, unknown>;
      const [subnet] = ofCloud(resources).filter(([, { Type }]) => Type === "AWS::EC2::Subnet");
      expect(EC2_AVAILABILITY_ZONE).toEqual(subnet![1].Properties.AvailabilityZone);
      const found = Object.entries(others).filter(([name]) => /^(CLOUD|EC2_)/.test(name));
      expect(Object.fromEntries(found.map(([name, value]) => [name, short(value)]))).toEqual({
        CLOUD: "ec2",
        EC2_LAUNCH_TEMPLATE_ID: "PipelinesCloudTemplate",
        EC2_LAUNCH_TEMPLATE_VERSION: "PipelinesCloudTemplate.LatestVersionNumber",
        EC2_STACK: "millrace-prod",
      });
    }
  });

  it("may do this and nothing else", () => {
    expect(rights(resources, "PipelinesvolumesWorkerRole").join("\n")).toMatchInlineSnapshot(`
      "Allow ec2:DescribeInstances ec2:DescribeVolumes ssm:DescribeInstanceInformation ssm:GetCommandInvocation on *
      Allow ec2:CreateVolume on ec2:AWS::Region:AWS::AccountId:volume/*
        if StringEquals aws:RequestTag/millrace:stack millrace-prod
        if Null aws:RequestTag/millrace:owner false
        if Null aws:RequestTag/millrace:key false
        if Bool ec2:Encrypted true
      Allow ec2:RunInstances on ec2:AWS::Region:AWS::AccountId:instance/*
        if StringEquals aws:RequestTag/millrace:stack millrace-prod
        if Null aws:RequestTag/millrace:owner false
        if Null aws:RequestTag/millrace:key false
        if ArnEquals ec2:LaunchTemplate arn:AWS::Partition:ec2:AWS::Region:AWS::AccountId:launch-template/PipelinesCloudTemplate
        if Bool ec2:IsLaunchTemplateResource true
      Allow ec2:RunInstances on ec2:AWS::Region:AWS::AccountId:volume/*
        if StringEquals aws:RequestTag/millrace:stack millrace-prod
        if ArnEquals ec2:LaunchTemplate arn:AWS::Partition:ec2:AWS::Region:AWS::AccountId:launch-template/PipelinesCloudTemplate
        if Bool ec2:IsLaunchTemplateResource true
      Allow ec2:RunInstances on ec2:AWS::Region:AWS::AccountId:launch-template/PipelinesCloudTemplate ec2:AWS::Region:AWS::AccountId:network-interface/* ec2:AWS::Region:AWS::AccountId:security-group/PipelinesCloudSecurityGroup.GroupId ec2:AWS::Region:AWS::AccountId:subnet/PipelinesCloudVpcinstancesSubnet1Subnet ec2:AWS::Region::image/*
        if ArnEquals ec2:LaunchTemplate arn:AWS::Partition:ec2:AWS::Region:AWS::AccountId:launch-template/PipelinesCloudTemplate
        if Bool ec2:IsLaunchTemplateResource true
      Allow iam:PassRole on PipelinesCloudInstanceRole.Arn
        if StringEquals iam:PassedToService ec2.AWS::URLSuffix
      Allow ec2:CreateTags on ec2:AWS::Region:AWS::AccountId:instance/* ec2:AWS::Region:AWS::AccountId:volume/*
        if StringEquals aws:RequestTag/millrace:stack millrace-prod
        if StringEquals ec2:CreateAction CreateVolume|RunInstances
      Allow ec2:AttachVolume ec2:DeleteVolume ec2:DetachVolume ec2:TerminateInstances on ec2:AWS::Region:AWS::AccountId:instance/* ec2:AWS::Region:AWS::AccountId:volume/*
        if StringEquals aws:ResourceTag/millrace:stack millrace-prod
      Allow ssm:SendCommand on ssm:AWS::Region::document/AWS-RunShellScript
      Allow ssm:SendCommand on ec2:AWS::Region:AWS::AccountId:instance/*
        if StringEquals ssm:resourceTag/millrace:stack millrace-prod"
    `);
    expect(rights(resources, "PipelinesjobsrunningWorkerRole")).toEqual(
      rights(resources, "PipelinesvolumesWorkerRole"),
    );
  });

  it("are the only functions that may, beside the API, which reads output and makes nothing; with the local cloud nobody may", () => {
    const cloudRoles = (all: Resources) =>
      ofType(all, "AWS::IAM::Role")
        .map(([id]) => plain(id))
        .filter((role) => rights(all, role).length > 0);
    expect(cloudRoles(resources).sort()).toEqual([
      "ApiHandlerRole",
      "PipelinesjobsrunningWorkerRole",
      "PipelinesvolumesWorkerRole",
    ]);
    const reading = rights(resources, "ApiHandlerRole").join("\n");
    expect(reading).toContain("ssm:SendCommand");
    expect(reading).not.toMatch(/ec2:(?!DescribeInstances|AWS::)/);
    expect(cloudRoles(resourcesOf())).toEqual([]);
  });
});

describe("settings that cannot work are refused", () => {
  const refused = (ec2: Ec2Settings | undefined) => () => checkSettings({ ...settings, ec2 });

  it("none at all", () => {
    expect(refused(undefined)).toThrow("EC2_SETTINGS: cloud is ec2, but the stage has no ec2 settings");
    expect(() => checkSettings({ ...settingsOf("dev"), ec2: undefined })).not.toThrow();
    expect(refused(own.ec2)).not.toThrow();
  });

  it.each<[Partial<Ec2Settings>, string]>([
    [{ instanceType: "small" }, 'instanceType is "small"'],
    [{ diskGigabytes: 7 }, "diskGigabytes is 7"],
    [{ diskGigabytes: 8.5 }, "diskGigabytes is 8.5"],
    [{ network: { ...network, vpcId: "" } }, 'network.vpcId is ""'],
    [{ network: { ...network, subnetId: "vpc-0a" } }, 'network.subnetId is "vpc-0a"'],
    [{ network: { ...network, availabilityZone: "Europe" } }, 'network.availabilityZone is "Europe"'],
  ])("%j", (change, message) => {
    expect(refused({ ...own.ec2, ...change })).toThrow(`EC2_SETTINGS: cloud is ec2, but ${message}`);
  });
});
