/* A local cloud in a process of its own, to be killed: `node serve-cloud.ts <dir>` writes its URL and stays. */

import { startCloud } from "../../../infra/local/cloud/index.ts";

const cloud = await startCloud({ dir: process.argv[2] ?? "", port: 0, killCaller() {} });
process.stdout.write(`${cloud.url}\n`);
