/** HTTP status of each failure the service names on the wire. */
const STATUS = {
  AccessDeniedException: 403,
  BadRequestException: 400,
  DatabaseErrorException: 400,
  DatabaseNotFoundException: 404,
  DatabaseResumingException: 400,
  DatabaseUnavailableException: 504,
  ForbiddenException: 403,
  HttpEndpointNotEnabledException: 400,
  InternalFailure: 500,
  InternalServerErrorException: 500,
  InvalidResourceStateException: 400,
  InvalidSecretException: 400,
  NotFoundException: 404,
  SecretsErrorException: 400,
  SerializationException: 400,
  ServiceUnavailableError: 503,
  StatementTimeoutException: 400,
  ThrottlingException: 400,
  TransactionNotFoundException: 404,
  UnknownOperationException: 404,
  UnsupportedResultException: 400,
  ValidationException: 400,
} as const;

/** Name of a failure as it goes into the header `x-amzn-errortype`. */
export type FailureName = keyof typeof STATUS;

/** These carry no message on the wire. */
const SILENT: readonly FailureName[] = [
  "DatabaseUnavailableException",
  "InternalFailure",
  "InternalServerErrorException",
  "ServiceUnavailableError",
];

/** An answer of the service other than 200. */
export class ApiFailure extends Error {
  readonly status: number;
  /** The JSON body. */
  readonly body: Readonly<Record<string, unknown>>;
  override readonly name: FailureName;

  constructor(name: FailureName, message = "", members: Readonly<Record<string, unknown>> = {}) {
    super(message);
    this.name = name;
    this.status = STATUS[name];
    this.body = SILENT.includes(name) ? {} : { message, ...members };
  }
}

/** True for a name that the service uses. */
export function isFailureName(name: string): name is FailureName {
  return Object.hasOwn(STATUS, name);
}
