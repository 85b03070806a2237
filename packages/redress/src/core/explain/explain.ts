import { z } from 'zod'
import { type FailureGroup, GROUP_STATES } from '../failure/group.ts'
import { stageSummarySchema } from '../failure/stage.ts'
import { actionSchema, actionsFor } from '../job/actions.ts'
import type { JobEvent } from '../job/events.ts'
import { type Hold, holdSchema, viewHold } from '../job/hold.ts'
import type { FailureRecord, JobRecord } from '../job/record.ts'
import { formatMs } from '../text/duration.ts'
import { isoTime } from '../text/iso-time.ts'
import { count, id, listOf, name, number, status, text, time } from '../views/fields.ts'
import { type FailureView, failureSchema, viewFailure } from '../views/history.ts'
import { verdictOn } from './verdict.ts'

const tone = z.enum(['bad', 'good', 'waiting', 'plain'])
export type Tone = z.infer<typeof tone>

/** What else failed the same way as a job did last. */
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
  /** What keeps it back though it could go. */
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
      const origin = data.actor === undefined ? 'submitted' : `submitted as a retry by ${by(event)}`
      const due = data.dueAtMs === undefined ? '' : `, not to begin before ${isoTime(data.dueAtMs)}`
      return { text: origin + due }
    }
    case 'manual-retry':
      return { text: `sent back to the queue by ${by(event)}`, tone: 'waiting' }
    case 'expired':
      return { text: data.reason ?? 'a file of this job is gone', tone: 'waiting' }
    case 'lost':
      return { text: lostWrite(event), tone: 'waiting' }
    case 'failed': {
      const text = data.actor === undefined ? 'refused at submission; nothing was executed' : 'ended while it waited'
      return { text, tone: 'bad', failure, ended: endingOf(event, failure) }
    }
    default:
      return { text: endingOf(event, failure).text, failure }
  }
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
