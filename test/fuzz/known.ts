/* What there is on the stack, so that a body can name it: generated texts say `«kind»`, and get it when they are sent. */

import type { Random } from "../stress/random.ts";
import type { LocalStack } from "../support/stack.ts";
import type { Made } from "./made.ts";

/** `volume` … `job`: any row. `own…`: one that a fuzz request may change. `item…`: one item, the same in all of a text. */
export type Kind =
  | "volume"
  | "fleet"
  | "instance"
  | "job"
  | "ownVolume"
  | "ownFleet"
  | "ownJob"
  | "emptyFleet"
  | "smallFleet"
  | "smallInstance"
  | "itemPipeline"
  | "itemId"
  | "itemToken"
  | "itemOldToken"
  | "cursor";

/** The text that stands for a known thing until it is sent. */
export const named = (kind: Kind): string => `«${kind}»`;

interface ItemRow {
  readonly pipeline: string;
  readonly id: string;
  readonly token: string | null;
  readonly old: string | null;
}

export interface Known {
  /** The text as it is sent: every `«kind»` is one that there is, or a uuid that nothing has. */
  fill(text: string, random: Random): string;
  /** Looks again. */
  refresh(): Promise<void>;
}

/** How many rows of each kind are enough to choose from. */
const ENOUGH = 200;

export function knownOn(stack: LocalStack, made: Made): Known {
  const ids = new Map<string, readonly string[]>();
  let items: readonly ItemRow[] = [];
  const listOf = (kind: Kind): readonly string[] => {
    switch (kind) {
      case "ownVolume":
        return made.volumes.flatMap(({ id }) => id ?? []);
      case "ownFleet":
        return made.fleets.flatMap(({ id }) => id ?? []);
      case "ownJob":
        return made.jobs.flatMap(({ id }) => id ?? []);
      case "emptyFleet":
        return [made.emptyFleet.id!];
      case "smallFleet":
        return [made.smallFleet.id!];
      case "cursor":
        return made.cursors;
      default:
        return ids.get(kind) ?? [];
    }
  };
  return {
    fill(text, random) {
      const item = items.length === 0 ? undefined : random.pick(items);
      return text.replaceAll(/«(\w+)»/g, (_, kind: Kind) => {
        if (kind === "itemPipeline") return item?.pipeline ?? "volumes";
        const own = { itemId: item?.id, itemToken: item?.token, itemOldToken: item?.old } as Record<
          string,
          string | null
        >;
        const list = listOf(kind);
        return own[kind] ?? (list.length === 0 ? crypto.randomUUID() : random.pick(list));
      });
    },
    async refresh() {
      for (const kind of ["volume", "fleet", "instance", "job"]) {
        const rows = await stack.sql(`select id from ${kind}s order by created_at desc limit ${ENOUGH}`);
        ids.set(
          kind,
          rows.map(({ id }) => id),
        );
      }
      const small = await stack.sql("select id from instances where fleet_id = $1", [made.smallFleet.id]);
      ids.set(
        "smallInstance",
        small.map(({ id }) => id),
      );
      items = await stack.sql(
        `select pipeline, item_id as id, lock_token as token, coalesce(finished_tokens[1], applied_token) as old
         from millrace.items order by finished_at nulls first limit ${ENOUGH}`,
      );
    },
  };
}
