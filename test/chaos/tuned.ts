/* The app with settings for a faster recovery, synthesized from a copy of the code. */

import { cp, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { synthesize } from "../../infra/local/assembly.ts";
import { ROOT } from "../../infra/local/state.ts";

/** As docs/operations.md advises. A database that is away for longer than the lease costs the passes under way. */
export const TUNED = {
  lockTimeoutSeconds: 8,
  leaseSeconds: 6,
  heartbeatTickSeconds: 2,
  heartbeatTriggerSeconds: 5,
} as const;

const CODE = ["lib", "functions", "infra", "package.json", "cdk.json"];
const DEFAULTS = "lib/define/options.ts";

/** Puts an assembly of the same app into the folder, whose pipelines all have these options in place of the defaults. */
export async function synthesizeTuned(
  outdir: string,
  options: Readonly<Record<string, number>> = TUNED,
): Promise<void> {
  const copy = await mkdtemp(join(tmpdir(), "millrace-tuned-"));
  try {
    for (const name of CODE) await cp(join(ROOT, name), join(copy, name), { recursive: true });
    await symlink(join(ROOT, "node_modules"), join(copy, "node_modules"));
    await writeFile(join(copy, DEFAULTS), changed(await readFile(join(copy, DEFAULTS), "utf8"), options));
    await synthesize({ outdir, app: join(copy, "infra/aws/app.ts") });
  } finally {
    await rm(copy, { recursive: true, force: true });
  }
}

function changed(text: string, options: Readonly<Record<string, number>>): string {
  return Object.entries(options).reduce((before, [name, value]) => {
    const after = before.replace(new RegExp(`^(  ${name}:) [0-9]+,$`, "m"), `$1 ${value},`);
    if (after === before && !before.includes(`  ${name}: ${value},`))
      throw new Error(`no default of ${name} in ${DEFAULTS}`);
    return after;
  }, text);
}
