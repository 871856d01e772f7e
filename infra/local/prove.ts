/* The proof that a stack works: a volume is made through the API and followed until it is active; a fleet comes and goes. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import pg from "pg";
import { createApi } from "./call-api.ts";
import { LocalError } from "./errors.ts";
import type { Progress } from "./progress.ts";
import { proveFleet } from "./prove-fleet.ts";
import { PATIENCE_SECONDS, proveUntil } from "./prove-until.ts";
import type { Stack } from "./stack.ts";
import type { Local } from "./state.ts";

interface Volume {
  readonly id: string;
  readonly status: string;
  readonly createdAt: string;
}

interface Phases {
  readonly created_at: Date;
  readonly locked_at: Date | null;
  /** From the queue's own log: a worker may claim a row before the mark of its sending is stored. */
  readonly queued_at: Date | null;
  readonly claimed_at: Date | null;
  readonly finished_at: Date | null;
  readonly state: string | null;
}

/**
 * Creates a volume and waits until it is active; each phase is told. Then a fleet of one instance, whose pipelines hint
 * each other. A call that a role did not allow ends it at once, with `refused`'s error.
 * Throws ACCESS_DENIED, API_FAILED, VOLUME_NOT_ACTIVE or FLEET_STUCK.
 */
export async function prove({ local, refused }: Stack, stateDir: string, progress: Progress): Promise<void> {
  try {
    await makeVolume(local, stateDir, progress, refused);
    await proveFleet(local, stateDir, progress, refused);
  } catch (error) {
    // a permission that is missing says more than what came of it
    throw refused() ?? error;
  }
  const refusal = refused();
  if (refusal) throw refusal;
}

async function makeVolume(
  local: Local,
  stateDir: string,
  progress: Progress,
  refused: Stack["refused"],
): Promise<void> {
  const logs = join(stateDir, "logs");
  const api = createApi(local, stateDir);
  const client = new pg.Client({ connectionString: local.databaseUrl });
  await client.connect();
  try {
    const name = `proof-${Date.now().toString(36)}`;
    const from = performance.now();
    const volume = await api.call<Volume>("POST", "/volumes", { name, sizeGb: 1 });
    progress.note(`volume ${name} created through the API (answered in ${ms(performance.now() - from)})`);
    const told = new Set<string>();
    let { status } = volume;
    let phases: Phases | undefined;
    const stuck = () => new LocalError("VOLUME_NOT_ACTIVE", { id: volume.id, status, seconds: PATIENCE_SECONDS, logs });
    const active = async () => {
      ({ status } = await api.call<Volume>("GET", `/volumes/${volume.id}`));
      phases = await readPhases(client, volume.id, stateDir);
      tell(phases, told, progress);
      if (status === "failed") throw stuck();
      return status === "active" && phases?.finished_at != null;
    };
    await proveUntil(refused, active, stuck);
    done(phases!, progress);
  } finally {
    await client.end();
  }
}

async function readPhases(client: pg.Client, id: string, stateDir: string): Promise<Phases | undefined> {
  const { rows } = await client.query<Omit<Phases, "queued_at">>(
    `select v.created_at, i.locked_at, i.claimed_at, i.finished_at, i.state
       from volumes v left join millrace.items i on i.item_id = v.id and i.pipeline = 'volumes'
      where v.id = $1`,
    [id],
  );
  return rows[0] && { ...rows[0], queued_at: sentAt(id, join(stateDir, "sqs.jsonl")) };
}

function sentAt(id: string, queueLog: string): Date | null {
  const lines = readFileSync(queueLog, "utf8").split("\n");
  const line = lines.find((each) => each.endsWith("}") && each.includes('"op":"send"') && each.includes(id));
  return line === undefined ? null : new Date((JSON.parse(line) as { at: string }).at);
}

const PHASES = [
  ["locked", "locked_at", "a fetcher took the row"],
  ["queued", "queued_at", "its message was accepted by the queue"],
  ["processing", "claimed_at", "a worker holds it"],
  ["finished", "finished_at", "the result was applied"],
] as const;

function tell(phases: Phases | undefined, told: Set<string>, progress: Progress): void {
  if (!phases) return;
  for (const [phase, column, meaning] of PHASES) {
    const at = phases[column];
    if (!at || told.has(phase)) continue;
    told.add(phase);
    progress.note(`  ${phase.padEnd(10)} ${ms(at.getTime() - phases.created_at.getTime()).padStart(8)}  ${meaning}`);
  }
}

function done(phases: Phases, progress: Progress): void {
  const total = phases.finished_at!.getTime() - phases.created_at.getTime();
  progress.note(`volume is active, ${ms(total)} after its row was inserted`);
}

const ms = (milliseconds: number) => `${Math.round(milliseconds)} ms`;
