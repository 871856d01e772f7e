/** A point in `process` at which a test holds a pass. */
export interface Gate<T = void> {
  /** Called by the pass: says that it is here, and waits to be let through. */
  pass(value?: T): Promise<void>;
  /** Resolves when a pass is here, with what it brought. */
  readonly reached: Promise<T>;
  open(): void;
}

export function gate<T = void>(): Gate<T> {
  const reached = Promise.withResolvers<T>();
  const opened = Promise.withResolvers<void>();
  return {
    pass: (value) => {
      reached.resolve(value as T);
      return opened.promise;
    },
    reached: reached.promise,
    open: opened.resolve,
  };
}
