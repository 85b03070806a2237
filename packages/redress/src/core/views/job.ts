import { z } from 'zod'
import { failureFields } from '../failure/failure.ts'
import { type Action, actionSchema } from '../job/actions.ts'
import { EVENT_KINDS, eventDataFields, type JobEvent } from '../job/events.ts'
import { type Hold, holdSchema, viewHold } from '../job/hold.ts'
import type { FailureRecord, JobRecord } from '../job/record.ts'
import { spentSchema, unpackSpent } from '../policy/budget.ts'
import { reasonsSchema } from '../policy/decide.ts'
import { isoTime, isoTimeOrNull } from '../text/duration.ts'
import { anything, count, flag, id, name, number, status, text, time, timeOrNull } from './fields.ts'

/** One line of a job's history as every door shows it. */
export const eventSchema = z.strictObject({
  seq: count.describe('position in the history of the whole store'),
  at: time,
  kind: z.enum(EVENT_KINDS),
  attempt: count,
  worker: name.nullable(),
  durationMs: number.nullable().describe('how long the handler ran, where it ended an attempt'),
  data: z.strictObject({
    ...eventDataFields,
    dueAt: time.exactOptional(),
    scheduledFor: time.exactOptional(),
    spent: spentSchema.exactOptional(),
  }),
})
/** One event of the history of a job, as HTTP, the command line and the library show it. */
export type EventView = z.infer<typeof eventSchema>

export function viewEvent({ seq, atMs, kind, attempt, worker, durationMs, data }: JobEvent): EventView {
  const { dueAtMs, scheduledForMs, spent, ...rest } = data
  return {
    seq,
    at: isoTime(atMs),
    kind,
    attempt,
    worker,
    durationMs,
    data: {
      ...rest,
      ...(dueAtMs === undefined ? {} : { dueAt: isoTime(dueAtMs) }),
      ...(scheduledForMs === undefined ? {} : { scheduledFor: isoTime(scheduledForMs) }),
      ...(spent === undefined ? {} : { spent: unpackSpent(spent === '' ? null : spent) }),
    },
  }
}

/** A failure with its decision, as an operator sees it. */
export const failureSchema = z.strictObject({
  seq: count,
  attempt: count,
  at: time,
  worker: name.nullable(),
  from: status.nullable(),
  to: status,
  ...failureFields,
  decision: reasonsSchema,
})
/** One recorded failure of a job, with the decision about it. */
export type FailureView = z.infer<typeof failureSchema>

export function viewFailure(failure: FailureRecord): FailureView {
  const { seq, attempt, atMs, worker, from, to, phase, layer, code, fault, message, waiting } = failure
  const { detail, context, causes, rule, fingerprint, decision } = failure
  return {
    seq,
    attempt,
    at: isoTime(atMs),
    worker,
    from,
    to,
    phase: phase,
    layer: layer,
    code,
    fault,
    message,
    waiting,
    detail,
    context,
    causes,
    rule,
    fingerprint,
    decision,
  }
}

/** A job as every door shows it. */
export const jobSchema = z.strictObject({
  id,
  type: name,
  queue: name,
  status,
  owner: name.nullable(),
  batchId: id.nullable(),
  // A snoozed dispatch did no work and does not count.
  attemptCount: count.describe('dispatches since it was submitted, or since a manual retry gave it a fresh budget'),
  maxAttempts: count,
  retryCount: count,
  manualRetryCount: count,
  lastAttemptAt: timeOrNull,
  retryAfter: timeOrNull.describe('not before this time; null when it may go at once'),
  createdAt: time,
  queuedAt: time,
  startedAt: timeOrNull,
  finishedAt: timeOrNull,
  failedAt: timeOrNull,
  progress: number.min(0).max(1),
  progressDone: number.nullable().describe('of progressTotal, as the handler reported it'),
  progressTotal: number.nullable(),
  progressNote: text.nullable().describe('what the handler said of its progress, for the owner too'),
  errorCode: name.nullable(),
  errorMessage: text.nullable(),
  retriedFrom: id.nullable().describe('the failed job that a person made this one from'),
  retriedAs: id.nullable().describe('the newest job that a person made from this one since it failed'),
  result: anything,
  priority: number,
  worker: name.nullable(),
  leaseUntil: timeOrNull,
  orphanedAt: timeOrNull,
  cancelRequestedAt: timeOrNull,
  deadLettered: flag,
  manualRetry: z
    .enum(['in-place', 'new-job', 'off'])
    .describe('what a retry by a person does; where it makes a new job, another input may be given'),
  held: z.array(holdSchema).describe('what keeps it back though it could go'),
  actions: z.array(actionSchema).describe('all there are, each with what speaks for or against it'),
})
/** A job as HTTP, the command line and the library show it. */
export type JobView = z.infer<typeof jobSchema>

export function viewJob(job: JobRecord, actions: Action[], holds: readonly Hold[] = []): JobView {
  const spent = unpackSpent(job.spent)
  const { max } = job.policy.retry
  const error = shownError(job)
  return {
    id: job.id,
    type: job.type,
    queue: job.queue,
    status: job.status,
    owner: job.owner,
    batchId: job.batchId,
    attemptCount: job.attempt - spent.attemptBase - spent.snoozes,
    maxAttempts: max,
    // The last failure is not followed by a retry, so max failures are max - 1 retries: "3/3", never "4/3".
    retryCount: retryCountOf(job, spent.failures),
    manualRetryCount: spent.manualRetries,
    lastAttemptAt: isoTimeOrNull(lastAttemptAtMs(job)),
    retryAfter: job.status === 'queued' ? isoTimeOrNull(job.dueAtMs) : null,
    createdAt: isoTime(job.createdAtMs),
    queuedAt: isoTime(job.queuedAtMs),
    startedAt: isoTimeOrNull(job.startedAtMs),
    finishedAt: isoTimeOrNull(job.finishedAtMs),
    failedAt: job.status === 'failed' ? isoTimeOrNull(job.finishedAtMs) : null,
    progress: job.progress,
    progressDone: job.progressDetail?.done ?? null,
    progressTotal: job.progressDetail?.total ?? null,
    progressNote: job.progressDetail?.note ?? null,
    errorCode: error?.code ?? null,
    errorMessage: error?.message ?? null,
    retriedFrom: job.retriedFrom,
    retriedAs: job.retriedAs,
    result: job.result === null ? null : JSON.parse(job.result),
    priority: job.priority,
    worker: job.lease?.worker ?? null,
    leaseUntil: isoTimeOrNull(job.lease?.untilMs ?? null),
    orphanedAt: isoTimeOrNull(job.orphanedAtMs),
    cancelRequestedAt: isoTimeOrNull(job.cancelRequestedAtMs),
    deadLettered: job.isDeadLettered,
    manualRetry: job.policy.manualRetry.mode,
    held: holds.map(viewHold),
    actions,
  }
}

function shownError({ status, latestFailure, policy }: JobRecord): { code: string; message: string } | null {
  if (latestFailure === null) return null
  const { code, message, waiting, to } = latestFailure
  if (status === 'failed') return { code, message }
  // A failure that was final and was then retried by a person is history, and no longer the job's present trouble.
  const isBetweenAttempts = (status === 'queued' || status === 'processing') && to === 'queued'
  return isBetweenAttempts && policy.errors === 'latest' ? { code, message: waiting } : null
}

/** Counted when a retry is scheduled (W16): the failure that ended a job scheduled none. Never above max - 1. */
function retryCountOf({ status, latestFailure, policy }: JobRecord, failures: number): number {
  const budget = status === 'failed' ? latestFailure?.decision.budget : undefined
  const ended = budget?.name.startsWith('retry.') && budget.after > budget.before ? 1 : 0
  return Math.min(Math.max(0, failures - ended), policy.retry.max - 1)
}

/** A requeue clears the time of the claim. Then the time of the failure that caused it is used. */
function lastAttemptAtMs({ claimedAtMs, latestFailure, attempt }: JobRecord): number | null {
  if (claimedAtMs !== null || attempt === 0) return claimedAtMs
  return latestFailure === null || isBeforeDispatch(latestFailure) ? null : latestFailure.atMs
}

const isBeforeDispatch = ({ phase }: FailureRecord): boolean => phase === 'pre_dispatch'
