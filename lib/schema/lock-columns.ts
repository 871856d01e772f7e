import type { Registry } from "../define/registry.ts";

/** The columns of a table that related locks and `yieldTo` name, by name; conditions are not looked into. */
export function lockColumns(registry: Registry, table: string): readonly string[] {
  const named: string[] = [];
  const add = (of: string, ...columns: readonly string[]) => {
    if (of === table) named.push(...columns);
  };
  for (const pipeline of registry.pipelines) {
    for (const { column } of pipeline.yieldTo) add(pipeline.table, column);
    for (const lock of pipeline.states.flatMap((s) => Object.values(s.locks)))
      if (lock.kind === "children") add(lock.table, lock.column);
      else if (lock.kind === "pick") {
        add(lock.table, ...Object.keys(lock.match), ...lock.orderBy);
        add(pipeline.table, ...Object.values(lock.match));
      } else add(pipeline.table, lock.column);
  }
  return [...new Set(named)].sort();
}
