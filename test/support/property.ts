import fc from "fast-check";

/** The same inputs in every run; a failure prints them, and how to repeat it. */
const SEED = 20_261_204;

/** Checks a property with so many inputs. */
export const holds = <T>(property: fc.IProperty<T>, numRuns = 1_000): void =>
  fc.assert(property, { seed: SEED, numRuns });

/** The same for one that waits. */
export const holdsAsync = <T>(property: fc.IAsyncProperty<T>, numRuns = 300): Promise<void> =>
  fc.assert(property, { seed: SEED, numRuns });

/** What a call came to: its value, or the code of its refusal. Any other error is thrown on: nobody foresaw it. */
export function codeOr<T>(call: () => T): { readonly value: T } | { readonly code: string; readonly message: string } {
  try {
    return { value: call() };
  } catch (error) {
    const { code, message } = error as { code?: unknown; message: string };
    if (typeof code === "string" && /^[A-Z]+(_[A-Z]+)*$/.test(code)) return { code, message };
    throw error;
  }
}
