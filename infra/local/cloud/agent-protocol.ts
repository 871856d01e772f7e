/* What the service and the agent of an instance tell each other, through a pipe that closes when either dies. */

export type ToAgent =
  | { readonly kind: "run"; readonly commandId: string; readonly command: readonly string[] }
  | { readonly kind: "stop"; readonly commandId: string; readonly graceSeconds: number }
  /** End all commands (SIGTERM, then SIGKILL after `graceSeconds`), then yourself. */
  | { readonly kind: "end"; readonly graceSeconds: number };

export type FromAgent =
  | { readonly kind: "ready" }
  | { readonly kind: "started"; readonly commandId: string; readonly pid: number };

/** Arguments of the agent's process, as JSON. */
export interface AgentSettings {
  readonly instanceId: string;
  /** Working directory and home of its commands. */
  readonly work: string;
  /** Folder with a folder for each command. */
  readonly commands: string;
}

/** How a command ended, in `ended.json` of its folder. */
export type Ended = { readonly exitCode: number } | { readonly lost: string };

/** `lost`: the instance that ran it is gone, and so is its exit code. */
export type CommandState =
  | { readonly state: "running" }
  | { readonly state: "exited"; readonly exitCode: number }
  | { readonly state: "lost"; readonly reason: string };
