import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { COMMANDS } from "../../../functions/cloud/ec2/scripts.ts";
import { type Answers, instancesAre, type RunningAws, runAws, type Sent, ssmFailure } from "./aws.ts";

interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Machine {
  /** Stands for the folder of commands on an instance. */
  readonly root: string;
  run(script: string): Promise<Ended>;
}

/** This machine as an instance: scripts run for real, in a folder of the test's own. `path` comes before PATH. */
export function machine(shell: readonly string[] = ["/bin/sh"], path?: string): Machine {
  const root = join(mkdtempSync(join(tmpdir(), "millrace-commands-")), "commands");
  onTestFinished(() => rmSync(join(root, ".."), { recursive: true, force: true }));
  const PATH = [path, process.env["PATH"], "/usr/sbin", "/sbin"].filter((each) => each !== undefined).join(":");
  return {
    root,
    run(script) {
      const [program = "/bin/sh", ...options] = shell;
      const child = spawn(program, [...options, "-c", script.replaceAll(COMMANDS, root)], {
        env: { ...process.env, PATH },
        stdio: ["ignore", "pipe", "pipe"],
      });
      let stdout = "";
      let stderr = "";
      child.stdout.setEncoding("utf8").on("data", (text) => {
        stdout += text;
      });
      child.stderr.setEncoding("utf8").on("data", (text) => {
        stderr += text;
      });
      return new Promise((resolve) => child.on("close", (code) => resolve({ code: code ?? -1, stdout, stderr })));
    },
  };
}

/** Systems Manager with one instance, i-0a, which is this machine. What it answers is what AWS documents. */
export async function runAgent(answers: Answers = {}): Promise<RunningAws & Machine> {
  const instance = machine();
  const running = new Map<string, Ended | "running">();
  const send = (sent: Sent) => {
    const id = randomUUID();
    const { commands } = sent["Parameters"] as { commands: string[] };
    running.set(id, "running");
    void instance.run(commands.join("\n")).then((ended) => running.set(id, ended));
    return { body: { Command: { CommandId: id, Status: "Pending" } } };
  };
  const get = (sent: Sent) => {
    const ended = running.get(String(sent["CommandId"]));
    if (ended === undefined) return ssmFailure(400, "InvocationDoesNotExist");
    if (ended === "running") return { body: { Status: "InProgress", StandardOutputContent: "" } };
    const Status = ended.code === 0 ? "Success" : "Failed";
    return {
      body: {
        Status,
        StatusDetails: Status,
        ResponseCode: ended.code,
        StandardOutputContent: ended.stdout.slice(0, 24_000),
        StandardErrorContent: ended.stderr.slice(0, 8_000),
      },
    };
  };
  const aws = await runAws({
    SendCommand: [send],
    GetCommandInvocation: [get],
    DescribeInstances: [instancesAre({ id: "i-0a", state: "running" })],
    DescribeInstanceInformation: [{ body: { InstanceInformationList: [{ PingStatus: "Online" }] } }],
    ...answers,
  });
  return { ...aws, ...instance };
}
