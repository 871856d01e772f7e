/** What can go wrong with the provider. `{name}` is filled in from the details; each text says what to do. */
export const CLOUD_ERRORS = {
  CLOUD_SETTING: "{name} is {value}. Set it to {wanted}.",
  CLOUD_UNREACHABLE:
    "{op}: no answer from the cloud at {url} ({reason}). See whether it runs; the call may be repeated.",
  CLOUD_REFUSED: "{op}: the cloud refused with {status} {code}: {reason}. Mend the request, or see the cloud's log.",
  CLOUD_FAILED: "{op}: the cloud failed with {status} {code}: {reason}. The call may be repeated.",
  CLOUD_ANSWER: "{op}: the cloud's answer is not understood: {reason}. See whether {url} is the cloud.",
} as const satisfies Record<string, string>;

export type CloudErrorCode = keyof typeof CLOUD_ERRORS;

/** An error of the provider: `code` is for programs, the message says what to do. */
export class CloudError extends Error {
  readonly code: CloudErrorCode;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(code: CloudErrorCode, details: Readonly<Record<string, unknown>>, options?: ErrorOptions) {
    super(
      CLOUD_ERRORS[code].replace(/\{(\w+)\}/g, (_, name: string) => String(details[name] ?? "?")),
      options,
    );
    this.name = "CloudError";
    this.code = code;
    this.details = details;
  }
}
