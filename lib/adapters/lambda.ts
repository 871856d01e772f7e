import { InvokeCommand, type LambdaClient } from "@aws-sdk/client-lambda";
import type { WakeHeartbeater } from "../engine/ports.ts";

/** Starts the heartbeater without waiting for it. */
export function lambdaHeartbeater(client: LambdaClient, functionName: string): WakeHeartbeater {
  return async () => {
    const Payload = new TextEncoder().encode(JSON.stringify({ millrace: "invoke" }));
    const command = new InvokeCommand({ FunctionName: functionName, InvocationType: "Event", Payload });
    await client.send(command, { abortSignal: AbortSignal.timeout(5_000) });
  };
}
