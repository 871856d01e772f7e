/* A queue as the poller of a function sees it: everything is done as the function's role. */

import type { SqsFront } from "../sqs/front.ts";
import type { Access } from "./access.ts";
import { POLLING } from "./checks.ts";
import type { RoleCaller } from "./principals.ts";

/** What an event source mapping does with its queue. */
export type PolledQueue = Pick<SqsFront, "receive" | "remove">;

/** The queue, each call judged. Throws ACCESS_DENIED. The depth is read once: on AWS it decides how many pollers there are. */
export function queueAsRole(sqs: PolledQueue, queueArn: string, access: Access, caller: RoleCaller): PolledQueue {
  const [receive, remove, depth] = POLLING.map((action) => ({ action, resource: queueArn }));
  access.must(caller, depth!);
  return {
    async receive(...args) {
      access.must(caller, receive!);
      return sqs.receive(...args);
    },
    async remove(...args) {
      access.must(caller, remove!);
      return sqs.remove(...args);
    },
  };
}
