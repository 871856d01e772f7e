import type { Logger } from "@aws-lambda-powertools/logger";
import { type Metrics, MetricUnit } from "@aws-lambda-powertools/metrics";
import { type EventName, type EventPayloads, type Events, levelOf, loggable } from "../engine/events.ts";

/**
 * Events as structured log lines, and as metrics by pipeline. Ids stand in the logs only: a metric for each would be a
 * bill for each. What no log may tell is left out: see `loggable`.
 */
export function powertoolsEvents(logger: Logger, metrics: Metrics): Events {
  return {
    emit(name, payload) {
      logger[levelOf(name, payload)](name, loggable(name, payload));
      const { pipeline, count, ms } = payload as { pipeline?: string; count?: number; ms?: number };
      const single = metrics.singleMetric();
      if (pipeline !== undefined) single.addDimension("pipeline", pipeline);
      single.addMetric(name, MetricUnit.Count, count ?? 1);
      if (ms !== undefined) {
        const time = metrics.singleMetric();
        if (pipeline !== undefined) time.addDimension("pipeline", pipeline);
        time.addMetric(`${name}.ms`, MetricUnit.Milliseconds, ms);
      }
    },
  };
}

/** Events in an array, for tests. */
export interface RecordedEvents extends Events {
  readonly all: { readonly name: EventName; readonly payload: EventPayloads[EventName] }[];
  of<N extends EventName>(name: N): EventPayloads[N][];
}

export function recordedEvents(): RecordedEvents {
  const all: { name: EventName; payload: EventPayloads[EventName] }[] = [];
  return {
    all,
    emit: (name, payload) => void all.push({ name, payload }),
    of: <N extends EventName>(name: N) => all.filter((e) => e.name === name).map((e) => e.payload as EventPayloads[N]),
  };
}
