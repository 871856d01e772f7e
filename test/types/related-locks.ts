/* What the types of related locks must refuse, and must allow. `tsc` is the test: an error that stays out is one. */

import type { Generated } from "kysely";
import { type Intent, NOW, type PipelineColumns, pipelinesFor } from "../../lib/index.ts";

interface Fleet extends PipelineColumns {
  id: Generated<string>;
  status: "active" | "terminating";
  wanted: Intent<number>;
}
interface Instance extends PipelineColumns {
  id: Generated<string>;
  fleet_id: string;
  status: "idle" | "gone";
  busy: number;
  seen_at: Date | null;
}
interface Job extends PipelineColumns {
  id: Generated<string>;
  fleet_id: string;
  instance_id: string | null;
  volume_ids: string[];
  status: "submitted" | "done";
}
interface Log {
  id: Generated<string>;
  message: string;
}
interface Schema {
  fleets: Fleet;
  instances: Instance;
  jobs: Job;
  logs: Log;
}

const { on } = pipelinesFor<Schema, Record<never, never>>();
const fleets = on("fleets");
const jobs = on("jobs");
const ready = (eb: Parameters<Parameters<typeof fleets.state>[0]["ready"]>[0]) => eb("status", "=", "active");
const instances = fleets.children("instances", "fleet_id", (eb) => eb("status", "!=", "gone"));

fleets.state({
  ready,
  locks: { instances },
  load: async (db, { row, related }) => {
    const some: readonly { readonly fleet_id: string }[] = related.instances;
    return { some, id: row.id, logs: await db.selectFrom("logs").select("message").execute() };
  },
  process: ({ related, extra, apply }) =>
    apply({
      set: { status: "terminating" },
      related: {
        instances: related.instances.map(({ id, busy }) =>
          busy === 0 ? { id, delete: true } : { id, set: { status: "gone", seen_at: NOW } },
        ),
      },
      insert: { logs: extra.logs },
      request: { fleets: [{ id: extra.id, set: { wanted: 1 } }] },
    }),
  onStale: async ({ related }) => void related.instances.length,
});

const decided = fleets.state({
  ready,
  locks: { instances },
  decide: async (db, { row }) =>
    (await db.selectFrom("instances").select("id").where("fleet_id", "=", row.id).execute()).length > 1
      ? ["instances"]
      : [],
  process: ({ related, apply }) => {
    const many: number | undefined = related.instances?.length;
    // @ts-expect-error decide may have left it out
    related.instances.length;
    return many === undefined ? apply({}) : apply({ related: { instances: [] } });
  },
});
// a state with decide still lists in a pipeline
fleets.pipeline("fleets", { decided });

fleets.state({
  ready,
  locks: { instances },
  // @ts-expect-error no such lock
  decide: async () => ["volumes"],
  process: ({ apply }) => apply({}),
});

jobs.state({
  ready: (eb) => eb("status", "=", "submitted"),
  locks: {
    instance: jobs.parent("instances", "instance_id"),
    fleet: jobs.parent("fleets", "fleet_id"),
    volumes: jobs.parents("fleets", "volume_ids"),
    spot: jobs.pick("instances", { fleet_id: "fleet_id" }, { where: (eb) => eb("busy", "=", 0), orderBy: ["busy"] }),
  },
  process: ({ related, apply }) => {
    // @ts-expect-error instance_id may be null, so no row may be locked
    related.instance.busy;
    const wanted: number = related.fleet.wanted;
    const list: readonly { readonly wanted: number }[] = related.volumes;
    const busy: number = related.spot.busy + list.length + wanted;
    return apply({ related: { spot: { set: { busy } }, instance: { delete: true } } });
  },
});

jobs.pipeline(
  "jobs",
  { decided: jobs.state({ ready: (eb) => eb("status", "=", "done"), process: ({ apply }) => apply({}) }) },
  {
    yieldTo: [jobs.parent("fleets", "fleet_id")],
  },
);

// @ts-expect-error no such column on instances
fleets.children("instances", "fleetid");
// @ts-expect-error instance_id is not a column of fleets
fleets.parent("instances", "instance_id");
// @ts-expect-error logs has no lock columns
fleets.children("logs", "id");
// @ts-expect-error fleet_id is no list of ids
jobs.parents("fleets", "fleet_id");
// @ts-expect-error no such column on jobs
jobs.pick("instances", { fleet_id: "fleet" });

fleets.state({
  ready,
  locks: { instances },
  // @ts-expect-error jobs is not among the locks
  process: ({ apply }) => apply({ related: { jobs: [] } }),
});
fleets.state({
  ready,
  // @ts-expect-error nothing is locked, so nothing related can be changed
  process: ({ apply }) => apply({ related: { instances: [] } }),
});
fleets.state({
  ready,
  locks: { instances },
  // @ts-expect-error no such column on instances
  process: ({ apply }) => apply({ related: { instances: [{ id: "1", set: { statuss: "gone" } }] } }),
});
fleets.state({
  ready,
  locks: { instances },
  // @ts-expect-error the engine owns the lock columns
  process: ({ apply }) => apply({ related: { instances: [{ id: "1", set: { lock_token: null } }] } }),
});
fleets.state({
  ready,
  // @ts-expect-error status is no intent column
  process: ({ apply }) => apply({ request: { fleets: [{ id: "1", set: { status: "active" } }] } }),
});
fleets.state({
  ready,
  // @ts-expect-error nobody processes logs, so nothing can be requested of them
  process: ({ apply }) => apply({ request: { logs: [{ id: "1" }] } }),
});
