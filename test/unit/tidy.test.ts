import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";

const root = new URL("../..", import.meta.url).pathname;
const files = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard", "--", "*.ts"], {
  cwd: root,
  encoding: "utf8",
})
  .split("\n")
  .filter((f) => f !== "" && existsSync(root + f));
const source = new Map(files.map((f) => [f, readFileSync(root + f, "utf8")]));
const imports = (text: string) => [...text.matchAll(/from "(\.[^"]+)"/g)].map((m) => m[1]!);

/** What a folder must not say, and what to say instead. */
const RULES = [
  {
    in: /^lib\/(define|sql|engine|write)\//,
    not: /\bDate\.now\(|new Date\(\)|performance\.now\(/,
    instead: "the clock that is passed in",
  },
  { in: /^lib\/(?!adapters\/)/, not: /process\.env/, instead: "lib/adapters/environment.ts" },
  { in: /^lib\/(?!adapters\/)/, not: /from "@aws-/, instead: "a port of lib/engine/ports.ts" },
  { in: /^lib\/sql\//, not: /clock_timestamp|current_timestamp|pg_catalog\.now/, instead: "now()" },
  { in: /^test\/(?!support\/)/, not: /\bsetTimeout\(|\bsleep\(/, instead: "until(), a gate, or time as data" },
  { in: /^test\//, not: /\b(it|test|describe)\.(skip|only|todo)\b/, instead: "a test that runs" },
  { in: /^(lib|functions|infra)\//, not: /\bconsole\.log\(.*(password|secret)/i, instead: "nothing" },
] as const;

/** Layers of lib, lowest first; each may import those before it. */
const LAYERS = ["define", "sql", "engine", "write"] as const;

describe("every file", () => {
  test("is at most 250 lines", () => {
    const long = files.filter((f) => /^(lib|functions|infra)\//.test(f) && source.get(f)!.split("\n").length > 251);
    expect(long).toEqual([]);
  });

  test.each(RULES)("in $in does not say $not, but $instead", ({ in: where, not }) => {
    const bad = files.filter((f) => where.test(f) && not.test(source.get(f)!) && !f.endsWith("tidy.test.ts"));
    expect(bad).toEqual([]);
  });

  test("is named in kebab-case", () => {
    expect(files.filter((f) => !/^([a-z0-9.-]+\/)*[a-z0-9.-]+\.ts$/.test(f))).toEqual([]);
  });
});

describe("imports go one way", () => {
  test("inside lib: define, sql, engine, write", () => {
    const bad: string[] = [];
    for (const [file, text] of source) {
      const layer = LAYERS.findIndex((l) => file.startsWith(`lib/${l}/`));
      if (layer < 0) continue;
      for (const target of imports(text))
        for (const higher of [...LAYERS.slice(layer + 1), "schema", "adapters"])
          if (target.includes(`../${higher}/`)) bad.push(`${file} -> ${target}`);
    }
    expect(bad).toEqual([]);
  });

  test("functions and infra see lib/index.ts alone, and the local stack nothing of functions", () => {
    const bad: string[] = [];
    for (const [file, text] of source)
      for (const target of imports(text)) {
        if (/^(functions|infra)\//.test(file) && /\/lib\/(?!index\.ts$)/.test(target)) bad.push(`${file} -> ${target}`);
        if (file.startsWith("infra/local/") && /\/functions\//.test(target)) bad.push(`${file} -> ${target}`);
      }
    expect(bad).toEqual([]);
  });
});
