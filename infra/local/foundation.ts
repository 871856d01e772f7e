/* What everything else stands on: the endpoint's address, a database server, and the plan read from the template. */

import { type Assembly, readAssembly, synthesize } from "./assembly.ts";
import { awsListener } from "./aws-endpoint.ts";
import { makeSecrets } from "./database.ts";
import { DeployedTemplate } from "./deployed-template.ts";
import { listen } from "./http.ts";
import { Access } from "./iam/access.ts";
import { namesOf } from "./iam/read-policies.ts";
import { refusalError } from "./iam/refusals.ts";
import { LateServices } from "./late-services.ts";
import { planStack, type StackPlan } from "./plan.ts";
import { type Postgres, startPostgres } from "./postgres.ts";
import { SecretStore } from "./secrets.ts";
import type { StackOptions } from "./stack.ts";
import type { StateFolder } from "./state.ts";

export interface Foundation {
  readonly awsEndpoint: string;
  readonly services: LateServices;
  readonly postgres: Postgres;
  readonly secrets: SecretStore;
  readonly plan: StackPlan;
  /** Judges every call of the functions, and what is done as their roles. */
  readonly access: Access;
  /** Addresses of the function URLs by logical id, filled in when they are served. */
  readonly functionUrls: Map<string, string>;
}

/** Listens, starts PostgreSQL while the app is synthesized, and reads the template. */
export async function layFoundation(
  options: StackOptions,
  state: StateFolder,
  cleanUp: AsyncDisposableStack,
): Promise<Foundation> {
  const { progress, signal } = options;
  const services = new LateServices();
  const at = { port: options.port, what: "the AWS services", option: "--port" };
  const endpoint = await listen(awsListener(services), at);
  cleanUp.defer(() => endpoint.close());

  const [postgres, assembly] = await Promise.all([
    startDatabase(options, state, cleanUp),
    options.assembly === undefined
      ? progress.step("synthesizing", () =>
          synthesize({ outdir: state.path("cdk.out"), ...(signal ? { signal } : {}) }),
        )
      : readAssembly(options.assembly),
  ]);

  const secrets = new SecretStore(state.path("secrets.json"));
  const functionUrls = new Map<string, string>();
  const template = deployedTemplate(assembly, endpoint.url, postgres.port, functionUrls, secrets);
  if (options.verbose) for (const line of template.describeLeftOut()) progress.note(line);
  makeSecrets(template, secrets);
  const plan = planStack(template, { assembly, secrets, awsEndpoint: endpoint.url, databasePort: postgres.port });
  const access = new Access(plan.policies, namesOf(template), (refusal) => {
    const { code, message } = refusalError(refusal);
    progress.note(`${code}: ${message}`);
  });
  return { awsEndpoint: endpoint.url, services, postgres, secrets, plan, access, functionUrls };
}

function deployedTemplate(
  assembly: Assembly,
  awsEndpoint: string,
  databasePort: number,
  functionUrls: ReadonlyMap<string, string>,
  secrets: SecretStore,
): DeployedTemplate {
  const functionUrl = (id: string) => `${functionUrls.get(id) ?? "http://127.0.0.1"}/`;
  return new DeployedTemplate(assembly, { awsEndpoint, databasePort, functionUrl }, secrets);
}

function startDatabase(options: StackOptions, state: StateFolder, cleanUp: AsyncDisposableStack): Promise<Postgres> {
  const starting = options.progress.step("starting PostgreSQL", () =>
    startPostgres({ dataDir: state.path("postgres"), port: options.databasePort }),
  );
  // Also when the synthesis fails first: what is still starting is waited for and stopped.
  cleanUp.defer(async () => (await starting.catch(() => undefined))?.stop());
  return starting.then((postgres) => {
    state.processes.add(postgres.pid, "postgres");
    return postgres;
  });
}
