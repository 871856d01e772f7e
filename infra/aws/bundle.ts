import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { type BuildOptions, buildSync, type OutputFile } from "esbuild";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** The functions of a stack, each named for the file that exports its `handler`. */
export const handlerNames = ["fetcher", "worker", "heartbeater", "migrate", "api"] as const;
export type HandlerName = (typeof handlerNames)[number];

/**
 * What the SDK loads only where credentials come from a developer's profile. Lambda puts them into the environment,
 * so these would be a sixth of every bundle for nothing.
 */
const neverLoaded = ["ini", "process", "sso", "web-identity"].map((name) => `@aws-sdk/credential-provider-${name}`);

/** A folder for each handler, with `index.mjs` and what it loads, and source maps. Disposing removes them all. */
export interface Bundles extends Disposable {
  readonly folders: Readonly<Record<HandlerName, string>>;
}

/**
 * Bundles every handler, in few runs of esbuild: a run for each function takes five times as long.
 * The folders depend on the sources only, not on the machine, so that an unchanged function is not deployed again.
 */
export function bundleHandlers(): Bundles {
  const outputFiles = [
    ...build(handlerNames.filter((name) => name !== "worker" && name !== "api")),
    // In parts: the client of EC2 is larger than all the rest of them, and only loaded where cloud is ec2. The
    // runtime of Lambda has one too, but of a version that changes without us.
    ...build(["worker"], { splitting: true, chunkNames: "worker/[name]-[hash]" }),
    ...build(["api"], { splitting: true, chunkNames: "api/[name]-[hash]" }),
  ];
  const target = mkdtempSync(join(tmpdir(), "millrace-bundles-"));
  for (const { path, contents } of outputFiles) {
    const file = path.replace(outdir, target);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, contents);
  }
  return {
    folders: Object.fromEntries(handlerNames.map((name) => [name, join(target, name)])) as Bundles["folders"],
    [Symbol.dispose]: () => rmSync(target, { recursive: true, force: true }),
  };
}

// Nothing is written here; source maps are relative to it.
const outdir = join(root, "cdk.out");

function build(names: readonly HandlerName[], options: BuildOptions = {}): OutputFile[] {
  const { outputFiles = [] } = buildSync({
    absWorkingDir: root,
    entryPoints: Object.fromEntries(names.map((name) => [`${name}/index`, `functions/${name}.ts`])),
    outdir,
    outExtension: { ".js": ".mjs" },
    write: false,
    bundle: true,
    platform: "node",
    target: "node24",
    format: "esm",
    mainFields: ["module", "main"],
    external: neverLoaded,
    minify: true,
    sourcemap: true,
    sourcesContent: false,
    // CommonJS packages inside an ES module call require().
    banner: {
      js: "import { createRequire as __createRequire } from 'node:module'; const require = __createRequire(import.meta.url);",
    },
    logLevel: "warning",
    ...options,
  });
  return outputFiles;
}
