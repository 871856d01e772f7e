/* Every receipt handle that was given out: which message, and until when it is hidden. */

interface Receipt {
  readonly queue: string;
  readonly messageId: string;
  readonly receivedAt: number;
  hiddenUntil: number;
}

/** The longest that a message may stay hidden after one receive, in seconds. */
const LONGEST_HIDDEN_SECONDS = 43_200;
const KEPT = 200_000;

/** The emulator takes any handle for good; this tells bogus and outlived ones apart, as SQS does. */
export class Receipts {
  readonly #byHandle = new Map<string, Receipt>();

  add(handle: string, queue: string, messageId: string, visibilitySeconds: number): void {
    const now = Date.now();
    this.#byHandle.set(handle, { queue, messageId, receivedAt: now, hiddenUntil: now + visibilitySeconds * 1000 });
    if (this.#byHandle.size > KEPT) this.#byHandle.delete(this.#byHandle.keys().next().value!);
  }

  /** The message of a handle of this queue, whether hidden still or not; undefined for a bogus handle. */
  messageId(queue: string, handle: string): string | undefined {
    const receipt = this.#byHandle.get(handle);
    return receipt?.queue === queue ? receipt.messageId : undefined;
  }

  /** Why the visibility of this receive cannot be changed to so many seconds: an SQS error name and text. */
  refusal(
    queue: string,
    handle: string,
    seconds: number,
  ): { readonly name: string; readonly text: string } | undefined {
    const receipt = this.#byHandle.get(handle);
    if (receipt?.queue !== queue) {
      return {
        name: "ReceiptHandleIsInvalid",
        text: `The input receipt handle "${handle}" is not a valid receipt handle.`,
      };
    }
    const now = Date.now();
    if (receipt.hiddenUntil <= now) {
      return { name: "MessageNotInflight", text: "The message referred to is not in flight." };
    }
    if (
      now + seconds * 1000 > receipt.receivedAt + LONGEST_HIDDEN_SECONDS * 1000 &&
      seconds <= LONGEST_HIDDEN_SECONDS
    ) {
      const text = `Total VisibilityTimeout for the message is beyond the limit [${LONGEST_HIDDEN_SECONDS} seconds].`;
      return { name: "InvalidParameterValue", text };
    }
    return undefined;
  }

  /** Notes a changed visibility; 0 means that the handle has had its day. */
  hide(handle: string, seconds: number): void {
    const receipt = this.#byHandle.get(handle);
    if (receipt) receipt.hiddenUntil = Date.now() + seconds * 1000;
  }
}
