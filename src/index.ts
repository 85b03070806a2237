export { App, type AppOptions, redress } from './app/app.ts'
export type { JobDefinition, JobType, Submission, SubmitManyOptions, SubmitOptions } from './app/job-type.ts'
export type { Action, ActionName } from './core/actions.ts'
export { exponential, table } from './core/backoff.ts'
export { type Rule, rule } from './core/classify.ts'
export type { Duration } from './core/duration.ts'
export { ERRORS, type ErrorCode, RedressError } from './core/errors.ts'
export type { EventKind, JobEvent } from './core/events.ts'
export type { ExplainedStep, Explanation } from './core/explain.ts'
export { type RenderOptions, renderExplanation } from './core/explain-text.ts'
export type { CauseLink, Failure, Fault, Owner, Stage } from './core/failure.ts'
export { type Policy, type PolicyInput, policy } from './core/policy.ts'
export type { Schema } from './core/schema.ts'
export type { Status } from './core/states.ts'
export { type CodeSpec, ENGINE_CODES, failures, type Taxonomy } from './core/taxonomy.ts'
export type { JobView } from './core/view.ts'
export type { EventView, FailureView } from './core/view-history.ts'
export type { OperationName } from './operations/catalog.ts'
export type { Intervened } from './operations/interventions.ts'
export type { JobDetail, JobList } from './operations/jobs.ts'
export type { InputOf as OperationInput, OutputOf as OperationOutput } from './operations/table.ts'
export type {
  ArtifactBody,
  ArtifactContent,
  ArtifactHead,
  ArtifactPage,
  ArtifactStore,
  StoredArtifact,
} from './runtime/artifacts/artifact-store.ts'
export type { SpaceLimits } from './runtime/artifacts/folder/space.ts'
export { keyPart } from './runtime/artifacts/key.ts'
export { type ArtifactStoreOptions, artifactStore } from './runtime/artifacts/open.ts'
export type { S3Credentials } from './runtime/artifacts/s3/bucket.ts'
export type { Log } from './runtime/log.ts'
export {
  ProgramFailed,
  type ProgramFailure,
  type ProgramLimits,
  type ProgramOptions,
  type ProgramResult,
  runProgram,
} from './runtime/subprocess.ts'
export type { Store, Submitted } from './store/store.ts'
export { Attempt, type AttemptFailOptions } from './worker/attempt.ts'
export type { Told, WorkerOptions } from './worker/options.ts'
export type { Step } from './worker/pipeline.ts'
export { Cancelled, LeaseLost, ShuttingDown } from './worker/signals.ts'
export type { Worker } from './worker/worker.ts'
