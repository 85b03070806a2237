import { z } from 'zod'
import { stageSummarySchema } from '../failure/stage.ts'
import { count, listOf, name, number, status, text } from '../views/fields.ts'
import type { ReportKind } from './reports.ts'
import type { Status } from './states.ts'

/**
 * One line of a job's history. The history is append-only and complete: `replay` (replay.ts) rebuilds the row's
 * state from it, and a test checks that it always does.
 */
export const EVENT_KINDS = [
  'queued', // submitted and accepted
  'processing', // claimed by a worker: the attempt begins to count
  'started', // the handler really began (left out when the attempt closes at once: its close says how long it ran)
  'complete',
  'retry', // failed, and goes back to the queue by policy
  'failed', // failed for good: by policy, by an orphan decision, by a person, or before any dispatch
  'cancelled',
  'released', // given back by a worker that stops or has no room; free
  'snoozed', // given back by the handler itself; free
  'reclaimed', // taken back from a lost worker
  'orphaned', // its worker is gone; reported, not touched
  'recovered', // the worker of a reported orphan came back
  'cancel-requested',
  'manual-retry', // a person sent it back to the queue
  'rescheduled', // its time was changed while it waited; without `dueAtMs` it is due at once
  'reprioritised', // its priority was changed while it waited
  'input-replaced', // it got another input before its first attempt, and with `dueAtMs` also another time
  'expired', // a file that it needed or made was removed by retention; the job itself is as it was
  'lost', // a worker's write came after its lease was gone and was refused: evidence of a zombie
  'deleted', // a person deleted the finished job with its history: only on the feed
] as const
export type EventKind = (typeof EVENT_KINDS)[number]

/**
 * What can happen to anything but a job, by the first word of its subject ('batch:ID', 'queue:NAME', ...). A
 * subscriber gets `batch.settled`, `queue.paused` and so on.
 */
export const SUBJECT_EVENTS = {
  batch: ['settled', 'reopened', 'expired'],
  breaker: ['opened', 'half-open', 'closed', 'forced', 'released'],
  queue: ['paused', 'resumed'],
  schedule: ['declared', 'changed', 'skipped', 'failed', 'paused', 'resumed', 'triggered', 'ended', 'removed'],
  replay: ['planned', 'canary', 'running', 'paused', 'resumed', 'done', 'stopped', 'aborted'],
  failures: ['resolved', 'snoozed', 'reopened', 'regressed'],
} as const
export type SubjectEvents = typeof SUBJECT_EVENTS
export type SubjectThing = keyof SubjectEvents

/** What an event says, stored and shown alike. */
export const eventDataFields = {
  failure: count.describe(`seq of the failure's record`).exactOptional(),
  code: name.exactOptional(),
  httpStatus: number.exactOptional(),
  // The stages of the attempt in which something was tried again, or that gave up.
  stages: listOf(stageSummarySchema).exactOptional(),
  actor: name.exactOptional(),
  reason: text.exactOptional(),
  write: z.enum(['start', 'renew', 'report', 'close']).describe('of a lost write: which one').exactOptional(),
  // How the job stood, where the event did not change it (`lost`, `expired`).
  status: status.exactOptional(),
  currentAttempt: count.exactOptional(),
  deadLetterOffset: count.exactOptional(),
  // `reprioritised`: the priority since then.
  priority: number.exactOptional(),
  // `queued`: the schedule that made the job.
  schedule: name.exactOptional(),
  // The first event of an imported job: the system, queue and id that it had there.
  importedFrom: text.exactOptional(),
}

export interface EventData extends z.infer<z.ZodObject<typeof eventDataFields>> {
  /** When the job may be claimed next, if not at once. */
  dueAtMs?: number
  /** Budgets after this event, packed; see budget.ts. */
  spent?: string
  /** `queued`: for which time its schedule made the job. */
  scheduledForMs?: number
}

/** One event of the history of a job, as the store keeps it. */
export interface JobEvent {
  /** Position in the history of the whole store: only grows. */
  seq: number
  jobId: string
  atMs: number
  kind: EventKind
  attempt: number
  worker: string | null
  /** How long the handler ran, where the event ends an attempt that had started. */
  durationMs: number | null
  data: EventData
}

const STATUS_AFTER: Readonly<Record<Exclude<EventKind, 'lost' | 'expired' | 'deleted'>, Status>> = {
  queued: 'queued',
  processing: 'processing',
  started: 'processing',
  complete: 'complete',
  retry: 'queued',
  failed: 'failed',
  cancelled: 'cancelled',
  released: 'queued',
  snoozed: 'queued',
  reclaimed: 'queued',
  orphaned: 'processing',
  recovered: 'processing',
  'cancel-requested': 'processing',
  'manual-retry': 'queued',
  rescheduled: 'queued',
  reprioritised: 'queued',
  'input-replaced': 'queued',
}

/** Where a job stands after an event. One that changed nothing says how the job stood. */
export function statusAfter(kind: EventKind | ReportKind, data: EventData): Status {
  if (kind === 'log' || kind === 'progress') return 'processing'
  if (kind === 'lost') return data.status ?? 'processing'
  return kind === 'expired' || kind === 'deleted' ? (data.status ?? 'complete') : STATUS_AFTER[kind]
}
