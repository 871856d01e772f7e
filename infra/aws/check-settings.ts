import type { Ec2Settings, Settings } from "../settings.ts";
import { InfraError } from "./errors.ts";

/** A day, in minutes. */
const LONGEST_PERIOD = 1_440;

/**
 * Throws for a schedule that EventBridge cannot keep, for numbers that AWS does not take, for a database that the schedule never lets pause, and for a cloud
 * that does not know what to make.
 */
export function checkSettings(settings: Settings): void {
  const { schedulePeriodMinutes: period, database, cloud, ec2 } = settings;
  if (cloud === "ec2") checkEc2(ec2);
  if (!Number.isInteger(period) || period < 1 || period > LONGEST_PERIOD) {
    throw new InfraError(
      "SCHEDULE_PERIOD",
      `schedulePeriodMinutes is ${text(period)}; EventBridge takes whole minutes from 1 up, and a day is enough for any safety net`,
    );
  }
  checkNumbers(settings);
  const pause = database.autoPauseMinutes ?? 5;
  if (database.minCapacity === 0 && period <= pause) {
    throw new InfraError(
      "AUTO_PAUSE",
      `minCapacity 0 lets the database pause after ${pause} idle minutes, but a schedule of ${period} min keeps it awake: use a period above ${pause} or a minCapacity of 0.5`,
    );
  }
}

function checkEc2(settings: Ec2Settings | undefined): void {
  if (settings === undefined) throw ec2Error("the stage has no ec2 settings");
  const { instanceType, diskGigabytes, network } = settings;
  if (!/^[a-z][\w-]*\.[\w-]+$/.test(instanceType)) {
    throw ec2Error(`instanceType is "${instanceType}", not one such as t4g.small`);
  }
  if (!Number.isInteger(diskGigabytes) || diskGigabytes < 8) {
    throw ec2Error(`diskGigabytes is ${diskGigabytes}, not a whole number from 8 up`);
  }
  if (network === undefined) return;
  for (const [name, form] of Object.entries(networkForms)) {
    const value = network[name as keyof typeof networkForms];
    if (!form.test(value)) throw ec2Error(`network.${name} is "${value}"`);
  }
}

const networkForms = {
  vpcId: /^vpc-[0-9a-f]+$/,
  subnetId: /^subnet-[0-9a-f]+$/,
  availabilityZone: /^[a-z]+(-[a-z0-9]+)+$/,
};

const ec2Error = (problem: string) =>
  new InfraError("EC2_SETTINGS", `cloud is ec2, but ${problem}: see Ec2Settings in infra/settings.ts`);

/** Lambda: memory, and places of an account; Aurora: capacity units, replicas and days of backups. */
function checkNumbers({ memoryMegabytes, concurrency, database }: Settings): void {
  whole("memoryMegabytes", memoryMegabytes, 128, 10_240);
  for (const name of ["fetcher", "heartbeater", "api", "callsInFlight"] as const)
    whole(`concurrency.${name}`, concurrency[name], 1, 1_000);
  whole("concurrency.connectionBudget", concurrency.connectionBudget, 1, 5_000);
  // in halves
  whole("database.minCapacity", database.minCapacity, 0, 256, 0.5);
  whole("database.maxCapacity", database.maxCapacity, 1, 256, 0.5);
  if (database.minCapacity > database.maxCapacity) {
    const { minCapacity, maxCapacity } = database;
    throw new InfraError(
      "NUMBER",
      `database.minCapacity is ${minCapacity}, above database.maxCapacity, ${maxCapacity}`,
    );
  }
  whole("database.readers", database.readers, 0, 15);
  whole("database.backupRetentionDays", database.backupRetentionDays, 1, 35);
  if (database.autoPauseMinutes !== undefined) whole("database.autoPauseMinutes", database.autoPauseMinutes, 5, 1_440);
}

function whole(name: string, value: number, least: number, most: number, step = 1): void {
  if (typeof value === "number" && Number.isInteger(value / step) && value >= least && value <= most) return;
  const steps = step === 1 ? "a whole number" : `a multiple of ${step}`;
  throw new InfraError("NUMBER", `${name} is ${text(value)}, but must be ${steps} from ${least} to ${most}`);
}

/** What is no number may be no text either. */
function text(value: unknown): string {
  return typeof value === "object" && value !== null ? typeof value : String(value);
}
