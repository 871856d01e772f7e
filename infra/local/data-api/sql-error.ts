import { ApiFailure } from "./failure.ts";

/** The parts of a PostgreSQL error message that the service passes on. */
export interface SqlErrorParts {
  readonly severity?: string | undefined;
  readonly message: string;
  readonly code?: string | undefined;
  readonly hint?: string | undefined;
  readonly where?: string | undefined;
  readonly position?: string | undefined;
}

/**
 * An SQL error as the service words it: one line, parts separated by `; `, the SQLState last. No Detail: the service
 * leaves it out where PostgreSQL gives one (seen for 23505, 23502 and 40001), so no key values travel.
 */
export function sqlErrorText(error: SqlErrorParts): string {
  const parts = [`${error.severity ?? "ERROR"}: ${error.message}`];
  if (error.hint) parts.push(`Hint: ${error.hint}`);
  if (error.where) parts.push(`Where: ${error.where.replaceAll("\n", " ")}`);
  if (error.position) parts.push(`Position: ${error.position}`);
  parts.push(`SQLState: ${error.code ?? "XX000"}`);
  return parts.join("; ");
}

/** What the caller is told when PostgreSQL refused a statement or a connection. */
export function sqlFailure(error: Error): ApiFailure {
  const parts = error as Error & SqlErrorParts;
  // Without a severity it is not PostgreSQL that spoke: the connection could not be made or broke.
  if (parts.severity === undefined) return new ApiFailure("DatabaseUnavailableException");
  if (isMultiStatement(parts)) return new ApiFailure("ValidationException", "Multistatements aren't supported.");
  return new ApiFailure("DatabaseErrorException", sqlErrorText(parts));
}

function isMultiStatement(error: SqlErrorParts): boolean {
  return error.code === "42601" && error.message === "cannot insert multiple commands into a prepared statement";
}
