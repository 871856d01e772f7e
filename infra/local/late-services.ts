/* The services behind the endpoint: it has to listen before they can be made, as its port is in what they are made of. */

import type { AwsServices } from "./aws-endpoint.ts";
import type { Compute } from "./compute.ts";
import type { DataApi } from "./data-api/index.ts";
import type { Access } from "./iam/access.ts";
import { handleInvoke } from "./lambda/invoke-api.ts";
import type { SecretStore } from "./secrets.ts";
import type { SqsFront } from "./sqs/front.ts";

export interface Opened {
  readonly dataApi: DataApi;
  readonly sqs: SqsFront;
  readonly secrets: SecretStore;
  readonly compute: Compute;
  readonly access: Access;
}

/** Answers with an error until `open`. */
export class LateServices implements AwsServices {
  #opened: Opened | undefined;

  open(opened: Opened): void {
    this.#opened = opened;
  }

  get #behind(): Opened {
    if (!this.#opened) throw new Error("The local stack is still starting.");
    return this.#opened;
  }

  dataApi: AwsServices["dataApi"] = (path, body) => this.#behind.dataApi.handle(path, body);
  sqs: AwsServices["sqs"] = (operation, body, signal) => this.#behind.sqs.handle(operation, body, signal);
  secrets: AwsServices["secrets"] = (operation, body) => this.#behind.secrets.handle(operation, body);
  invoke: AwsServices["invoke"] = (name, type, body) => {
    const { functions, asyncInvokes } = this.#behind.compute;
    return handleInvoke(functions.get(name), asyncInvokes, type, body);
  };
  caller: AwsServices["caller"] = (accessKeyId) => this.#opened?.compute.caller(accessKeyId);
  check: AwsServices["check"] = (caller, need) => this.#behind.access.check(caller, need);
  secretArn: AwsServices["secretArn"] = (id) => this.#behind.secrets.arn(id);
}
