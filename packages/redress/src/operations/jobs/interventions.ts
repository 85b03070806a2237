import { z } from 'zod'
import { RedressError } from '../../core/errors.ts'
import { engineFailure } from '../../core/failure/capture.ts'
import type { Phase } from '../../core/failure/failure.ts'
import { type ActionName, actionsFor, alreadyRetried, judge } from '../../core/job/actions.ts'
import { noticesOfFailure } from '../../core/notice/notice.ts'
import { packSpent, spendManualRetry, unpackSpent } from '../../core/policy/budget.ts'
import { done } from '../../core/views/fields.ts'
import { type JobView, jobSchema, viewJob } from '../../core/views/job.ts'
import type { Intervention, JobRow, Store } from '../../store/contract/store.ts'
import { actorFields, idField, ownerField, requireActorAndReason } from '../input-fields.ts'
import { type Context, operation } from '../operation.ts'
import { refuseUnlessAdmitted } from './admit-retry.ts'
import { aboutJob, neededJob } from './needed-job.ts'
import { retryMadeBefore, submitRetry } from './retry-as-new-job.ts'

export const jobActFields = { id: idField, ...actorFields }

export const jobActedSchema = z.strictObject({
  ...done,
  job: jobSchema.describe('its current state; the new job if the retry made one'),
})
export type JobActed = z.infer<typeof jobActedSchema>

const retryInput = z.strictObject({
  ...jobActFields,
  owner: ownerField,
  input: z.unknown().optional().describe('new input, if the retry makes a new job'),
  newId: z.string().optional().describe('your own UUID for the new job: a second retry with it makes no second job'),
  again: z.boolean().default(false).describe('retry again, even if it was already retried'),
})
const cancelInput = z.strictObject({ ...jobActFields, owner: ownerField })

/** A person's act on a job. `owner` is set for callers that may act on their own jobs only. */
export type JobAct = z.output<typeof cancelInput>
export type RetryAct = JobAct & Partial<z.output<typeof retryInput>>

export const retry = operation('jobs.retry', {
  input: retryInput,
  output: jobActedSchema,
  about: aboutJob,
  run: retryJob,
})

export const cancel = operation('jobs.cancel', {
  input: cancelInput,
  output: jobActedSchema,
  about: aboutJob,
  run: cancelJob,
})

export const markFailed = operation('jobs.mark-failed', {
  input: z.strictObject(jobActFields),
  output: jobActedSchema,
  about: aboutJob,
  run: markJobFailed,
})

/** W19, D23, E20: in place, or P10, P41, P44: as a new job made from the failed one. */
export async function retryJob(context: Context, act: RetryAct): Promise<JobActed> {
  const repeated = await retryMadeBefore(context.store, act)
  if (repeated !== null) return repeated
  const { job, why } = await judged(context.store, act, 'retry')
  if (job.policy.manualRetry.mode === 'new-job') return submitRetry(context, act, job)
  // The record of what ran must stay true: attempts that failed with one input are no history of another.
  if (act.input !== undefined) {
    throw new RedressError(
      'NOT_ALLOWED_BY_POLICY',
      `A job of type ${job.type} is retried in place, with the input it has.`,
      { action: 'Submit a new job with the new input.', jobId: job.id },
    )
  }
  if (act.newId !== undefined) {
    throw new RedressError(
      'NOT_ALLOWED_BY_POLICY',
      `A job of type ${job.type} is retried in place: newId is only for a new job.`,
      { action: 'Leave newId out.', jobId: job.id },
    )
  }
  const { id, type, owner, payload, latestFailure: failure } = job
  const input = JSON.parse(payload)
  await refuseUnlessAdmitted(context, { jobId: id, type, owner, input, actor: act.actor, mode: 'in-place', failure })
  const spent = spendManualRetry(unpackSpent(job.spent), job.attempt, job.policy.manualRetry.budget)
  return intervene(context.store, act, job, why, { kind: 'retry-in-place', spent: packSpent(spent) })
}

/** P56: a person's decision does not change the budgets of the job. */
async function markJobFailed(context: Context, act: JobAct): Promise<JobActed> {
  const { job, why } = await judged(context.store, act, 'mark-failed')
  const { failures } = unpackSpent(job.spent)
  const seen = job.startedAtMs !== null && job.status === 'processing' ? await context.lastSeen?.(job) : {}
  const failure = engineFailure({
    code: 'MARKED_FAILED',
    phase: stageOf(job),
    type: job.type,
    codes: context.codesOf(job.type),
    detail: `${act.actor} marked it as failed: ${act.reason}`,
    context: { ...seen, actor: act.actor, reason: act.reason, ...(job.lease && { worker: job.lease.worker }) },
  })
  const decision = {
    because: `${act.actor} marked it as failed: ${act.reason}`,
    rule: 'mark-failed',
    budget: { name: 'retry.max', before: failures, after: failures, max: job.policy.retry.max },
  }
  const notices = noticesOfFailure(job, failure, job.policy)
  return intervene(context.store, act, job, why, {
    kind: 'mark-failed',
    failure: { ...failure, decision },
    spent: job.spent,
    deadLetter: job.policy.deadLetter,
    ...(notices.length > 0 && { notices }),
  })
}

/** A queued job is cancelled; the worker of a running one is asked to stop. */
export async function cancelJob(context: Context, act: JobAct): Promise<JobActed> {
  const { job, why } = await judged(context.store, act, 'cancel')
  return intervene(context.store, act, job, why, { kind: job.status === 'queued' ? 'cancel' : 'request-cancel' })
}

/** The phase that the job had reached when the person stepped in. */
function stageOf({ status, startedAtMs }: JobRow): Phase {
  if (status !== 'processing') return 'pre_dispatch'
  return startedAtMs === null ? 'dispatch' : 'execution'
}

/** The job, if it allows the action in the state that it is in. */
export async function judged(
  store: Store,
  { id, owner, again = false, force = false, ...by }: RetryAct & { force?: boolean },
  name: ActionName,
): Promise<{ job: JobRow; why: string }> {
  const job = await neededJob(store, id, owner)
  requireActorAndReason(by, `job ${id}`)
  const insisting = { ...(again && { retriedAs: null }), ...(force && { isDeadLettered: false }) }
  const verdict = judge({ ...job, ...insisting }, name)
  if (verdict.allowed) return { job, why: verdict.why }
  if (verdict.by === 'retried') throw alreadyRetried(id, job.retriedAs as string, job.retriedAsStatus)
  const code = verdict.by === 'state' || verdict.by === 'letter' ? 'JOB_WRONG_STATE' : 'NOT_ALLOWED_BY_POLICY'
  throw new RedressError(code, `Job ${id} cannot be ${DONE[name]}: ${verdict.why}.`, { jobId: id })
}

const DONE: Readonly<Record<ActionName, string>> = {
  retry: 'retried',
  'mark-failed': 'marked failed',
  cancel: 'cancelled',
  reschedule: 'rescheduled',
  promote: 'promoted',
  reprioritise: 'reprioritised',
  'replace-input': 'given another input',
  delete: 'deleted',
}

/** The other acts say what they did with the job as it is afterwards. */
const DID: Readonly<Partial<Record<Intervention['act']['kind'], string>>> = {
  'retry-in-place': 'is back in the queue',
  'mark-failed': 'is failed',
  cancel: 'is cancelled',
  'request-cancel': 'is being cancelled: its worker is asked to stop',
}

export async function intervene(
  store: Store,
  { id, actor, reason, dryRun }: JobAct,
  job: JobRow,
  why: string,
  act: Intervention['act'],
  didTo: (now: JobRow) => string | Promise<string> = () => `Job ${id} ${DID[act.kind]}.`,
): Promise<JobActed> {
  if (dryRun) return { isDone: false, did: `Nothing was done. On job ${id}, this ${why}.`, job: view(job) }
  const expect = { status: job.status, attempt: job.attempt, retriedAs: job.retriedAs }
  const answer = await store.intervene({ id, actor, reason, expect, act })
  const now = await neededJob(store, id)
  if (answer === 'done') return { isDone: true, did: await didTo(now), job: view(now) }
  if (answer === 'dedupe-taken') {
    const message = `Job ${id} cannot be requeued: another live job holds its dedupe key (${job.dedupeKey}).`
    throw new RedressError('JOB_WRONG_STATE', message, {
      action: 'Wait until that job ends, or cancel it first.',
      jobId: id,
    })
  }
  if (act.kind === 'retry-in-place' && now.retriedAs !== null && now.retriedAs !== job.retriedAs) {
    throw alreadyRetried(id, now.retriedAs, now.retriedAsStatus)
  }
  throw movedOn(job, now)
}

/** The job is not as it was when the act was decided. */
export function movedOn(was: JobRow, now: JobRow): RedressError {
  const before = `it was ${standing(was)} when this was decided`
  const message = `Job ${was.id} is ${standing(now)} now; ${before}. Nothing was done.`
  return new RedressError('JOB_WRONG_STATE', message, { jobId: was.id })
}

const standing = ({ status, attempt }: JobRow): string => `${status} (attempt ${attempt})`

export const view = (job: JobRow): JobView => viewJob(job, actionsFor(job))
