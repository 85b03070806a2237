import { type Spent, unpackSpent } from './budget.ts'
import type { EventData, EventKind, JobEvent } from './events.ts'
import { isoTime } from './iso-time.ts'
import type { FailureRecord } from './record.ts'

/** One line of a job's history as every door shows it. */
export interface EventView {
  seq: number
  at: string
  kind: EventKind
  attempt: number
  worker: string | null
  durationMs: number | null
  data: Omit<EventData, 'dueAtMs' | 'scheduledForMs' | 'spent'> & {
    dueAt?: string
    scheduledFor?: string
    spent?: Spent
  }
}

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
export type FailureView = Omit<FailureRecord, 'atMs'> & { at: string }

export function viewFailure(failure: FailureRecord): FailureView {
  const { seq, attempt, atMs, worker, from, to, stage, owner, code, fault, message, waiting } = failure
  const { detail, context, causes, rule, fingerprint, decision } = failure
  return {
    seq,
    attempt,
    at: isoTime(atMs),
    worker,
    from,
    to,
    stage,
    owner,
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
