import { z } from 'zod'
import { RedressError } from '../errors.ts'
import { edgesOf, type Policy } from '../policy/policy.ts'
import { flag, text } from '../views/fields.ts'
import type { JobRecord } from './record.ts'
import { type EdgeCause, type Status, TERMINAL } from './states.ts'

/** What a person may do to a job. */
export const ACTIONS = [
  'retry',
  'mark-failed',
  'cancel',
  'reschedule',
  'promote',
  'reprioritise',
  'replace-input',
  'delete',
] as const
export type ActionName = (typeof ACTIONS)[number]

/** The actions that decide what becomes of a job. A text about a job names these even if they are not allowed. */
export const DECISIONS: ReadonlySet<ActionName> = new Set(['retry', 'mark-failed', 'cancel'])

export const actionSchema = z.strictObject({
  name: z.enum(ACTIONS),
  allowed: flag,
  why: text.describe('what it would do, or why it may not be done'),
})
export type Action = z.infer<typeof actionSchema>

/**
 * `state`: the job's current state forbids it. `policy`: its policy forbids it. `retried`: the job was already
 * retried, so another retry must be explicit. `letter`: its dead letter is open, so a deletion must be explicit.
 */
export type Verdict =
  | { allowed: true; why: string }
  | { allowed: false; by: 'state' | 'policy' | 'retried' | 'letter'; why: string }

export type Judged = Pick<
  JobRecord,
  | 'status'
  | 'orphanedAtMs'
  | 'cancelRequestedAtMs'
  | 'isForwardOnly'
  | 'policy'
  | 'retriedAs'
  | 'retriedAsStatus'
  | 'attempt'
  | 'dueAtMs'
  | 'isDeadLettered'
>

/** Every action, with what speaks for or against it: a door shows them all, so a person knows before trying. */
export function actionsFor(job: Judged): Action[] {
  return ACTIONS.map((name) => {
    const { allowed, why } = judge(job, name)
    return { name, allowed, why }
  })
}

export function judge(job: Judged, name: ActionName): Verdict {
  return JUDGES[name](job)
}

const JUDGES: Readonly<Record<ActionName, (job: Judged) => Verdict>> = {
  retry: judgeRetry,
  'mark-failed': judgeMarkFailed,
  cancel: judgeCancel,
  reschedule: (job) => judgeWaiting(job, 'rescheduled', 'changes the time before which it does not run'),
  promote: judgePromote,
  reprioritise: (job) => judgeWaiting(job, 'reprioritised', 'changes its place in the line; higher numbers run first'),
  'replace-input': judgeReplaceInput,
  delete: judgeDelete,
}

const yes = (why: string): Verdict => ({ allowed: true, why })
const notNow = (why: string): Verdict => ({ allowed: false, by: 'state', why })
const never = (why: string): Verdict => ({ allowed: false, by: 'policy', why })

function judgeRetry(job: Judged): Verdict {
  const { retriedAs, retriedAsStatus } = job
  const verdict = judgeFirstRetry(job)
  if (!verdict.allowed || retriedAs === null) return verdict
  return { allowed: false, by: 'retried', why: retriedInWords(retriedAs, retriedAsStatus) }
}

/** `status` is null if that job was removed, by retention or by a person. */
export function retriedInWords(retriedAs: string, status: Status | null): string {
  if (status === null) return `it was retried as job ${retriedAs}, which was removed`
  return `it was retried as job ${retriedAs}, which is ${status}`
}

/** The answer to a second retry of one failure: the job that the first retry made now does the work. */
export function alreadyRetried(jobId: string, retriedAs: string, status: Status | null): RedressError {
  const first = status === 'failed' ? `Retry job ${retriedAs} instead` : `Look at job ${retriedAs} first`
  return new RedressError('ALREADY_RETRIED', `Job ${jobId} cannot be retried: ${retriedInWords(retriedAs, status)}.`, {
    action: `${first}. To make one more job from ${jobId}, add \`again\`.`,
    jobId,
  })
}

function judgeFirstRetry({ status, policy, orphanedAtMs, isForwardOnly }: Judged): Verdict {
  const { mode, budget } = policy.manualRetry
  if (orphanedAtMs !== null) return notNow('only a failed job can be retried; mark it failed first: its worker is gone')
  if (status !== 'failed') return notNow(`only a failed job can be retried; this one is ${status}`)
  if (mode === 'off') return never(`its policy has manualRetry 'off'`)
  if (mode === 'new-job') return yes('makes a new job; this one stays failed')
  // The row keeps the promise under which it was submitted, whatever its type's policy says by now.
  if (isForwardOnly) return never('it was submitted under a policy that only goes forward, and stays failed')
  if (!hasEdge(policy, 'failed', 'manual-retry')) return never('its policy has no way back to the queue')
  const rest = budget === 'reset' ? 'with a fresh budget' : 'and keeps its budget: what was spent stays spent'
  return yes(`sends it back to the queue ${rest}`)
}

function judgeMarkFailed({ status, orphanedAtMs }: Judged): Verdict {
  if (status === 'queued') return yes('ends it as failed; it will not be dispatched')
  if (status !== 'processing')
    return notNow(`only a queued or processing job can be marked failed; this one is ${status}`)
  if (orphanedAtMs !== null) return yes('ends it as failed; its worker is gone')
  return yes('ends it as failed; its worker loses the lease, and what it still does will not count')
}

function judgeCancel({ status, policy, orphanedAtMs, cancelRequestedAtMs }: Judged): Verdict {
  if (status !== 'queued' && status !== 'processing') {
    return notNow(`only a queued or processing job can be cancelled; this one is ${status}`)
  }
  if (!hasEdge(policy, status, 'cancel')) return never('its policy has cancel: false')
  if (status === 'queued') return yes('takes it out of the queue; it will not run')
  // Cancelling is a message to a worker: without one it would wait for ever.
  if (orphanedAtMs !== null) return notNow('its worker is gone and cannot be told; mark it failed instead')
  if (cancelRequestedAtMs !== null) return notNow('its worker was told to stop already')
  return yes('tells its worker to stop; it ends cancelled unless it finishes first')
}

/**
 * A change of a waiting job keeps its state, so a policy that only goes forward allows it: nothing goes back, and no attempt
 * is repeated.
 */
function judgeWaiting({ status }: Judged, done: string, why: string): Verdict {
  return status === 'queued' ? yes(why) : notNow(`only a queued job can be ${done}; this one is ${status}`)
}

function judgePromote(job: Judged): Verdict {
  if (job.status === 'queued' && job.dueAtMs === null) return notNow('it is due already')
  return judgeWaiting(job, 'promoted', 'makes it due now; pauses, breakers and limits still hold it')
}

function judgeReplaceInput(job: Judged): Verdict {
  // The record of what ran must stay true: attempts that failed with one input are no history of another.
  if (job.status === 'queued' && job.attempt > 0) {
    return notNow('it has run with the input it has; cancel it and submit a new job with the other input')
  }
  return judgeWaiting(job, 'given another input', 'replaces its input before its first attempt')
}

function judgeDelete({ status, isDeadLettered, retriedAs, policy }: Judged): Verdict {
  if (!TERMINAL.has(status)) {
    return notNow(`only a complete, failed or cancelled job can be deleted; this one is ${status}`)
  }
  const isOpen = status === 'failed' && isDeadLettered && retriedAs === null && policy.deadLetter === 'queue'
  if (isOpen) {
    const why = 'its dead letter is open; replay or purge the letter first, or delete both with `force`'
    return { allowed: false, by: 'letter', why }
  }
  return yes(
    'removes it with its history, its files and its dead letter, if any; only the audit trail keeps that it existed',
  )
}

const hasEdge = (policy: Policy, from: Status, by: EdgeCause): boolean =>
  edgesOf(policy).some((edge) => edge.from === from && edge.by === by)
