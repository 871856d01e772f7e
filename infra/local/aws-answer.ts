/* What an AWS service answers: a status, headers, a body. */

export interface AwsAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** A service's answer to a call that worked. */
export function awsJson(body: unknown, status = 200): AwsAnswer {
  return { status, headers: { "content-type": "application/x-amz-json-1.1" }, body: JSON.stringify(body) };
}

/** An error as every JSON service writes it; SDKs take `name` as the error's name. */
export function awsError(status: number, name: string, message: string): AwsAnswer {
  return {
    status,
    headers: { "content-type": "application/x-amz-json-1.1", "x-amzn-errortype": name },
    body: JSON.stringify({ __type: name, message, Message: message }),
  };
}
