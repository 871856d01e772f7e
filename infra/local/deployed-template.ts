/* A template with its values: every resource by type, properties resolved. */

import type { Assembly } from "./assembly.ts";
import {
  ACCOUNT_ID,
  attributeOf,
  checkResourceTypes,
  physicalName,
  REGION,
  WITHOUT_MEANING,
} from "./resource-types.ts";
import type { SecretStore } from "./secrets.ts";
import { createResolver, type Json, type JsonObject, type Resolver } from "./template.ts";

/** A resource, resolved. */
export interface Resource {
  readonly id: string;
  readonly name: string;
  readonly properties: JsonObject;
}

/** Addresses that are known only when the servers listen. */
export interface Addresses {
  readonly awsEndpoint: string;
  readonly databasePort: number;
  functionUrl(id: string): string;
}

export class DeployedTemplate {
  readonly #leftOut: ReadonlyMap<string, readonly string[]>;
  readonly #assembly: Assembly;
  readonly #resolver: Resolver;

  /** Throws RESOURCE_TYPE_UNKNOWN for a template with a type on no list. */
  constructor(assembly: Assembly, addresses: Addresses, secrets: SecretStore) {
    this.#assembly = assembly;
    this.#leftOut = checkResourceTypes(assembly.template);
    const { Resources } = assembly.template;
    const names = {
      name: (id: string) => this.#name(id),
      property: (id: string, property: string): Json =>
        this.#resolver.resolve(Resources[id]?.Properties?.[property] ?? "", `${id}.${property}`),
      awsEndpoint: addresses.awsEndpoint,
      databasePort: addresses.databasePort,
      secretSuffix: secrets.suffix,
      functionUrl: (id: string) => addresses.functionUrl(id),
    };
    this.#resolver = createResolver(assembly.template, {
      region: REGION,
      accountId: ACCOUNT_ID,
      stackName: assembly.stackName,
      attribute: (id, attribute) => attributeOf(Resources[id]!.Type, id, attribute, names),
      dynamicReference: (reference) => secretReference(reference, secrets),
    });
  }

  /** The types that are left out, a line each: how many, and why. */
  describeLeftOut(): readonly string[] {
    return [...this.#leftOut].map(([type, ids]) => `left out: ${ids.length} ${type} (${WITHOUT_MEANING[type]})`);
  }

  /** All resources of a type that the template's conditions let be. */
  ofType(...types: readonly string[]): readonly Resource[] {
    return this.idsOfType(...types).map((id) => ({ id, name: this.#name(id), properties: this.#properties(id) }));
  }

  /** The same, properties left alone. */
  idsOfType(...types: readonly string[]): readonly string[] {
    return Object.entries(this.#assembly.template.Resources)
      .filter(([id, { Type, Condition }]) => {
        return types.includes(Type) && (Condition === undefined || this.#resolver.condition(Condition, id));
      })
      .map(([id]) => id);
  }

  /** The `Ref` of a resource, or one of its attributes. */
  valueOf(id: string, attribute?: string): string {
    const call: Json = attribute === undefined ? { Ref: id } : { "Fn::GetAtt": [id, attribute] };
    return String(this.#resolver.resolve(call, id));
  }

  #name(id: string): string {
    return physicalName(id, this.#assembly.template.Resources[id]!);
  }

  #properties(id: string): JsonObject {
    const given = this.#assembly.template.Resources[id]!.Properties ?? {};
    return this.#resolver.resolve(given, id) as JsonObject;
  }
}

/** `resolve:secretsmanager:<arn>:SecretString:<key>::`; the ARN has colons itself. */
function secretReference(reference: string, secrets: SecretStore): string | undefined {
  const [, arn, key] = /^resolve:secretsmanager:(.+):SecretString:([^:]*)(?::[^:]*){0,2}$/.exec(reference) ?? [];
  const value = arn === undefined ? undefined : secrets.value(arn);
  if (value === undefined || !key) return value;
  return String((JSON.parse(value) as Record<string, unknown>)[key] ?? "");
}
