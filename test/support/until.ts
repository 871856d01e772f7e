/** Waits for a condition by asking again and again; the failure says what it waited for. Times in milliseconds. */
export async function until<T>(
  condition: () => T | Promise<T>,
  options: { readonly what: string; readonly timeoutMs?: number; readonly everyMs?: number },
): Promise<NonNullable<T>> {
  const { what, timeoutMs = 10_000, everyMs = 10 } = options;
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const answer = await condition();
    if (answer) return answer;
    if (performance.now() > deadline) throw new Error(`waited ${timeoutMs} ms in vain for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, everyMs));
  }
}
