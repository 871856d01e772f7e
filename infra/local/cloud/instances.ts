import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { processStart } from "../process-table.ts";
import type { AgentSettings, FromAgent, ToAgent } from "./agent-protocol.ts";
import type { CommandStore } from "./commands.ts";
import { killGroup, killOnFile, type ProcessOnFile } from "./groups.ts";
import { openClosedTags, openStore, readJson, type Thing, writeJson } from "./store.ts";

/** What `instance.json` in an instance's folder says. */
export interface Instance extends Thing {
  /** Whose instance it is; deleting by tag removes every instance of one owner. */
  readonly tag: string;
  readonly name: string;
}

export type InstanceRequest = Pick<Instance, "key" | "tag" | "name">;
type InstanceState = "starting" | "running" | "gone";

interface Agent {
  readonly child: ChildProcess;
  readonly ended: Promise<void>;
  ready: boolean;
}

export interface Instances {
  create(request: InstanceRequest): { readonly instance: Instance; readonly made: boolean };
  get(id: string): Instance | undefined;
  byTag(tag: string): Instance[];
  list(): Instance[];
  state(id: string): InstanceState;
  /** Working directory of its commands. */
  work(id: string): string;
  /** False when it is gone. */
  tell(id: string, message: ToAgent): boolean;
  /** Gone from now on; resolves when its processes have ended and its folder is removed. */
  remove(id: string): Promise<void>;
  closeTag(tag: string): void;
  isClosed(tag: string): boolean;
  /** Ends every agent with its commands. */
  close(): Promise<void>;
}

interface Parts {
  readonly dir: string;
  readonly commands: CommandStore;
  /** Tells of every process that has been started. */
  started(pid: number, what: string): void;
}

const AGENT = fileURLToPath(new URL("agent.ts", import.meta.url));
/** Between SIGTERM and SIGKILL for the commands of an instance that is to end. */
const END_SECONDS = 0.5;
/** After this much longer the agent itself is killed. */
const AGENT_SECONDS = 5;

/** Instances as folders `<dir>/instances/<id>`: `instance.json`, `agent.json`, `gone.json` for good, and `work/`. */
export function openInstances({ dir, commands, started }: Parts): Instances {
  const options = { dir, folder: "instances", file: "instance.json", prefix: "i", inside: ["work"] };
  const store = openStore<Instance>(options);
  const closed = openClosedTags(dir, "closed-instance-tags");
  const agents = new Map<string, Agent>();

  const isGone = (id: string) => readJson(store.path(id, "gone.json")) !== undefined;
  const die = (id: string, reason: string) => {
    if (!isGone(id)) writeJson(store.path(id, "gone.json"), { reason });
  };

  function start({ id }: Instance): void {
    const settings: AgentSettings = { instanceId: id, work: store.path(id, "work"), commands: commands.folder };
    // A group of its own: a Ctrl-C in the stack's terminal is for the stack, which then ends its agents.
    const child = spawn(process.execPath, [AGENT, JSON.stringify(settings)], {
      detached: true,
      stdio: ["ignore", "ignore", "inherit", "ipc"],
      env: { PATH: process.env["PATH"] ?? "" },
    });
    const { promise: ended, resolve } = Promise.withResolvers<void>();
    const agent: Agent = { child, ended, ready: false };
    agents.set(id, agent);
    const over = () => {
      die(id, "its agent ended");
      commands.lose(id, "the agent of its instance ended before it", { recent: true });
      agents.delete(id);
      resolve();
    };
    child.once("exit", over);
    child.on("error", () => child.pid === undefined && over());
    child.on("message", (message: FromAgent) => {
      if (message.kind === "ready") agent.ready = true;
      else started(message.pid, `command ${message.commandId}`);
    });
    if (child.pid === undefined) return;
    writeJson(store.path(id, "agent.json"), { pid: child.pid, start: processStart(child.pid) });
    started(child.pid, `instance ${id}`);
  }

  async function end(id: string): Promise<void> {
    const agent = agents.get(id);
    if (agent === undefined) return;
    agent.child.send({ kind: "end", graceSeconds: END_SECONDS } satisfies ToAgent, () => {});
    const { pid } = agent.child;
    const timer = setTimeout(
      () => pid !== undefined && killGroup(pid, "SIGKILL"),
      (END_SECONDS + AGENT_SECONDS) * 1000,
    );
    await agent.ended;
    clearTimeout(timer);
  }

  async function remove(id: string): Promise<void> {
    die(id, "it was deleted");
    await end(id);
    commands.removeOf(id);
    store.remove(id);
  }

  /** No agent outlives the service for long, so whatever is on file is gone; what was being deleted is deleted. */
  function settle(): void {
    for (const { id, tag } of store.list()) {
      const process = readJson<ProcessOnFile>(store.path(id, "agent.json"));
      if (process !== undefined) killOnFile(process, false);
      die(id, "the local cloud was restarted");
      commands.lose(id, "the local cloud was restarted", { recent: false });
      if (!closed.has(tag)) continue;
      commands.removeOf(id);
      store.remove(id);
    }
  }

  settle();
  return {
    create(request) {
      const { thing, made } = store.create(request);
      if (made) start(thing);
      return { instance: thing, made };
    },
    get: store.get,
    byTag: (tag) => store.list().filter((instance) => instance.tag === tag),
    list: store.list,
    state(id) {
      if (store.get(id) === undefined || isGone(id)) return "gone";
      return agents.get(id)?.ready ? "running" : "starting";
    },
    work: (id) => store.path(id, "work"),
    tell(id, message) {
      const child = agents.get(id)?.child;
      if (child === undefined || !child.connected || isGone(id)) return false;
      child.send(message, () => {}); // an agent that dies meanwhile is seen to have died
      return true;
    },
    remove,
    closeTag: closed.close,
    isClosed: closed.has,
    async close() {
      await Promise.all([...agents.keys()].map(end));
    },
  };
}
