import type { Cloud } from "./cloud.ts";
import { CloudError } from "./errors.ts";
import { createLocalCloud } from "./local.ts";

/**
 * The provider that the environment asks for: CLOUD=local, with MILLRACE_CLOUD_URL, which the local stack sets.
 *
 * Errors: CLOUD_UNAVAILABLE for `ec2`, which is not built yet; CLOUD_SETTING when a variable is missing or wrong.
 */
export function cloudFromEnvironment(env: Readonly<Record<string, string | undefined>>): Cloud {
  const { CLOUD: cloud, MILLRACE_CLOUD_URL: url } = env;
  if (cloud === "ec2") throw new CloudError("CLOUD_UNAVAILABLE", { cloud });
  if (cloud !== "local") throw setting("CLOUD", cloud, "local");

  if (url === undefined || !URL.canParse(url)) {
    throw setting("MILLRACE_CLOUD_URL", url, "the URL of the local cloud, as the local stack does");
  }
  return createLocalCloud(url.replace(/\/+$/, ""));
}

const setting = (name: string, value: string | undefined, wanted: string) =>
  new CloudError("CLOUD_SETTING", { name, value: value === undefined ? "not set" : `"${value}"`, wanted });
