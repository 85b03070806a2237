import { z } from 'zod'
import { type FailureGroup, GROUP_STATES } from '../failure/group.ts'
import { stageSummarySchema } from '../failure/stage.ts'
import { actionSchema, actionsFor, retriedInWords } from '../job/actions.ts'
import type { JobEvent } from '../job/events.ts'
import { type Hold, holdSchema, holdText, viewHold } from '../job/hold.ts'
import type { FailureRecord, JobRecord } from '../job/record.ts'
import type { Status } from '../job/states.ts'
import { unpackSpent } from '../policy/budget.ts'
import { formatMs, isoTime } from '../text/duration.ts'
import { count, id, listOf, name, number, status, text, time } from '../views/fields.ts'
import { type FailureView, failureSchema, viewFailure } from '../views/job.ts'

const tone = z.enum(['bad', 'good', 'waiting', 'plain'])
export type Tone = z.infer<typeof tone>

/** Other failures with the same fingerprint as the job's last one. */
const alikeSchema = z.strictObject({
  // Of the group: `redress failures show FINGERPRINT`.
  fingerprint: text,
  // Failures of other jobs.
  others: count,
  since: time,
  state: z.enum(GROUP_STATES),
  text,
})
type Alike = z.infer<typeof alikeSchema>

/** One attempt with how it ended, or one thing that happened outside an attempt. */
const stepSchema = z.strictObject({
  at: time,
  sinceSubmittedMs: number,
  attempt: count.nullable().describe('null for what happened outside an attempt'),
  worker: name.nullable(),
  // How long the handler ran; null when it never began, or has not ended.
  ranMs: number.nullable(),
  text,
  tone,
  // What happened to the attempt meanwhile.
  notes: z.array(z.strictObject({ sinceSubmittedMs: number, text, tone })),
  // Parts of the attempt that were tried again within it, or gave up.
  stages: listOf(stageSummarySchema),
  // Why the attempt, or the submission, did not succeed.
  failure: failureSchema.nullable(),
  // What became of it; null while it runs.
  ended: z.strictObject({ text, tone }).nullable(),
})
export type ExplainedStep = z.infer<typeof stepSchema>

/** The answer to "why did it retry or die": read from the record, never worked out again. */
export const explanationSchema = z.strictObject({
  id,
  type: name,
  status,
  owner: name.nullable(),
  retriedFrom: id.nullable(),
  retriedAs: id.nullable(),
  submittedAt: time,
  ageMs: number,
  // When this was explained, by the store's clock.
  at: time,
  tone,
  verdict: z.array(text).describe('sentences, the most important first'),
  held: z.array(holdSchema),
  // Null where nothing else failed the same way, or where its policy wants no aggregates.
  alike: alikeSchema.nullable(),
  steps: z.array(stepSchema),
  actions: z.array(actionSchema),
})
export type Explanation = z.infer<typeof explanationSchema>

export interface ExplainInput {
  job: JobRecord
  events: readonly JobEvent[]
  failures: readonly FailureRecord[]
  /** The group of its newest failure. */
  group?: FailureGroup | null
  /** Why it does not start, although it is due. */
  holds?: readonly Hold[]
  nowMs: number
}

export function explain({ job, events, failures, group = null, holds = [], nowMs }: ExplainInput): Explanation {
  const { tone, verdict } = verdictOn(job, events, nowMs, holds)
  return {
    id: job.id,
    type: job.type,
    status: job.status,
    owner: job.owner,
    retriedFrom: job.retriedFrom,
    retriedAs: job.retriedAs,
    submittedAt: isoTime(job.createdAtMs),
    ageMs: Math.max(0, nowMs - job.createdAtMs),
    at: isoTime(nowMs),
    tone,
    verdict,
    held: holds.map(viewHold),
    alike: alikeOf(job, failures, group),
    steps: stepsOf(job, events, failures.map(viewFailure)),
    actions: actionsFor(job),
  }
}

function stepsOf(job: JobRecord, events: readonly JobEvent[], failures: readonly FailureView[]): ExplainedStep[] {
  const steps: ExplainedStep[] = []
  let open: ExplainedStep | null = null
  for (const event of events) {
    const since = event.atMs - job.createdAtMs
    const failure = failureOf(event, failures)
    switch (event.kind) {
      case 'processing':
        open = step(
          event,
          since,
          `attempt ${event.attempt}${event.worker === null ? '' : ` on ${event.worker}`}`,
          'plain',
        )
        steps.push(open)
        break
      case 'started':
        break
      case 'orphaned':
      case 'recovered':
      case 'cancel-requested':
        open?.notes.push({ sinceSubmittedMs: since, ...noteOf(event) })
        break
      case 'complete':
      case 'retry':
      case 'failed':
      case 'cancelled':
      case 'released':
      case 'snoozed':
      case 'reclaimed':
        if (open === null) steps.push({ ...step(event, since, '', 'plain'), attempt: null, ...outside(event, failure) })
        else {
          const stages = event.data.stages ?? []
          Object.assign(open, { ranMs: event.durationMs, failure, stages, ended: endingOf(event, failure) })
        }
        open = null
        break
      case 'queued':
      case 'manual-retry':
      case 'rescheduled':
      case 'reprioritised':
      case 'input-replaced':
      case 'expired':
      case 'lost':
        steps.push({ ...step(event, since, '', 'plain'), attempt: null, ...outside(event, failure) })
        break
    }
  }
  return steps
}

function step(event: JobEvent, sinceSubmittedMs: number, text: string, tone: Tone): ExplainedStep {
  const { atMs, attempt, worker } = event
  const nothingYet = { ranMs: null, notes: [], stages: [], failure: null, ended: null }
  return { at: isoTime(atMs), sinceSubmittedMs, attempt, worker, text, tone, ...nothingYet }
}

function failureOf({ kind, attempt, data }: JobEvent, failures: readonly FailureView[]): FailureView | null {
  if (data.failure !== undefined) return failures.find((failure) => failure.seq === data.failure) ?? null
  // A cancellation overtook the retry of a failed attempt: its event is the cancellation's own.
  if (kind !== 'cancelled') return null
  return failures.find((failure) => failure.attempt === attempt && failure.to === 'cancelled') ?? null
}

/** For what is not part of an attempt. */
function outside(event: JobEvent, failure: FailureView | null): Partial<ExplainedStep> {
  const { kind, data } = event
  switch (kind) {
    case 'queued': {
      const own = data.importedFrom === undefined ? 'submitted' : `imported from ${data.importedFrom}`
      const origin = data.actor === undefined ? own : `submitted as a retry by ${by(event)}`
      const due = data.dueAtMs === undefined ? '' : `, not to begin before ${isoTime(data.dueAtMs)}`
      return { text: origin + due }
    }
    case 'manual-retry':
      return { text: `sent back to the queue by ${by(event)}`, tone: 'waiting' }
    case 'rescheduled':
    case 'reprioritised':
    case 'input-replaced':
      return { text: changed(event) }
    case 'expired':
      return { text: data.reason ?? 'a file of this job is gone', tone: 'waiting' }
    case 'lost':
      return { text: lostWrite(event), tone: 'waiting' }
    case 'failed': {
      const text = failedOutside(data)
      return { text, tone: 'bad', failure, ended: endingOf(event, failure) }
    }
    default:
      return { text: endingOf(event, failure).text, failure }
  }
}

/** A submission that replaces a waiting job has no actor. */
function changed(event: JobEvent): string {
  const { kind, data } = event
  const who = data.actor === undefined ? 'by a later submission' : `by ${by(event)}`
  if (kind === 'reprioritised') return `priority set to ${data.priority ?? 0} ${who}`
  const did = data.dueAtMs === undefined ? 'made due at once' : `rescheduled to ${isoTime(data.dueAtMs)}`
  if (kind === 'rescheduled') return `${did} ${who}`
  return data.dueAtMs === undefined ? `input replaced ${who}` : `input replaced and ${did} ${who}`
}

function failedOutside({ actor, code, importedFrom }: JobEvent['data']): string {
  if (importedFrom !== undefined) return `imported as failed from ${importedFrom}; nothing was executed here`
  if (actor !== undefined) return 'ended while it waited'
  if (code === 'TTL_EXPIRED') return 'expired while it waited; nothing was executed'
  return 'refused at submission; nothing was executed'
}

function lostWrite({ attempt, worker, data }: JobEvent): string {
  const stood = `the job was ${data.status ?? 'elsewhere'} at attempt ${data.currentAttempt ?? attempt}`
  return `a late ${data.write ?? 'write'} of attempt ${attempt} by ${worker ?? 'a worker'} was refused: ${stood}, so it does not count`
}

function noteOf(event: JobEvent): { text: string; tone: Tone } {
  if (event.kind === 'orphaned')
    return { text: `reported as an orphan: ${event.worker ?? 'its worker'} is gone`, tone: 'bad' }
  if (event.kind === 'recovered')
    return { text: `${event.worker ?? 'its worker'} came back; no orphan any more`, tone: 'good' }
  return { text: `asked to cancel by ${by(event)}`, tone: 'waiting' }
}

function endingOf(event: JobEvent, failure: FailureView | null): { text: string; tone: Tone } {
  const { kind, data, atMs } = event
  const because = failure?.decision.because
  const more = data.reason === undefined ? '' : `; ${data.reason}`
  const wait = data.dueAtMs === undefined ? 'at once' : `in ${formatMs(data.dueAtMs - atMs)}`
  switch (kind) {
    case 'complete':
      return { text: 'complete', tone: 'good' }
    case 'retry':
      return { text: `to be tried again: ${because ?? 'its policy says so'}${more}`, tone: 'waiting' }
    case 'failed':
      return { text: `failed for good: ${because ?? 'its policy says so'}`, tone: 'bad' }
    case 'released':
      return { text: `given back: ${data.reason ?? 'its worker could not do it'}; it costs nothing`, tone: 'waiting' }
    case 'snoozed': {
      const why = data.reason === undefined ? '' : ` (${data.reason})`
      return { text: `put off by its handler${why}; next attempt ${wait}, and it costs nothing`, tone: 'waiting' }
    }
    case 'reclaimed':
      return { text: `taken back: ${data.reason ?? 'its worker is lost'}`, tone: 'waiting' }
    default:
      return {
        text: `cancelled${data.actor ? ` by ${by(event)}` : `: ${data.reason ?? 'it was asked to'}`}`,
        tone: 'plain',
      }
  }
}

const by = ({ data }: JobEvent): string => `${data.actor ?? 'somebody'}: ${data.reason ?? 'no reason given'}`

/** A job that ended well needs no comparison, and one that is alone with its failure has none. */
function alikeOf({ status }: JobRecord, failures: readonly FailureRecord[], group: FailureGroup | null): Alike | null {
  if (group === null || status === 'complete') return null
  const { fingerprint, count, firstAtMs, state } = group
  const others = count - failures.filter((failure) => failure.fingerprint === fingerprint).length
  if (others <= 0) return null
  const since = isoTime(firstAtMs)
  const were = others === 1 ? '1 other failed' : `${others} others failed`
  const stands = state === 'open' ? '' : ` (${state})`
  return {
    fingerprint,
    others,
    since,
    state,
    text: `${were} the same way since ${since}: group ${fingerprint}${stands}.`,
  }
}

interface VerdictOnJob {
  tone: Tone
  verdict: string[]
}

const NOTHING_BY_ITSELF = 'Nothing will happen by itself.'

/** The summary: the state of the job, whose fault it is, and what happens next. */
function verdictOn(
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

function onFailed(job: JobRecord, events: readonly JobEvent[]): VerdictOnJob {
  const { latestFailure: failure, attempt, isDeadLettered, retriedAs, retriedAsStatus } = job
  const verdict = failure === null ? ['FAILED.'] : ['FAILED.', ...faultOf(failure, failure.message)]
  const [first] = events
  if (attempt > 0) verdict.push(tried(job))
  else if (first?.data.importedFrom !== undefined) verdict.push(`Imported from ${first.data.importedFrom}.`)
  else verdict.push('It was never dispatched: nothing was executed.')
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

/** The hold comes before the history: a person can act on the hold. */
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

/** Changes of a job that waits. */
const CHANGES: ReadonlySet<JobEvent['kind']> = new Set(['rescheduled', 'reprioritised', 'input-replaced'])

/** Whether this event has set the time of the job since it came to the queue. */
const isTimeSet = ({ kind, seq, data }: JobEvent, since: JobEvent): boolean =>
  seq > since.seq && (kind === 'rescheduled' || (kind === 'input-replaced' && data.dueAtMs !== undefined))

function onQueued(job: JobRecord, events: readonly JobEvent[], nowMs: number, isHeld: boolean): string[] {
  const { latestFailure, dueAtMs, queuedAtMs } = job
  const lastMove = events.findLast(({ kind }) => kind !== 'lost' && !CHANGES.has(kind))
  const moved = lastMove === undefined ? undefined : events.findLast((event) => isTimeSet(event, lastMove))
  const set = moved === undefined ? [] : [`${sentence(capitalised(changed(moved)))}`]
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
      return ['QUEUED, to be tried again.', ...fault, count, `Next attempt ${next}.`, ...slowed, ...set]
    }
    case 'manual-retry': {
      const { actor, reason } = lastMove.data
      return [`QUEUED again by ${actor}: ${sentence(reason ?? '')}`, `It goes ${next}.`, ...set]
    }
    case 'released':
    case 'reclaimed':
    case 'snoozed':
      return [`QUEUED again: it was ${lastMove.kind}.`, `Next attempt ${next}.`, ...set]
    default: {
      const since = isDue
        ? `It has waited for ${formatMs(Math.max(0, nowMs - queuedAtMs))}.`
        : 'It was submitted with a delay.'
      return ['QUEUED.', `It goes ${next}.`, ...(set.length > 0 ? set : [since])]
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
