import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { bundleHandlers, handlerNames } from "../../infra/aws/bundle.ts";
import type { Resource } from "./assemble.ts";

const root = new URL("../..", import.meta.url).pathname;
const out = mkdtempSync(join(tmpdir(), "stack-test-"));
afterAll(() => rmSync(out, { recursive: true }));

describe("the CDK command line", () => {
  const { PATH } = process.env;
  // An empty environment: no account, no credentials, no region, no home to find any in.
  const env = { PATH: `${root}node_modules/.bin:${PATH}`, HOME: out };

  it("synthesizes this repository without an account, and has nothing to say about it", () => {
    const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
    const command = `${scripts.synth} -o ${out}/assembly 2>&1`;
    const { status, stdout } = spawnSync("/bin/sh", ["-c", command], { cwd: root, env, encoding: "utf8" });
    expect({ status, stdout }).toEqual({ status: 0, stdout: "" });
  });

  it("makes the template that the app makes alone, apart from metadata", () => {
    const options = { cwd: root, env: { ...env, CDK_OUTDIR: `${out}/alone`, CDK_VALIDATION: "false" } };
    execFileSync(process.execPath, ["infra/aws/app.ts"], options);
    expect(template("alone")).toEqual(template("assembly"));
  });

  function template(folder: string): Record<string, Omit<Resource, "Metadata">> {
    const file = join(out, folder, "millrace-dev.template.json");
    // The hashes of code are left out: somebody may be saving a file meanwhile.
    const text = readFileSync(file, "utf8").replace(/[0-9a-f]{32,64}/g, "hash");
    const { Resources } = JSON.parse(text) as { Resources: Record<string, Resource> };
    const resources = Object.entries(Resources).filter(([, { Type }]) => Type !== "AWS::CDK::Metadata");
    return Object.fromEntries(resources.map(([id, { Metadata: _, ...resource }]) => [id, resource]));
  }
});

describe("bundles", () => {
  const bundles = bundleHandlers();
  afterAll(() => bundles[Symbol.dispose]());
  const read = (folder: string, file: string) => readFileSync(join(folder, file), "utf8");

  it.each(handlerNames)("%s is a module and its source map, small enough to start fast", (name) => {
    const folder = bundles.folders[name];
    expect(readdirSync(folder).sort()).toEqual(["index.mjs", "index.mjs.map"]);
    expect(statSync(join(folder, "index.mjs")).size).toBeLessThan(600_000);
  });

  it.each(handlerNames)("%s loads with nothing around it but Node", (name) => {
    const script = `console.log(typeof (await import("${bundles.folders[name]}/index.mjs")).handler)`;
    const env = { AWS_REGION: "us-east-1" };
    const output = execFileSync(process.execPath, ["--input-type=module", "-e", script], {
      cwd: out,
      env,
      encoding: "utf8",
    });
    expect(output).toBe("function\n");
  });

  it("are the same on every machine: no path of this one is in them", () => {
    using one = bundleHandlers();
    using two = bundleHandlers();
    for (const name of handlerNames) {
      expect(read(two.folders[name], "index.mjs")).toBe(read(one.folders[name], "index.mjs"));
      const { sources } = JSON.parse(read(one.folders[name], "index.mjs.map")) as { sources: string[] };
      expect(sources).toContain(`../../functions/${name}.ts`);
      expect(sources.filter((source) => source.includes(root))).toEqual([]);
    }
  });

  it("go when they are no longer needed", () => {
    const { folders, ...rest } = bundleHandlers();
    rest[Symbol.dispose]();
    expect(existsSync(folders.worker)).toBe(false);
  });
});
