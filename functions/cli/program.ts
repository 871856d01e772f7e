import { Command, CommanderError } from "commander";
import { ApiError, createClient } from "./client.ts";
import { CliError, EXIT, type Exit } from "./errors.ts";
import { addEvents } from "./events.ts";
import { addFleets } from "./fleets.ts";
import { addJobs } from "./jobs.ts";
import { addPipelines } from "./pipelines.ts";
import type { Session } from "./session.ts";
import { DEFAULT_STATE_DIR, findStack } from "./stack.ts";
import { addVolumes } from "./volumes.ts";

/** What the command line touches of its process. */
export interface Surroundings {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly stdout: (text: string) => void;
  readonly stderr: (text: string) => void;
  readonly now: () => Date;
  /** Waits, in milliseconds. */
  readonly pause: (milliseconds: number) => Promise<void>;
  /** Aborts when the user has had enough (Ctrl-C). Listened for by commands that follow something. */
  readonly interrupted: AbortSignal;
}

/**
 * Runs one command line (without node and script name) and answers the exit code:
 * 0 ok, 1 failed, 2 usage, 3 not found, 4 locked, 5 no stack.
 */
export async function run(args: readonly string[], surroundings: Surroundings): Promise<Exit> {
  const program = createProgram(surroundings);
  try {
    await program.parseAsync(args, { from: "user" });
    return EXIT.ok;
  } catch (error) {
    return report(error, program.opts<GlobalOptions>().json === true, surroundings);
  }
}

interface GlobalOptions {
  readonly stateDir?: string;
  readonly json?: boolean;
}

function createProgram(surroundings: Surroundings): Command {
  const { stdout, stderr } = surroundings;
  const program = new Command("millrace")
    .description("Looks at a running stack and steers it.")
    .option("--state-dir <dir>", `folder of the stack (default: $MILLRACE_STATE_DIR, else ${DEFAULT_STATE_DIR})`)
    .option("--json", "print the API's JSON")
    // Commander's own exit codes are not ours, and a test must be able to see them.
    .exitOverride()
    .configureOutput({ writeOut: stdout, writeErr: stderr })
    .configureHelp({ showGlobalOptions: true })
    .showHelpAfterError("(see --help)")
    .addHelpText("after", HELP);

  const open = (command: Command): Session => {
    const { MILLRACE_STATE_DIR } = surroundings.env;
    const { stateDir = MILLRACE_STATE_DIR ?? DEFAULT_STATE_DIR, json } = command.optsWithGlobals<GlobalOptions>();
    return {
      client: createClient(findStack(stateDir, surroundings.cwd)),
      print: (value, text) => stdout(json ? `${JSON.stringify(value, null, 2)}\n` : text(surroundings.now())),
      json: json === true,
      write: stdout,
      tell: (text) => stderr(`${text}\n`),
      pause: surroundings.pause,
      interrupted: surroundings.interrupted,
    };
  };
  addVolumes(program, open);
  addFleets(program, open);
  addJobs(program, open);
  addEvents(program, open);
  addPipelines(program, open);
  return program;
}

const HELP = `
Examples:
  millrace volumes create data --size 10
  millrace fleets create web --nodes 3
  millrace jobs run --fleet web --volume data -- sh -c 'date >> data/log; cat data/log'
  millrace volumes show 6a1f7c1e-8c0e-4a52-9d0f-0f0e6c9a1b2d --json
  millrace pause volumes --by "Ann, moving the disks"

Exit codes:
  0 ok  1 failed  2 usage  3 not found  4 locked  5 no stack`;

function report(error: unknown, json: boolean, { stderr }: Surroundings): Exit {
  // Commander has printed its own message. Help that was asked for is no error.
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
  if (error instanceof ApiError) {
    stderr(json ? `${JSON.stringify(error.problem, null, 2)}\n` : `error: ${error.message}\n`);
    return error.exit;
  }
  if (error instanceof CliError) {
    stderr(`error: ${error.message} (${error.code})\n`);
    return error.exit;
  }
  stderr(`error: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
  return EXIT.failed;
}
