import { startPostgres } from "../../infra/local/postgres.ts";

/** Run as a process of its own: keeps a PostgreSQL in the directory it is given until it is killed. */
const { port, pid, url } = await startPostgres({ dataDir: process.argv[2] ?? "", port: 0 });
console.log(JSON.stringify({ port, pid, url: url("postgres") }));
