import { InfraError } from "./aws/errors.ts";

/** What differs between stages, and nothing else. Plain data: no CDK types, so that any tool can read it. */
export interface Settings {
  readonly stage: Stage;
  /** Where the volumes, instances and jobs of the reference application live. */
  readonly cloud: "local" | "ec2";
  /** Required where `cloud` is `ec2`, and unused elsewhere. */
  readonly ec2?: Ec2Settings;
  /** Minutes between two scheduled runs: the bound within which a row is found whose every hint was lost. */
  readonly schedulePeriodMinutes: number;
  readonly concurrency: Concurrency;
  readonly database: DatabaseSettings;
  readonly logs: {
    readonly level: "DEBUG" | "INFO";
    /** One of the retentions that CloudWatch Logs knows. */
    readonly retentionDays: 7 | 30 | 90 | 365;
  };
  /** Memory of each function. Lambda gives processor time in proportion: 1769 MB is one processor. */
  readonly memoryMegabytes: number;
  /** Refuse to delete the whole stack. */
  readonly terminationProtection: boolean;
}

/**
 * Places are reserved for fetcher, heartbeater and API. Lambda keeps 100 of an account's places unreserved;
 * an account that has fewer than that must ask for more before its first deployment.
 */
interface Concurrency {
  /** Fetchers at once. At least the hint queue's concurrency and one for the schedule. */
  readonly fetcher: number;
  /** Heartbeaters at once: one of the schedule, one that a fetcher invoked. */
  readonly heartbeater: number;
  /** API requests at once; more are answered 429. */
  readonly api: number;
  /** Data API calls that one function process may have in flight. */
  readonly callsInFlight: number;
  /** Data API calls that all functions together may have in flight. Synthesis fails if the sum is larger. */
  readonly connectionBudget: number;
}

export interface Ec2Settings {
  /** A type of the Nitro system: others do not tell a volume's id to the machine. The newest Amazon Linux 2023 runs on it. */
  readonly instanceType: string;
  /** Size of an instance's own disk, which goes with it. At least 8, that of the image. */
  readonly diskGigabytes: number;
  /**
   * Where instances and volumes are made: a subnet with a way to Systems Manager, by an internet or NAT gateway or by
   * endpoints. Default: the stack makes a network with one public subnet.
   */
  readonly network?: { readonly vpcId: string; readonly subnetId: string; readonly availabilityZone: string };
}

export interface DatabaseSettings {
  /** Aurora capacity units. 0 lets an idle database pause; the schedule period must then exceed `autoPauseMinutes`. */
  readonly minCapacity: number;
  readonly maxCapacity: number;
  /** Idle minutes until a database with `minCapacity` 0 pauses. 5 to 1440. */
  readonly autoPauseMinutes?: number;
  /** Instances besides the writer, ready to take over. */
  readonly readers: number;
  readonly backupRetentionDays: number;
  readonly deletionProtection: boolean;
  /** What happens to the data when the stack is deleted. */
  readonly removal: "destroy" | "snapshot";
}

export type Stage = "dev" | "staging" | "prod";

const concurrency: Concurrency = { fetcher: 6, heartbeater: 2, api: 10, callsInFlight: 2, connectionBudget: 80 };

const smallInstances: Ec2Settings = { instanceType: "t4g.small", diskGigabytes: 8 };

const disposable: DatabaseSettings = {
  minCapacity: 0.5,
  maxCapacity: 2,
  readers: 0,
  backupRetentionDays: 1,
  deletionProtection: false,
  removal: "destroy",
};

const stages: Record<Stage, Omit<Settings, "stage">> = {
  /** This machine: what `npm start` runs. */
  dev: {
    cloud: "local",
    schedulePeriodMinutes: 1,
    concurrency,
    database: disposable,
    logs: { level: "DEBUG", retentionDays: 7 },
    memoryMegabytes: 512,
    terminationProtection: false,
  },
  /** A disposable stack in an account. Its database pauses when nothing is due, so the safety net is wider. */
  staging: {
    cloud: "ec2",
    ec2: smallInstances,
    schedulePeriodMinutes: 60,
    concurrency,
    database: { ...disposable, minCapacity: 0, autoPauseMinutes: 10 },
    logs: { level: "INFO", retentionDays: 30 },
    memoryMegabytes: 512,
    terminationProtection: false,
  },
  prod: {
    cloud: "ec2",
    ec2: smallInstances,
    schedulePeriodMinutes: 1,
    concurrency,
    database: {
      minCapacity: 0.5,
      maxCapacity: 16,
      readers: 1,
      backupRetentionDays: 14,
      deletionProtection: true,
      removal: "snapshot",
    },
    logs: { level: "INFO", retentionDays: 90 },
    memoryMegabytes: 1024,
    terminationProtection: true,
  },
};

export const stageNames = Object.keys(stages) as Stage[];

/** The settings of a stage. Throws `UNKNOWN_STAGE` with the names that exist. */
export function settingsOf(stage: string): Settings {
  if (!Object.hasOwn(stages, stage)) {
    throw new InfraError(
      "UNKNOWN_STAGE",
      `there is no stage "${stage}"; use one of ${stageNames.join(", ")}, or add it to infra/settings.ts`,
    );
  }
  return { stage: stage as Stage, ...stages[stage as Stage] };
}
