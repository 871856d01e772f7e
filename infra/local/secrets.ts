/* Secrets: generated as the template asks, kept in one file that only its owner can read, served as Secrets Manager does. */

import { randomInt } from "node:crypto";
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { type AwsAnswer, awsError, awsJson } from "./aws-answer.ts";
import type { JsonObject } from "./template.ts";

interface StoredSecret {
  readonly name: string;
  readonly value: string;
  readonly versionId: string;
  readonly createdAt: number;
}

interface SecretFile {
  readonly suffix: string;
  readonly secrets: Record<string, StoredSecret>;
}

const LOWER = "abcdefghijklmnopqrstuvwxyz";
const UPPER = LOWER.toUpperCase();
const DIGITS = "0123456789";
const PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";

const pick = (from: string) => from[randomInt(from.length)]!;
const text = (length: number, from: string) => Array.from({ length }, () => pick(from)).join("");

/** The secrets of one stack; the same values at every start of one state folder. */
export class SecretStore {
  readonly #file: string;
  readonly #data: SecretFile;

  constructor(file: string) {
    this.#file = file;
    this.#data = existsSync(file)
      ? (JSON.parse(readFileSync(file, "utf8")) as SecretFile)
      : { suffix: text(6, LOWER + UPPER + DIGITS), secrets: {} };
  }

  /** The six characters behind the name in every secret's ARN. */
  get suffix(): string {
    return this.#data.suffix;
  }

  /** Makes a secret unless it is there; `make` gives its value. */
  ensure(arn: string, name: string, make: () => string): void {
    if (this.#data.secrets[arn]) return;
    this.#put(arn, name, make());
  }

  /** Adds fields to a secret that is a JSON object, as an attachment to a database does. */
  merge(arn: string, fields: Readonly<Record<string, unknown>>): void {
    const secret = this.#data.secrets[arn];
    if (!secret) return;
    const value = JSON.stringify({ ...JSON.parse(secret.value), ...fields });
    if (value !== secret.value) this.#put(arn, secret.name, value);
  }

  /** A secret's text by its ARN, its ARN without the six characters, or its name. */
  value(id: string): string | undefined {
    return this.#find(id)?.[1].value;
  }

  /** The whole ARN of a secret, by any of the same. */
  arn(id: string): string | undefined {
    return this.#find(id)?.[0];
  }

  /** The user and password of a secret; undefined when there is no such secret or it holds none. */
  credentials(id: string): { readonly username: string; readonly password: string } | undefined {
    const value = this.value(id);
    if (value === undefined) return undefined;
    const { username, password } = JSON.parse(value) as Record<string, unknown>;
    return typeof username === "string" && typeof password === "string" ? { username, password } : undefined;
  }

  /** Answers one Secrets Manager call. */
  handle(operation: string, body: JsonObject): AwsAnswer {
    if (operation !== "GetSecretValue" && operation !== "DescribeSecret") {
      return awsError(400, "InvalidRequestException", `The local Secrets Manager has no operation ${operation}.`);
    }
    const found = this.#find(String(body["SecretId"] ?? ""));
    if (!found) return awsError(400, "ResourceNotFoundException", "Secrets Manager can't find the specified secret.");
    const [arn, secret] = found;
    const common = { ARN: arn, Name: secret.name, CreatedDate: secret.createdAt / 1000 };
    if (operation === "DescribeSecret") {
      return awsJson({ ...common, VersionIdsToStages: { [secret.versionId]: ["AWSCURRENT"] } });
    }
    const stages = ["AWSCURRENT"];
    return awsJson({ ...common, VersionId: secret.versionId, SecretString: secret.value, VersionStages: stages });
  }

  #find(id: string): [string, StoredSecret] | undefined {
    return Object.entries(this.#data.secrets).find(
      ([arn, secret]) => arn === id || secret.name === id || arn === `${id}-${this.suffix}`,
    );
  }

  #put(arn: string, name: string, value: string): void {
    const versionId = crypto.randomUUID();
    this.#data.secrets[arn] = { name, value, versionId, createdAt: Date.now() };
    const draft = `${this.#file}.${process.pid}`;
    writeFileSync(draft, JSON.stringify(this.#data, null, 2), { mode: 0o600 });
    renameSync(draft, this.#file);
  }
}

/** The value that a `GenerateSecretString` property asks for. */
export function generateSecret(options: JsonObject): string {
  const excluded = String(options["ExcludeCharacters"] ?? "");
  const without = (characters: string) => [...characters].filter((each) => !excluded.includes(each)).join("");
  const kinds = [
    options["ExcludeLowercase"] ? "" : LOWER,
    options["ExcludeUppercase"] ? "" : UPPER,
    options["ExcludeNumbers"] ? "" : DIGITS,
    options["ExcludePunctuation"] ? "" : PUNCTUATION,
    options["IncludeSpace"] ? " " : "",
  ]
    .map(without)
    .filter((kind) => kind !== "");
  const length = Number(options["PasswordLength"] ?? 32);
  const all = kinds.join("");
  let password = text(length, all);
  while (
    options["RequireEachIncludedType"] !== false &&
    !kinds.every((kind) => [...password].some((c) => kind.includes(c)))
  ) {
    password = text(length, all);
  }
  const template = options["SecretStringTemplate"];
  if (typeof template !== "string") return password;
  return JSON.stringify({ ...JSON.parse(template), [String(options["GenerateStringKey"])]: password });
}
