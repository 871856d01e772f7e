/* What CloudFormation does to a template before it makes anything: references and functions become values. */

import { LocalError } from "./errors.ts";
import { INTRINSICS, isIntrinsic } from "./intrinsics.ts";

export type Json = null | boolean | number | string | readonly Json[] | JsonObject;
export type JsonObject = { readonly [key: string]: Json };

/** A resource as the template has it, functions not yet resolved. */
export interface RawResource {
  readonly Type: string;
  readonly Properties?: JsonObject;
  readonly Metadata?: JsonObject;
  readonly DependsOn?: string | readonly string[];
  readonly Condition?: string;
}

export interface Template {
  readonly Resources: Readonly<Record<string, RawResource>>;
  readonly Parameters?: Readonly<Record<string, { readonly Default?: Json }>>;
  readonly Conditions?: Readonly<Record<string, Json>>;
  readonly Mappings?: Readonly<Record<string, Readonly<Record<string, JsonObject>>>>;
  readonly Outputs?: Readonly<Record<string, { readonly Value: Json; readonly Export?: { readonly Name: Json } }>>;
}

/** What the resolver asks for: the world outside the template. */
export interface ResolverContext {
  readonly region: string;
  readonly accountId: string;
  readonly stackName: string;
  /** The `Ref` (attribute undefined) or `Fn::GetAtt` value of a resource; undefined when it has no such attribute. */
  attribute(id: string, attribute: string | undefined): Json | undefined;
  /** The value of `{{resolve:secretsmanager:...}}`, given without the braces; undefined when there is none. */
  dynamicReference(reference: string): string | undefined;
}

export interface Resolver {
  /** The value with every function carried out. `path` is for error messages. Throws TEMPLATE_UNRESOLVED. */
  resolve(value: Json, path: string): Json;
  /** Whether a condition of the template holds. Throws TEMPLATE_UNRESOLVED when there is none of that name. */
  condition(name: string, path: string): boolean;
}

/** A resolver for one template. */
export function createResolver(template: Template, context: ResolverContext): Resolver {
  return new Evaluation(template, context);
}

/** The walk over a value; the functions of `intrinsics.ts` come back to it for their arguments. */
export class Evaluation implements Resolver {
  readonly template: Template;
  readonly context: ResolverContext;

  constructor(template: Template, context: ResolverContext) {
    this.template = template;
    this.context = context;
  }

  resolve(given: Json, path: string): Json {
    return this.maybe(given, path) ?? this.fail(path, "AWS::NoValue cannot stand here");
  }

  condition(name: string, path: string): boolean {
    const body = this.template.Conditions?.[name];
    if (body === undefined) return this.fail(path, `there is no condition ${name}`);
    return this.resolve(body, `Conditions.${name}`) === true;
  }

  /** Undefined stands for AWS::NoValue, which takes its key or list item away. */
  maybe(given: Json, path: string): Json | undefined {
    if (typeof given === "string") return this.#text(given, path);
    if (given === null || typeof given !== "object") return given;
    if (Array.isArray(given)) {
      return given.map((each, i) => this.maybe(each, `${path}[${i}]`)).filter((each) => each !== undefined);
    }
    const object = given as JsonObject;
    const [name, ...more] = Object.keys(object);
    if (name !== undefined && more.length === 0 && isIntrinsic(name, object[name]!)) {
      const run = INTRINSICS[name];
      if (!run) return this.fail(path, `the function ${name} is not known here`);
      const result = run(this, object[name]!, path);
      return typeof result === "string" ? this.#text(result, path) : result;
    }
    const entries = Object.entries(object).map(([key, each]) => [key, this.maybe(each, `${path}.${key}`)] as const);
    return Object.fromEntries(entries.filter(([, each]) => each !== undefined)) as JsonObject;
  }

  list(given: Json, path: string): readonly Json[] {
    const found = this.resolve(given, path);
    return Array.isArray(found) ? found : this.fail(path, "a list is needed");
  }

  fail(path: string, what: string): never {
    throw new LocalError("TEMPLATE_UNRESOLVED", { path, what });
  }

  #text(given: string, path: string): string {
    return given.replace(/\{\{(resolve:[^}]+)\}\}/g, (_, found: string) => {
      return this.context.dynamicReference(found) ?? this.fail(path, `nothing is known of {{${found}}}`);
    });
  }
}
