import { createServer } from "node:net";
import { LocalError } from "../errors.ts";

/** `port`, or any free one for 0. PORT_IN_USE if somebody listens there already. */
export function claimPort(port: number): Promise<number> {
  const server = createServer();
  return new Promise((done, failed) => {
    server.once("error", (cause: NodeJS.ErrnoException) => {
      failed(cause.code === "EADDRINUSE" ? portInUse(port, cause) : cause);
    });
    server.listen(port, "127.0.0.1", () => {
      const address = server.address();
      const claimed = typeof address === "object" && address ? address.port : port;
      server.close(() => done(claimed));
    });
  });
}

export function portInUse(port: number, cause?: Error): LocalError {
  const details = { what: "PostgreSQL", port, option: "--database-port" };
  return new LocalError("PORT_IN_USE", details, { cause });
}
