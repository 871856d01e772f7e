import type { SendMessageBatchCommand, SQSClient } from "@aws-sdk/client-sqs";
import type { Process } from "./process.ts";
import type { Move, Pending, World } from "./world.ts";

const VISIBILITY_SECONDS = 360;
const MOST_RECEIVES = 5;

export interface QueuedMessage {
  readonly messageId: string;
  readonly body: string;
  readonly sentAt: number;
  visibleAt: number;
  receives: number;
}

/** A standard queue of SQS: at least once, in any order. */
export class Queue {
  readonly name: string;
  readonly messages: QueuedMessage[] = [];
  dead = 0;
  readonly #world: World;

  constructor(world: World, name: string) {
    this.#world = world;
    this.name = name;
  }

  send(body: string, delaySeconds: number): void {
    const { time } = this.#world;
    const sentAt = time.now;
    this.messages.push({
      messageId: this.#world.uuid(),
      body,
      sentAt,
      visibleAt: sentAt + delaySeconds * 1000,
      receives: 0,
    });
  }

  visible(): readonly QueuedMessage[] {
    const { now } = this.#world.time;
    return this.messages.filter((m) => m.visibleAt <= now).sort((a, b) => a.visibleAt - b.visibleAt);
  }

  receive(messages: readonly QueuedMessage[]): void {
    for (const message of messages) {
      message.receives += 1;
      message.visibleAt = this.#world.time.now + VISIBILITY_SECONDS * 1000;
    }
  }

  /** What was received too often goes to the dead-letter queue. */
  giveBack(messages: readonly QueuedMessage[]): void {
    for (const message of messages)
      if (message.receives >= MOST_RECEIVES) {
        this.delete(message);
        this.dead += 1;
      } else message.visibleAt = this.#world.time.now;
  }

  delete(message: QueuedMessage): void {
    const at = this.messages.indexOf(message);
    if (at >= 0) this.messages.splice(at, 1);
  }
}

interface Entry {
  readonly Id?: string | undefined;
  readonly MessageBody?: string | undefined;
  readonly DelaySeconds?: number | undefined;
}

/** A client of SQS whose sends are carried out step by step. Queue URLs are names. */
export function sqsClient(world: World, queues: ReadonlyMap<string, Queue>, process: Process): SQSClient {
  const send = ({ input }: SendMessageBatchCommand) =>
    new Promise((resolve, reject) => {
      world.pending.add(
        new Send(world, queues.get(String(input.QueueUrl))!, process, input.Entries ?? [], (error, failed) =>
          error === undefined ? resolve({ Failed: failed }) : reject(error),
        ),
      );
    });
  return { send } as unknown as SQSClient;
}

class Send implements Pending {
  readonly owner: Process;
  readonly what: string;
  readonly #world: World;
  readonly #queue: Queue;
  readonly #entries: readonly Entry[];
  readonly #settle: (error: Error | undefined, failed?: readonly object[]) => void;

  constructor(
    world: World,
    queue: Queue,
    owner: Process,
    entries: readonly Entry[],
    settle: (error: Error | undefined, failed?: readonly object[]) => void,
  ) {
    this.#world = world;
    this.#queue = queue;
    this.owner = owner;
    this.#entries = entries;
    this.#settle = settle;
    this.what = `${entries.length} to ${queue.name}`;
  }

  moves(): readonly Move[] {
    if (!this.owner.runs)
      return this.owner.state === "running"
        ? []
        : [{ what: "sent by the dead", weight: 1, run: () => void this.#put() }];
    const refusal = Object.assign(new Error("refused"), { $metadata: { httpStatusCode: 400 } });
    const silence = Object.assign(new Error("socket hang up"), { $metadata: {} });
    const failed = [{ Id: this.#entries[0]?.Id, SenderFault: false, Code: "InternalError" }];
    return [
      { what: "sent", weight: 20, run: () => this.#put().#done(undefined) },
      { what: "sent, answer lost", weight: 1, fault: "send unanswered", run: () => this.#put().#done(silence) },
      { what: "lost, no answer", weight: 1, fault: "send lost", run: () => this.#done(silence) },
      { what: "refused", weight: 1, fault: "send refused", run: () => this.#done(refusal) },
      {
        what: "the first of them failed",
        weight: 1,
        fault: "send failed in part",
        run: () => this.#put(1).#done(undefined, failed),
      },
    ];
  }

  #put(from = 0): this {
    this.#world.pending.delete(this);
    for (const { MessageBody = "", DelaySeconds = 0 } of this.#entries.slice(from))
      this.#putOne(MessageBody, DelaySeconds);
    return this;
  }

  #putOne(body: string, delay: number): void {
    const fate = this.#world.pick(["once", "twice", "late", "never"] as const, [40, 2, 2, 1]);
    if (fate !== "once") {
      this.#world.countFault(`message ${fate}`);
      this.#world.tell(this.#queue.name, `a message travels ${fate}`);
    }
    if (fate !== "never") this.#queue.send(body, delay + (fate === "late" ? 40 : 0));
    if (fate === "twice") this.#queue.send(body, delay);
  }

  #done(error: Error | undefined, failed?: readonly object[]): void {
    this.#world.pending.delete(this);
    this.#settle(error, failed);
  }
}
