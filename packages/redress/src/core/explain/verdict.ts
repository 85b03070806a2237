import { retriedInWords } from '../job/actions.ts'
import type { JobEvent } from '../job/events.ts'
import { type Hold, holdText } from '../job/hold.ts'
import type { FailureRecord, JobRecord } from '../job/record.ts'
import type { Status } from '../job/states.ts'
import { unpackSpent } from '../policy/budget.ts'
import { formatMs } from '../text/duration.ts'
import { isoTime } from '../text/iso-time.ts'
import type { Tone } from './explain.ts'

export interface VerdictOnJob {
  tone: Tone
  verdict: string[]
}

const NOTHING_BY_ITSELF = 'Nothing will happen by itself.'

/** What one must know first: how it stands, whose fault it is, and whether anything will still happen. */
export function verdictOn(
  job: JobRecord,
  events: readonly JobEvent[],
  nowMs: number,
  holds: readonly Hold[] = [],
): VerdictOnJob {
  return VERDICTS[job.status](job, events, nowMs, holds)
}

type Judge = (job: JobRecord, events: readonly JobEvent[], nowMs: number, holds: readonly Hold[]) => VerdictOnJob

const VERDICTS: Readonly<Record<Status, Judge>> = {
  queued: onQueuedOrHeld,
  processing: onProcessing,
  complete: onComplete,
  failed: onFailed,
  cancelled: onCancelled,
}

function onFailed(job: JobRecord): VerdictOnJob {
  const { latestFailure: failure, attempt, isDeadLettered, retriedAs, retriedAsStatus } = job
  const verdict = failure === null ? ['FAILED.'] : ['FAILED.', ...faultOf(failure, failure.message)]
  verdict.push(attempt === 0 ? 'It was never dispatched: nothing was executed.' : tried(job))
  if (isDeadLettered) verdict.push('It is kept as a dead letter.')
  const next =
    retriedAs === null ? NOTHING_BY_ITSELF : sentence(capitalised(retriedInWords(retriedAs, retriedAsStatus)))
  return { tone: 'bad', verdict: [...verdict, next] }
}

function faultOf({ fault, code }: FailureRecord, message: string): string[] {
  return [`Fault: ${fault}.`, `${code}: ${sentence(message)}`]
}

function tried({ attempt, spent, policy, latestFailure }: JobRecord): string {
  const { attemptBase, failures } = unpackSpent(spent)
  const attempts = attempt - attemptBase
  const { max } = policy.retry
  const count =
    attempts === failures && failures <= max
      ? `Tried ${failures} of ${max}`
      : `Tried ${attempts === 1 ? 'once' : `${attempts} times`}; ${Math.min(failures, max)} of ${max} failures counted`
  const decision = latestFailure?.decision
  // "Tried 3 of 3" says it already.
  return decision === undefined || decision.rule === 'retry.max'
    ? `${count}.`
    : `${count}: ${sentence(decision.because)}`
}

/** What holds it comes before how it got here: that is what somebody can do something about. */
function onQueuedOrHeld(
  job: JobRecord,
  events: readonly JobEvent[],
  nowMs: number,
  holds: readonly Hold[],
): VerdictOnJob {
  const [head = 'QUEUED.', ...rest] = onQueued(job, events, nowMs, holds.length > 0)
  const held = holds.map((hold) => sentence(capitalised(holdText(hold))))
  const { totalMs } = job.policy.timeout
  const isOver = totalMs !== null && nowMs >= job.queuedAtMs + totalMs
  const over = isOver ? [`Its time is over (timeout.total ${formatMs(totalMs)}): when its turn comes it fails.`] : []
  return { tone: 'waiting', verdict: [head, ...held, ...rest, ...over] }
}

function onQueued(job: JobRecord, events: readonly JobEvent[], nowMs: number, isHeld: boolean): string[] {
  const { latestFailure, dueAtMs, queuedAtMs } = job
  const lastMove = events.findLast(({ kind }) => kind !== 'lost')
  const isDue = dueAtMs === null || dueAtMs <= nowMs
  const free = isHeld ? 'as soon as nothing holds it' : 'as soon as a worker is free'
  const next = isDue ? free : `in ${formatMs(dueAtMs - nowMs)}, at ${isoTime(dueAtMs)}`
  switch (lastMove?.kind) {
    case 'retry': {
      const { failures } = unpackSpent(job.spent)
      const fault = latestFailure === null ? [] : faultOf(latestFailure, latestFailure.waiting)
      const count = `Failed ${failures} of ${job.policy.retry.max}.`
      const { reason } = lastMove.data
      const slowed = reason === undefined ? [] : [sentence(capitalised(reason))]
      return ['QUEUED, to be tried again.', ...fault, count, `Next attempt ${next}.`, ...slowed]
    }
    case 'manual-retry': {
      const { actor, reason } = lastMove.data
      return [`QUEUED again by ${actor}: ${sentence(reason ?? '')}`, `It goes ${next}.`]
    }
    case 'released':
    case 'reclaimed':
    case 'snoozed':
      return [`QUEUED again: it was ${lastMove.kind}.`, `Next attempt ${next}.`]
    default: {
      const since = isDue
        ? `It has waited for ${formatMs(Math.max(0, nowMs - queuedAtMs))}.`
        : 'It was submitted with a delay.'
      return ['QUEUED.', `It goes ${next}.`, since]
    }
  }
}

function onProcessing(job: JobRecord, _events: readonly JobEvent[], nowMs: number): VerdictOnJob {
  const { attempt, lease, claimedAtMs, startedAtMs, orphanedAtMs, cancelRequestedAtMs, progress } = job
  const worker = lease?.worker ?? 'an unknown worker'
  if (orphanedAtMs !== null) {
    const gone = `ORPHANED. ${worker} is gone; reported ${formatMs(nowMs - orphanedAtMs)} ago.`
    return { tone: 'bad', verdict: [gone, `Under this policy a person decides. ${NOTHING_BY_ITSELF}`] }
  }
  const since = claimedAtMs === null ? '' : `, claimed ${formatMs(Math.max(0, nowMs - claimedAtMs))} ago`
  const began = startedAtMs === null ? ' and not started yet' : ''
  const verdict = [`PROCESSING. Attempt ${attempt} on ${worker}${since}${began}.`]
  if (progress > 0) verdict.push(`${Math.round(progress * 100)} % done.`)
  if (cancelRequestedAtMs !== null) verdict.push('It was asked to cancel; its worker is told.')
  const leftMs = (lease?.untilMs ?? nowMs) - nowMs
  if (leftMs > 0)
    return { tone: 'plain', verdict: [...verdict, `Its lease ends in ${formatMs(leftMs)} unless renewed.`] }
  const expired = `Its lease ran out ${formatMs(-leftMs)} ago: its worker may be gone, and the next worker that looks will say.`
  return { tone: 'bad', verdict: [...verdict, expired] }
}

function onComplete({ attempt, finishedAtMs, createdAtMs }: JobRecord): VerdictOnJob {
  const attempts = attempt === 1 ? 'at the first attempt' : `at attempt ${attempt}`
  const took = formatMs((finishedAtMs ?? createdAtMs) - createdAtMs)
  return { tone: 'good', verdict: [`COMPLETE ${attempts}, ${took} after it was submitted.`] }
}

function onCancelled(_job: JobRecord, events: readonly JobEvent[]): VerdictOnJob {
  // Asked for while it ran, the actor is in the request; the end of the attempt only carries it out.
  const asked = events.findLast(({ kind, data }) => kind.startsWith('cancel') && data.actor !== undefined)
  const by = asked === undefined ? '' : ` by ${asked.data.actor}: ${sentence(asked.data.reason ?? '')}`
  return { tone: 'plain', verdict: [by === '' ? 'CANCELLED.' : `CANCELLED${by}`, NOTHING_BY_ITSELF] }
}

const capitalised = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1)

function sentence(text: string): string {
  const trimmed = text.trim()
  return /[.!?…]$/.test(trimmed) ? trimmed : `${trimmed}.`
}
