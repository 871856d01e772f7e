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

  /** The modules that load with `index.mjs`: what it imports, and so on. */
  function loadedWith(folder: string, file = "index.mjs", loaded = new Set<string>()): Set<string> {
    loaded.add(file);
    for (const [, next] of read(folder, file).matchAll(/(?:from|import)"\.\/([^"]+)"/g)) {
      if (!loaded.has(next!)) loadedWith(folder, next, loaded);
    }
    return loaded;
  }

  it.each(handlerNames)("%s is a module and its source map, small enough to start fast", (name) => {
    const folder = bundles.folders[name];
    const modules = readdirSync(folder).filter((file) => file.endsWith(".mjs"));
    expect(readdirSync(folder).sort()).toEqual(modules.flatMap((file) => [file, `${file}.map`]).sort());
    if (name !== "worker" && name !== "api") expect(modules).toEqual(["index.mjs"]);
    const sizes = [...loadedWith(folder)].map((file) => statSync(join(folder, file)).size);
    expect(sizes.reduce((sum, size) => sum + size)).toBeLessThan(600_000);
  });

  it("a worker does not start with the client of EC2, but has it", () => {
    const folder = bundles.folders.worker;
    const withEc2 = readdirSync(folder).filter(
      (file) => file.endsWith(".mjs") && /TerminateInst/.test(read(folder, file)),
    );
    expect(withEc2).toEqual([expect.stringMatching(/^ec2-/)]);
    expect(loadedWith(folder)).not.toContain(withEc2[0]);
    expect(read(folder, "index.mjs")).toContain(`import("./${withEc2[0]}")`);
  });

  it.each(handlerNames)("%s loads with nothing around it but Node", (name) => {
    const script = `console.log(typeof (await import("${bundles.folders[name]}/index.mjs")).handler)`;
    expect(inNode(script)).toBe("function\n");
  });

  it("so does every part of a worker", () => {
    const folder = bundles.folders.worker;
    const parts = readdirSync(folder).filter((file) => file.endsWith(".mjs"));
    const script = parts.map((file) => `await import("${folder}/${file}");`).join("\n");
    expect(inNode(`${script}\nconsole.log("loaded")`)).toBe("loaded\n");
  });

  const inNode = (script: string) =>
    execFileSync(process.execPath, ["--input-type=module", "-e", script], {
      cwd: out,
      env: { AWS_REGION: "us-east-1" },
      encoding: "utf8",
    });

  it("are the same on every machine: no path of this one is in them", () => {
    using one = bundleHandlers();
    using two = bundleHandlers();
    for (const name of handlerNames) {
      expect(readdirSync(two.folders[name])).toEqual(readdirSync(one.folders[name]));
      for (const file of readdirSync(one.folders[name])) {
        expect(read(two.folders[name], file) === read(one.folders[name], file), `${name}/${file}`).toBe(true);
      }
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
