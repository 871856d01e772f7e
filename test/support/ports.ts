import {
  type DataApiDatabase,
  type Database,
  fetchPipeline,
  type Item,
  itemBody,
  type Message,
  type Ports,
  type RecordedEvents,
  type Registry,
  recordedEvents,
  systemClock,
  workBatch,
} from "../../lib/index.ts";

/** A hint as the queue got it. */
export interface SentHint {
  readonly pipeline?: string;
  readonly table?: string;
  /** Due time of a wake-up. */
  readonly at?: string;
  readonly delaySeconds: number;
}

/** Ports whose queues are arrays, and that note what goes through them. */
export interface TestPorts extends Ports {
  readonly events: RecordedEvents;
  readonly sent: Item[];
  readonly hinted: SentHint[];
  /** Names of the statements that were begun, such as `claim things`. */
  readonly statements: string[];
  /** How often a heartbeater was started. */
  woken: number;
}

/** Ports over a database that a test gives; `overrides` replace single ones. */
export function portsOver(database: Database, overrides: Partial<Ports> = {}): TestPorts {
  const sent: Item[] = [];
  const hinted: SentHint[] = [];
  const statements: string[] = [];
  const base = overrides.database ?? database;
  const ports: TestPorts = {
    reader: undefined as never,
    items: {
      send: async (items) => {
        sent.push(...items);
        return items.map(() => "accepted" as const);
      },
    },
    hints: {
      send: async (hints) => {
        for (const { body, delaySeconds } of hints) {
          const { v: _, ...hint } = JSON.parse(body) as { v: 1; pipeline: string };
          hinted.push({ ...hint, delaySeconds });
        }
      },
    },
    wakeHeartbeater: async () => {
      ports.woken += 1;
    },
    clock: systemClock,
    random: () => 0.5,
    timeLeft: () => 90_000,
    ...overrides,
    database: {
      run: (statement, options) => {
        statements.push(statement.name);
        return base.run(statement, options);
      },
    },
    events: recordedEvents(),
    sent,
    hinted,
    statements,
    woken: 0,
  };
  return ports;
}

/** Ports to the real database, through the Data API. */
export function testPorts(
  // biome-ignore lint/suspicious/noExplicitAny: any schema
  engine: { readonly api: DataApiDatabase<any> },
  overrides: Partial<Ports> = {},
): TestPorts {
  const reader = { selectFrom: engine.api.kysely.selectFrom.bind(engine.api.kysely) };
  return portsOver(engine.api, { reader, ...overrides });
}

export const messagesOf = (items: readonly Item[]): Message[] =>
  items.map((item, n) => ({ messageId: `m${n}`, body: itemBody(item) }));

/** Fetches what is due; answers the messages that a worker would get. */
export async function fetchMessages(registry: Registry, ports: TestPorts, pipeline = "things"): Promise<Message[]> {
  ports.sent.length = 0;
  await fetchPipeline(registry, pipeline, ports);
  return messagesOf(ports.sent);
}

/** Works on messages as a worker does; answers those that must come again. */
export const work = (
  registry: Registry,
  messages: readonly Message[],
  ports: Ports,
  services: unknown = {},
): Promise<readonly string[]> => workBatch(registry, messages, services as never, "test worker", ports);

/** Fetches what is due, and works on it. */
export async function workDue(
  registry: Registry,
  ports: TestPorts,
  services: unknown = {},
): Promise<readonly string[]> {
  return work(registry, await fetchMessages(registry, ports), ports, services);
}

/** So many statements of each step were begun. */
export function counts(statements: readonly string[]): Record<string, number> {
  const found: Record<string, number> = {};
  for (const name of statements) found[name.split(" ")[0]!] = (found[name.split(" ")[0]!] ?? 0) + 1;
  return found;
}
