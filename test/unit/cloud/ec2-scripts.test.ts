import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import {
  COMMANDS,
  outputScript,
  type Start,
  startScript,
  stateScript,
  stopScript,
} from "../../../functions/cloud/ec2/scripts.ts";
import { until } from "../../support/until.ts";
import { type Machine, machine } from "./agent.ts";

const folder = `${COMMANDS}/key-1`;

/** A folder with programs that come before those of this machine: name → text of a shell script. */
function programs(texts: Readonly<Record<string, string>>): string {
  const dir = mkdtempSync(join(tmpdir(), "millrace-programs-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(texts)) {
    writeFileSync(join(dir, name), `#!/bin/sh\n${text}\n`);
    chmodSync(join(dir, name), 0o755);
  }
  return dir;
}

async function start(on: Machine, what: Partial<Start>): Promise<void> {
  const { code, stderr } = await on.run(startScript(folder, { command: ["true"], volumes: [], ...what }));
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
}

async function endOf(on: Machine): Promise<{ readonly state: string; readonly output: string }> {
  const state = await until(
    async () => {
      const { stdout } = await on.run(stateScript(folder));
      return stdout === "running\n" ? undefined : stdout.trim();
    },
    { what: "the command to end" },
  );
  const { stdout } = await on.run(outputScript(folder, 0, 16_000));
  return { state, output: Buffer.from(stdout.split("\n")[1]!, "base64").toString() };
}

describe.runIf(process.platform === "linux")("with bash as sh, as Amazon Linux has it", () => {
  const inBash = () => {
    const path = programs({});
    symlinkSync("/bin/bash", join(path, "sh"));
    return machine([join(path, "sh")], path);
  };

  test("arguments, output and exit code are the same", async () => {
    const on = inBash();
    await start(on, { command: ["sh", "-c", 'printf "[%s]" "$@"; exit 4', "sh", "it's", "a\nb\n", "$x `y`", "ü"] });
    expect(await endOf(on)).toEqual({ state: "exited 4", output: "[it's][a\nb\n][$x `y`][ü]" });
  });

  test("a command that does not listen is ended", async () => {
    const on = inBash();
    await start(on, { command: ["sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done"] });
    await until(() => readFileSync(join(on.root, "key-1/output"), "utf8") === "up\n", { what: "the command to be up" });
    expect((await on.run(stateScript(folder))).stdout).toBe("running\n");
    expect(await on.run(stopScript(folder, 0))).toMatchObject({ code: 0, stderr: "" });
    expect(await endOf(on)).toMatchObject({ state: "exited 137" });
  });
});

describe.runIf(process.platform === "linux")("volumes of a command", () => {
  /**
   * Devices are files here, and mounting is a link: a file system needs a device of the machine's own, and root. What
   * the supervisor does with the programs is what is looked at.
   */
  function withDisks(serials: Readonly<Record<string, string>>) {
    const disks = mkdtempSync(join(tmpdir(), "millrace-disks-"));
    onTestFinished(() => rmSync(disks, { recursive: true, force: true }));
    for (const [serial, content] of Object.entries(serials)) {
      mkdirSync(join(disks, `${serial}.files`));
      writeFileSync(join(disks, serial), content);
    }
    const log = join(disks, "log");
    writeFileSync(log, "");
    const path = programs({
      lsblk: `echo "/dev/root0 other"; cd ${disks}; for disk in vol?; do echo "${disks}/$disk $disk"; done`,
      // as blkid: 2 for nothing found, another for what cannot be told
      blkid: `[ "$(cat "$2")" != broken ] || exit 8; [ -s "$2" ] || exit 2`,
      "mkfs.ext4": `echo "mkfs $(basename "$2")" >> ${log}; echo ext4 > "$2"`,
      mount: `grep -q ext4 "$1" || exit 32; echo "mount $(basename "$1") $2" >> ${log}; rmdir "$2"; ln -s "$1.files" "$2"`,
      umount: `echo "umount $1" >> ${log}; rm "$1"`,
    });
    return { on: machine(["/bin/sh"], path), log: () => readFileSync(log, "utf8").trim().split("\n"), disks };
  }

  test("are formatted when they are empty, mounted under their names, and given back before the end is told", async () => {
    const { on, log, disks } = withDisks({ vola: "", volb: "ext4\n" });
    writeFileSync(join(disks, "volb.files/x"), "kept");
    await start(on, {
      command: ["sh", "-c", "cat 'it'\\''s/x'; echo new > data/y; ls"],
      volumes: [
        { id: "vol-a", name: "data" },
        { id: "vol-b", name: "it's" },
      ],
    });
    expect(await endOf(on)).toEqual({ state: "exited 0", output: "keptdata\nit's\n" });
    expect(log()).toEqual(["mkfs vola", "mount vola ./data", "mount volb ./it's", "umount ./it's", "umount ./data"]);
    expect(readFileSync(join(disks, "vola.files/y"), "utf8")).toBe("new\n");
  });

  test("are never formatted when it is not certain that nothing is on them", async () => {
    const { on, log } = withDisks({ vola: "broken\n" });
    await start(on, { command: ["echo", "hello"], volumes: [{ id: "vol-a", name: "data" }] });
    const { state, output } = await endOf(on);
    expect(state).toBe("exited 125");
    expect(output).toContain("millrace: volume vola cannot be mounted");
    expect(output).not.toContain("hello");
    expect(log()).not.toContain("mkfs vola");
  });

  test("are waited for; a stop meanwhile ends the wait, and the command is never started", async () => {
    const { on, log, disks } = withDisks({ volb: "ext4\n" });
    await start(on, { command: ["echo", "hello"], volumes: [{ id: "vol-a", name: "data" }] });
    expect((await on.run(stateScript(folder))).stdout).toBe("running\n");
    mkdirSync(join(disks, "vola.files"));
    expect(await on.run(stopScript(folder, 0))).toMatchObject({ code: 0 });
    expect(await endOf(on)).toMatchObject({ state: "exited 143" });
    expect(log().filter((line) => line.startsWith("mount"))).toEqual([]);
    expect(existsSync(join(on.root, "key-1/group"))).toBe(false);
  });
});

test("nothing that comes from outside stands in the text of a script", () => {
  const text = startScript(folder, { command: ["{{ssm:secret}}", "'; rm"], volumes: [{ id: "vol-a", name: "{{x}}" }] });
  expect(text).not.toMatch(/\{\{|'; rm/);
});
