import type { Pipeline } from "../../lib/index.ts";
import type { Statement } from "../../lib/sql/statement.ts";
import type { TestEngine } from "../support/engine-on.ts";
import type { Ledger } from "./ledger.ts";
import type { TableName } from "./pipelines.ts";
import type { Random } from "./random.ts";
import { type Sender, sqlStateOf } from "./senders.ts";
import type { Tally } from "./tally.ts";

/** What travels through the queue. */
export interface Message {
  readonly id: string;
  readonly token: string;
}

/** A row that a claim was answered `ours` for; perhaps lost since. */
export interface Held {
  readonly id: string;
  readonly token: string;
  seen: string | null;
  readonly state: string | null;
  /** Its related rows; undefined: nobody has tried to lock them, null: in vain. */
  related?: Related | null;
}

/** Related rows that are locked, by lock, as they were read under the locks. */
export interface Related {
  readonly [lock: string]: {
    readonly table: TableName;
    readonly children: boolean;
    readonly rows: readonly { readonly id: string; readonly busy: number }[];
  };
}

/** Everything that the actors share. Queues and held rows are anybody's, as late deliveries and slow workers are. */
export interface World {
  readonly engine: TestEngine;
  readonly senders: readonly Sender[];
  readonly ledger: Ledger;
  readonly tally: Tally;
  /** Ids by table, in the order in which everybody locks them. */
  readonly ids: Readonly<Record<Exclude<TableName, "bits">, string[]>>;
  /** Ids of rows that nobody deletes. */
  readonly lasting: ReadonlySet<string>;
  readonly queues: ReadonlyMap<string, Message[]>;
  readonly held: ReadonlyMap<string, Held[]>;
  /** Marks of sends for the next fetch. */
  readonly marks: ReadonlyMap<string, Message[]>;
  /** Committed `size = size + 1` by id. */
  readonly increments: Map<string, number>;
  /** Errors that reached a caller. */
  readonly errors: string[];
}

export interface Actor {
  readonly world: World;
  readonly random: Random;
  readonly sender: Sender;
}

/** What one sending came to; no rows where it failed for good. */
export interface Sent<Row> {
  readonly rows: readonly Row[];
  readonly failed: boolean;
  readonly unanswered: boolean;
  readonly sentAt: number;
  readonly answeredAt: number;
}

const TWINS_PERCENT = 30;
const MOST_REMEMBERED = 40;
/** foreign_key_violation: a child has come while its parent was to be deleted, or the other way round. */
export const NO_PARENT = "23503";
/** A fence has refused a write past a lock. */
export const FENCED = "MR001";

/**
 * Sends a statement, and in some cases sends it twice at once, the second time any way and as `build` makes it again,
 * perhaps in another order. Answers every sending's outcome.
 */
export async function send<Row>(
  actor: Actor,
  build: () => Statement<Row>,
  refused: readonly string[] = [],
): Promise<readonly Sent<Row>[]> {
  const { random, sender, world } = actor;
  const sendings = [sendOnce(world, sender, build(), refused)];
  if (random.percent(TWINS_PERCENT)) {
    world.tally.add("twins");
    sendings.push(sendOnce(world, random.pick(world.senders), build(), refused));
  }
  return Promise.all(sendings);
}

/** `refused`: SQLSTATEs with which the database may refuse the statement. */
export async function sendOnce<Row>(
  world: World,
  sender: Sender,
  statement: Statement<Row>,
  refused: readonly string[] = [],
): Promise<Sent<Row>> {
  const { tally, errors } = world;
  tally.add("statements");
  tally.add(`sent ${statement.name}`);
  const sentAt = performance.now();
  try {
    const { rows, unanswered } = await sender.send(statement);
    return { rows, unanswered, failed: false, sentAt, answeredAt: performance.now() };
  } catch (error) {
    const state = sqlStateOf(error);
    if (state !== undefined && refused.includes(state))
      tally.add(`${state === FENCED ? "fenced" : "refused"} ${statement.name}`);
    else errors.push(`${statement.name} over ${sender.way}: ${state ?? ""} ${(error as Error).message}`);
    return { rows: [], unanswered: true, failed: true, sentAt, answeredAt: performance.now() };
  }
}

/** Notes a new member; of those that may be deleted the oldest is forgotten, perhaps it is gone. */
export function rememberMember({ ids, lasting }: World, id: string): void {
  ids.members.push(id);
  if (ids.members.length > MOST_REMEMBERED)
    ids.members.splice(
      ids.members.findIndex((other) => !lasting.has(other)),
      1,
    );
}

/** Adds to a list that forgets its oldest. */
export function remember<T>(list: T[], ...items: readonly T[]): void {
  list.push(...items);
  list.splice(0, Math.max(0, list.length - MOST_REMEMBERED));
}

/** Takes some of a list; mostly they are gone from it then, else somebody will use them a second time. */
export function take<T>(
  { random }: Actor,
  list: T[],
  most: number,
  gonePercent: number,
  which: (item: T) => boolean = () => true,
): T[] {
  const taken = random.some(list.filter(which), 1 + random.below(most));
  if (random.percent(gonePercent)) for (const item of taken) list.splice(list.indexOf(item), 1);
  return taken;
}

export const anyPipeline = ({ world, random }: Actor, which: (p: Pipeline) => boolean = () => true): Pipeline =>
  random.pick(world.engine.registry.pipelines.filter(which));
