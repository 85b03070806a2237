export { App, type AppOptions, redress } from './app/app.ts'
export type { BatchOptions } from './app/batch-options.ts'
export type { Batch, Batches } from './app/batches.ts'
export type { Channel, Delivered, Delivery, DeliveryCode } from './app/channel.ts'
export type { NotifyOptions } from './app/channels.ts'
export type { DeadLetters, Replays } from './app/dead-letters.ts'
export type { DependencyOptions } from './app/dependencies.ts'
export type { Hub, SubscribeOptions } from './app/hub.ts'
export type { HubEvent, MappableEvent, MappedEvent, Mapper } from './app/hub-events.ts'
export type {
  JobDefinition,
  JobRequest,
  JobType,
  Release,
  Retry,
  Submission,
  SubmitManyOptions,
  SubmitOptions,
} from './app/job-type.ts'
export type { Metrics } from './app/metrics/metrics.ts'
export { openPostgresRows } from './app/open-store.ts'
export { type OutcomeLogOptions, outcomeLog } from './app/outcome-log.ts'
export type { ScheduleDefinition, Schedules, ScheduleTick } from './app/schedules.ts'
export type { EndReason, Subscription } from './app/subscription.ts'
export type { Pending } from './app/transactions.ts'
export type { Action, ActionName } from './core/actions.ts'
export { exponential, table } from './core/backoff.ts'
export { type Rule, rule } from './core/classify.ts'
export type { Duration } from './core/duration.ts'
export { ERRORS, type ErrorCode, RedressError } from './core/errors.ts'
export type { EventKind, JobEvent } from './core/events.ts'
export type { ExplainedStep, Explanation } from './core/explain.ts'
export { type RenderOptions, renderExplanation } from './core/explain-text.ts'
export type { CauseLink, Failure, Fault, Owner, Stage } from './core/failure.ts'
export type { GroupState } from './core/failure-group.ts'
export type { HoldView } from './core/hold.ts'
export { type NoticeText, type NoticeTextOptions, renderNotice } from './core/notice-text.ts'
export type { Notice, NoticeBatch, NoticeContent, NoticeFailure, NoticeJob } from './core/notices.ts'
export { type Policy, type PolicyInput, policy } from './core/policy.ts'
export { retryAfterHeaderMs } from './core/retry-after.ts'
export type { BatchCounts, BatchState } from './core/rollup.ts'
export type { MissedRule } from './core/schedule.ts'
export type { Schema } from './core/schema.ts'
export type { FailedTry, StageOptions, StageRecord, StageSummary } from './core/stage.ts'
export type { Status } from './core/states.ts'
export { type CodeSpec, ENGINE_CODES, failures, type Taxonomy } from './core/taxonomy.ts'
export type { JobView } from './core/view.ts'
export type { AuditView } from './core/view-audit.ts'
export type { BatchOutcome, BatchView } from './core/view-batch.ts'
export type { FailureGroupView } from './core/view-failure-group.ts'
export type { EventView, FailureView } from './core/view-history.ts'
export type { LetterView } from './core/view-letter.ts'
export type { ReplayItemView, ReplayView } from './core/view-replay.ts'
export type { Address } from './notify/address.ts'
export { type EmailOptions, email, type Mail, type SmtpOptions } from './notify/email.ts'
export { type WebhookOptions, webhook } from './notify/webhook.ts'
export type { ActivityView } from './operations/activity.ts'
export type { RetryMode } from './operations/admit-retry.ts'
export type { AuditList } from './operations/audit.ts'
export type { BatchActed, BatchItem } from './operations/batch-acts.ts'
export type { BatchFailureCode, BatchFailures } from './operations/batch-failures.ts'
export type { BatchDetail, BatchList, BatchShown } from './operations/batches.ts'
export type { OperationName } from './operations/catalog.ts'
export type { LetterList, LetterReplayed, LettersPurged } from './operations/dead-letters.ts'
export type { FailureGroupDetailView, FailureGroupList, FailureGroupListed } from './operations/failure-groups.ts'
export type { Intervened } from './operations/interventions.ts'
export type { JobDetail, JobList } from './operations/jobs.ts'
export type { DeliveryView, NoticeView } from './operations/notices.ts'
export type { Planned } from './operations/plan-replay.ts'
export type { PauseView, QueueActed, QueueView } from './operations/queues.ts'
export type { ReplayActed, ReplayDetail, ReplayList } from './operations/replays.ts'
export type { ScheduleActed } from './operations/schedule-acts.ts'
export type { ScheduleView } from './operations/schedules.ts'
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
export { formatSse, type SseMessage, type SseStreamOptions, sseComment, sseStream } from './runtime/sse.ts'
export {
  ProgramFailed,
  type ProgramFailure,
  type ProgramLimits,
  type ProgramOptions,
  type ProgramResult,
  runProgram,
} from './runtime/subprocess.ts'
export { derivedId } from './store/derived-id.ts'
export type { FeedEvent, JobFeedEvent, SubjectFeedEvent } from './store/feed.ts'
export type { AddedNotice } from './store/notices.ts'
export type { Ask, SideAnswer, SideRows, SideValue } from './store/postgres/side-rows.ts'
export type { Store, Submitted } from './store/store.ts'
export type { AsyncExecutor, SyncExecutor } from './store/transactional.ts'
export { Attempt, type AttemptFailOptions } from './worker/attempt.ts'
export type { Told, WorkerOptions } from './worker/options.ts'
export type { Step } from './worker/pipeline.ts'
export { Cancelled, LeaseLost, ShuttingDown } from './worker/signals.ts'
export type { StageTry } from './worker/stage.ts'
export type { Worker } from './worker/worker.ts'
