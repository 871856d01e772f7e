const files =
  (folder: string) =>
  (...names: readonly string[]): readonly string[] =>
    names.map((name) => `test/integration/${folder}/${name}.test.ts`);

/** Tests of the statements, by name. */
export const sql = files("sql");
/** Tests of the engine over the database, by name. */
export const real = files("engine");
/** Tests of the writers, by name. */
export const writers = files("write");
