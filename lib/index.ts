export { CONNECTION_BUDGET, type ConnectionUser, checkConnectionBudget } from "./define/budget.ts";
export { type Answer, type Changes, type Due, type NewRow, NOW, type Now, type Patch } from "./define/changes.ts";
export type { Intent, IntentPatch, PipelineColumns, PipelineTable } from "./define/columns.ts";
export type { Manifest, PipelineManifest } from "./define/manifest.ts";
export { type Backoff, PIPELINE_DEFAULTS, type PipelineOptions } from "./define/options.ts";
export { type OnTable, type Pipeline, pipelinesFor, type TypedPipeline } from "./define/pipeline.ts";
export { type Registry, registry } from "./define/registry.ts";
export type { Answers, Claimed, ReadDb, Ready, Snapshot, State, StateSpec } from "./define/state.ts";
export { ERRORS, type ErrorCode, MillraceError } from "./errors.ts";
