export { systemClock } from "./adapters/clock.ts";
export { callLimiter, type DataApiDatabase, type DataApiOptions, dataApi } from "./adapters/data-api.ts";
export { required, stringMap, wholeNumber } from "./adapters/environment.ts";
export { powertoolsEvents, type RecordedEvents, recordedEvents } from "./adapters/events.ts";
export { lambdaHeartbeater } from "./adapters/lambda.ts";
export { sqsHintQueue, sqsItemQueue } from "./adapters/sqs.ts";
export { createWriter } from "./adapters/writer.ts";
export { CONNECTION_BUDGET, type ConnectionUser, checkConnectionBudget } from "./define/budget.ts";
export {
  type Answer,
  type Changes,
  type Due,
  type NewRow,
  NOW,
  type Now,
  type Patch,
  type RowRequest,
} from "./define/changes.ts";
export type { Intent, IntentPatch, PipelineColumns, PipelineTable } from "./define/columns.ts";
export type { ChildrenOptions, LockOf, Locks, PickOptions, RelatedChange } from "./define/locks.ts";
export type { Manifest, PipelineManifest } from "./define/manifest.ts";
export { type Backoff, PIPELINE_DEFAULTS, type PipelineOptions } from "./define/options.ts";
export { type OnTable, type Pipeline, pipelinesFor, type TableOptions, type TypedPipeline } from "./define/pipeline.ts";
export { type Registry, registry } from "./define/registry.ts";
export type { Answers, Claimed, Loaded, ReadDb, Ready, Snapshot, State, StateSpec } from "./define/state.ts";
export type { EventName, EventPayloads, Events } from "./engine/events.ts";
export { fetchPipeline } from "./engine/fetch.ts";
export { heartbeatLoop } from "./engine/heartbeat.ts";
export { type FetchMemory, fetchHinted, fetchMemory, type ReceivedHint } from "./engine/hinted-fetch.ts";
export { type Item, isUuid, itemBody, parseItem } from "./engine/item.ts";
export type { Clock, Database, HintQueue, ItemQueue, Ports } from "./engine/ports.ts";
export { type Message, workBatch } from "./engine/work.ts";
export { ERRORS, type ErrorCode, MillraceError } from "./errors.ts";
export { type ApplicationRole, prepareApplicationRole } from "./schema/application-role.ts";
export { type Backfill, backfill } from "./schema/backfill.ts";
export { addPipelineColumns } from "./schema/columns.ts";
export { type FenceOptions, fenceTable, unfenceTable } from "./schema/fence.ts";
export { type MigrateOptions, migrate } from "./schema/migrate.ts";
export { findOverlaps, type Overlap } from "./testing/overlaps.ts";
export { createHints, type Hints } from "./write/hints.ts";
export type { HeldRows } from "./write/hold.ts";
export { createOperator, type Operator, type Orphan, type PipelineStatus } from "./write/operator.ts";
export { type Page, type PageFilter, type PageOptions, paginate } from "./write/paginate.ts";
export type { WriterDatabase } from "./write/unique-name.ts";
export type { LockOptions, UpdateOptions, Writer, WriterOptions } from "./write/writer.ts";
