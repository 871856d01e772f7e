// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is source text
import type { Mutation } from "../mutation.ts";

const dialect = "lib/adapters/data-api-dialect.ts";
const api = "lib/adapters/data-api.ts";
const errors = "lib/adapters/data-api-errors.ts";
const values = ["test/integration/adapters/data-api-dialect.test.ts"];
const transactions = ["test/integration/adapters/data-api-transactions.test.ts"];
const runner = ["test/integration/adapters/data-api.test.ts"];
const classes = ["test/unit/adapters/data-api-errors.test.ts"];

export const mutations: readonly Mutation[] = [
  {
    file: dialect,
    remove: "return { value: { longValue: value as unknown as number } };",
    by: "return { value: { doubleValue: Number(value) } };",
    tests: values,
    guard: "bigint is sent exactly",
  },
  {
    file: dialect,
    remove: 'longReturnType: "STRING", ',
    tests: values,
    guard: "int8 is read exactly",
  },
  {
    file: dialect,
    remove: ', decimalReturnType: "STRING"',
    by: ', decimalReturnType: "DOUBLE_OR_LONG"',
    tests: values,
    guard: "numeric keeps its digits",
  },
  {
    file: dialect,
    remove: "  if (SMALL_INTEGERS.has(type)) return { longValue: Number(field.stringValue) };\n",
    tests: values,
    guard: "int4 is a number",
  },
  {
    file: dialect,
    remove: 'return { stringValue: `${field.stringValue.replace(" ", "T")}Z` };',
    by: "return field;",
    tests: values,
    guard: "a timestamp is UTC",
  },
  {
    file: dialect,
    remove: "columnMetadata === undefined || columnMetadata.length === 0",
    by: "columnMetadata === undefined",
    tests: values,
    guard: "an empty description of columns is no result set",
  },
  {
    file: dialect,
    remove: "if (isUuid(value)) {",
    by: 'if (isUuid(value) && value === "") {',
    tests: values,
    guard: "uuid-shaped strings fit uuid columns",
  },
  {
    file: dialect,
    remove: "  if (value instanceof Uint8Array) return { value: { blobValue: value } };\n",
    tests: values,
    guard: "bytes travel",
  },
  {
    file: dialect,
    remove: 'return { typeHint: "JSON", value: { stringValue: JSON.stringify(value) } };',
    by: 'return "value" in value ? (value as never) : { typeHint: "JSON", value: { stringValue: JSON.stringify(value) } };',
    tests: values,
    guard: "an object that looks like a parameter is data",
  },
  {
    file: dialect,
    remove: 'if (Array.isArray(value)) throw new MillraceError("VALUE_UNSUPPORTED", { type: "array" });',
    tests: values,
    guard: "an array is refused",
  },
  {
    file: dialect,
    remove: "return numAffectedRows === undefined ? { rows } : { rows, numAffectedRows };",
    by: "return { rows, numAffectedRows, numUpdatedOrDeletedRows: numAffectedRows } as never;",
    tests: values,
    guard: "nobody is warned of an outdated driver",
  },
  {
    file: dialect,
    remove: "if (modes.length > 0) await",
    by: "if (modes.length > 9) await",
    tests: transactions,
    guard: "isolation level and access mode are obeyed",
  },
  {
    file: dialect,
    remove: ".rollbackTransaction(connection.current).catch(() => undefined);\n    await connection.renew();",
    by: ".rollbackTransaction(connection.current);\n    await connection.renew();",
    tests: transactions,
    guard: "an error is not replaced by that of its rollback",
  },
  {
    file: dialect,
    remove: "commitTransaction(connection.current);\n    await connection.renew();",
    by: "commitTransaction(connection.current);",
    tests: transactions,
    guard: "a connection is used again after a commit",
  },
  {
    file: dialect,
    remove: ".catch(() => undefined);\n    await connection.renew();",
    by: ".catch(() => undefined);",
    tests: transactions,
    guard: "a connection is used again after a rollback",
  },
  {
    file: dialect,
    remove: "`rollback to savepoint ${quoted(name)}`",
    by: "`select 1`",
    tests: transactions,
    guard: "a savepoint is gone back to",
  },
  {
    file: dialect,
    remove: "  override async acquireMigrationLock(): Promise<void> {}\n",
    tests: transactions,
    guard: "migrations take no session lock",
  },
  {
    file: errors,
    remove: "SQLState: ([0-9A-Z]{5})\\s*$/",
    by: "SQLState: ([0-9A-Z]{5})/",
    tests: classes,
    guard: "the state at the end counts, not one inside a value",
  },
  {
    file: errors,
    remove: "did not establish a connection|",
    tests: classes,
    guard: "a time limit while connecting means that nothing ran",
  },
  {
    file: errors,
    remove: " || NO_SESSION.has(sqlState)",
    tests: classes,
    guard: "a server that takes no session ran nothing",
  },
  {
    file: errors,
    remove: '    if (SESSION_GONE.test(sqlState)) return as("unanswered");\n',
    tests: runner,
    guard: "a session that went away is no refusal",
  },
  {
    file: errors,
    remove: "NOT_CONNECTED.has(code) || ",
    tests: runner,
    guard: "a refused connection ran nothing",
  },
  {
    file: errors,
    remove: 'const ROLLED_BACK = new Set(["40P01", "40001"]);',
    by: 'const ROLLED_BACK = new Set(["40001"]);',
    tests: runner,
    guard: "a deadlock is repeated",
  },
  {
    file: errors,
    remove: 'sqlState === LOCK_NOT_AVAILABLE ? "lockTimeout" : "failed"',
    by: '"failed"',
    tests: runner,
    guard: "the patient wait for a lock",
  },
  {
    file: errors,
    remove: 'if (name === "DatabaseResumingException") return as("resuming");',
    tests: runner,
    guard: "a database that wakes up is waited for",
  },
  {
    file: api,
    remove: '(classified.failure === "lockTimeout" && !patient)',
    by: "false",
    tests: runner,
    guard: "a lock timeout is thrown to whoever can split the batch",
  },
  {
    file: api,
    remove: 'if (classified.failure === "unanswered") unanswered = true;',
    tests: runner,
    guard: "an attempt without an answer is not forgotten",
  },
  {
    file: api,
    remove: "hopeless || clock.now() + ms > until",
    by: "hopeless",
    tests: runner,
    guard: "repetitions end with the time left",
  },
  {
    file: api,
    remove: "Math.min(seconds * 1000, timeLeft() - RESERVE_MS)",
    by: "seconds * 1000",
    tests: runner,
    guard: "the wait for an answer ends with the time left",
  },
  {
    file: api,
    remove: "continueAfterTimeout ? { ...input, continueAfterTimeout } : input",
    by: "input",
    tests: runner,
    guard: "a long statement goes on when its call has timed out",
  },
];
