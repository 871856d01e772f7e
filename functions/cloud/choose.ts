import type { Cloud } from "./cloud.ts";
import { type Ec2Settings, ec2Settings } from "./ec2/settings.ts";
import { CloudError } from "./errors.ts";
import { createLocalCloud } from "./local.ts";

/**
 * The provider that the environment asks for: CLOUD=local with MILLRACE_CLOUD_URL, which the local stack sets, or
 * CLOUD=ec2 with the EC2_* variables, which a deployment sets.
 *
 * Errors: CLOUD_SETTING when a variable is missing or wrong.
 */
export function cloudFromEnvironment(env: Readonly<Record<string, string | undefined>>): Cloud {
  const { CLOUD: cloud, MILLRACE_CLOUD_URL: url } = env;
  if (cloud === "ec2") return lazily(ec2Settings(env));
  if (cloud !== "local") throw setting("CLOUD", cloud, "local or ec2");

  if (url === undefined || !URL.canParse(url)) {
    throw setting("MILLRACE_CLOUD_URL", url, "the URL of the local cloud, as the local stack does");
  }
  return createLocalCloud(url.replace(/\/+$/, ""));
}

/** One for each sandbox, whose clients keep their connections. By settings, as these say all that it knows. */
const made = new Map<string, Promise<Cloud>>();

/**
 * Loads the clients with the first call: the EC2 one alone is larger than all the rest of a worker, and a worker with
 * another cloud, or whose pipeline needs none, should not start with it.
 */
function lazily(settings: Ec2Settings): Cloud {
  const key = JSON.stringify(settings);
  const load = () => {
    const cloud = made.get(key) ?? import("./ec2/index.ts").then(({ createEc2Cloud }) => createEc2Cloud(settings));
    made.set(key, cloud);
    return cloud;
  };
  return {
    createVolume: async (...call) => (await load()).createVolume(...call),
    deleteVolume: async (...call) => (await load()).deleteVolume(...call),
    findVolumes: async (...call) => (await load()).findVolumes(...call),
    createInstance: async (...call) => (await load()).createInstance(...call),
    instanceState: async (...call) => (await load()).instanceState(...call),
    deleteInstance: async (...call) => (await load()).deleteInstance(...call),
    findInstances: async (...call) => (await load()).findInstances(...call),
    attachVolume: async (...call) => (await load()).attachVolume(...call),
    detachVolume: async (...call) => (await load()).detachVolume(...call),
    runCommand: async (...call) => (await load()).runCommand(...call),
    commandState: async (...call) => (await load()).commandState(...call),
    stopCommand: async (...call) => (await load()).stopCommand(...call),
    readOutput: async (...call) => (await load()).readOutput(...call),
  };
}

const setting = (name: string, value: string | undefined, wanted: string) =>
  new CloudError("CLOUD_SETTING", { name, value: value === undefined ? "not set" : `"${value}"`, wanted });
