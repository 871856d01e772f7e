/* The functions of the template: where their code is and what their processes find in their environment. */

import { randomBytes } from "node:crypto";
import type { Assembly } from "./assembly.ts";
import type { DeployedTemplate } from "./deployed-template.ts";
import { LocalError } from "./errors.ts";
import type { RoleCaller } from "./iam/principals.ts";
import type { FunctionSpec } from "./lambda/function-spec.ts";
import { REGION } from "./resource-types.ts";
import type { JsonObject } from "./template.ts";

/** Who a function is to the other services. */
export interface Identity extends RoleCaller {
  readonly accessKeyId: string;
}

export interface FunctionPlan {
  readonly spec: FunctionSpec;
  readonly identity: Identity;
  /** It belongs to the app, not to a custom resource of CDK's. */
  readonly isNamed: boolean;
  /** Name of the log group that its log goes to. */
  readonly logGroup: string;
  /** The template has that group; else Lambda makes one. */
  readonly ownsLogGroup: boolean;
}

/** All functions, those of CDK's own custom resources included (they are never invoked here). */
export function planFunctions(
  template: DeployedTemplate,
  assembly: Assembly,
  awsEndpoint: string,
): readonly FunctionPlan[] {
  return template.ofType("AWS::Lambda::Function").map(({ id, name, properties }) => {
    const runtime = String(properties["Runtime"]);
    if (!runtime.startsWith("nodejs")) {
      throw new LocalError("PROPERTY_UNSUPPORTED", {
        id,
        property: "Runtime",
        value: runtime,
        why: "only Node.js runs here",
      });
    }
    const code = (properties["Code"] ?? {}) as JsonObject;
    const role = String(properties["Role"]).split("/").at(-1)!;
    const arn = template.valueOf(id, "Arn");
    const accessKeyId = `ASIA${randomBytes(8).toString("hex").toUpperCase()}`;
    const identity = { accessKeyId, role, session: name, functionArn: arn };
    const memoryMb = Number(properties["MemorySize"] ?? 128);
    const own = ((properties["Environment"] as JsonObject | undefined)?.["Variables"] ?? {}) as JsonObject;
    const reserved = properties["ReservedConcurrentExecutions"];
    const ownGroup = (properties["LoggingConfig"] as JsonObject | undefined)?.["LogGroup"];
    const logGroup = String(ownGroup ?? `/aws/lambda/${name}`);
    return {
      identity,
      isNamed: name !== id,
      logGroup,
      ownsLogGroup: ownGroup !== undefined,
      spec: {
        name,
        arn,
        taskRoot: assembly.assetFolder(String(code["S3Key"])),
        timeoutSeconds: Number(properties["Timeout"] ?? 3),
        memoryMb,
        reservedConcurrency: reserved === undefined ? undefined : Number(reserved),
        environment: {
          ...Object.fromEntries(Object.entries(own).map(([key, value]) => [key, String(value)])),
          AWS_REGION: REGION,
          AWS_DEFAULT_REGION: REGION,
          AWS_ACCESS_KEY_ID: identity.accessKeyId,
          AWS_SECRET_ACCESS_KEY: randomBytes(20).toString("hex"),
          AWS_ENDPOINT_URL: awsEndpoint,
          AWS_LAMBDA_FUNCTION_NAME: name,
          AWS_LAMBDA_FUNCTION_VERSION: "$LATEST",
          AWS_LAMBDA_FUNCTION_MEMORY_SIZE: String(memoryMb),
          AWS_LAMBDA_LOG_GROUP_NAME: logGroup,
          LAMBDA_TASK_ROOT: assembly.assetFolder(String(code["S3Key"])),
          _HANDLER: String(properties["Handler"]),
          TZ: ":UTC",
        },
      },
    };
  });
}
