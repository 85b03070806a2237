import type { Failure } from '../../../core/failure/failure.ts'
import type { JobEvent } from '../../../core/job/events.ts'
import type { Status } from '../../../core/job/states.ts'
import type { Policy } from '../../../core/policy/policy.ts'
import type { StoredDeadLetter } from '../../contract/dead-letters.ts'
import type { StoredFailure } from '../../contract/store.ts'
import { toEventNumber } from '../history.ts'

/** A row as SQL gives it. Every driver has the same columns, so what they mean is said once. */
export type Row = Readonly<Record<string, number | string | null>>

/** What of its type a row is read with. */
interface TypeOfRow {
  name: string
  queue: string
  policy: Policy
}

/** The events that a row of the history tells of: the claim of its attempt, if no other row has that, and its own. */
export function eventRowsOf(row: Row): Row[] {
  const seq = toEventNumber(row.seq as number)
  const own = { ...row, seq }
  if (row.claimed_at === null) return [own]
  return [
    { ...own, seq: seq - 1, at: row.claimed_at as number, kind: 'processing', duration_ms: null, data: null },
    own,
  ]
}

export function toEvent(row: Row): JobEvent {
  return {
    seq: row.seq as number,
    jobId: row.job_id as string,
    atMs: row.at as number,
    kind: row.kind as JobEvent['kind'],
    attempt: row.attempt as number,
    worker: row.worker_id as string | null,
    durationMs: row.duration_ms as number | null,
    data: parse<JobEvent['data']>(row.data as string | null, {}),
  }
}

export function toFailure(row: Row): StoredFailure {
  return {
    jobId: row.job_id as string,
    seq: row.seq as number,
    attempt: row.attempt as number,
    atMs: row.at as number,
    worker: row.worker_id as string | null,
    from: row.from_status as Status | null,
    to: row.to_status as Status,
    phase: row.stage as Failure['phase'],
    layer: row.owner as Failure['layer'],
    code: row.code as string,
    fault: row.fault as Failure['fault'],
    message: row.message as string,
    waiting: row.waiting as string,
    detail: row.detail as string,
    context: parse<Failure['context']>(row.context as string | null, {}),
    causes: parse<Failure['causes']>(row.causes as string | null, []),
    rule: row.rule as string,
    fingerprint: row.fingerprint as string,
    decision: JSON.parse(row.decision as string),
  }
}

export function toLetter(row: Row, type: TypeOfRow, failure: StoredFailure): StoredDeadLetter {
  return {
    offset: row.offset as number,
    jobId: failure.jobId,
    type: type.name,
    queue: type.queue,
    owner: row.letter_owner as string | null,
    batchId: row.letter_batch as string | null,
    payload: row.payload as string,
    failure,
    attempts: row.letter_attempts as number,
    atMs: row.letter_at as number,
    replays: row.replays as number,
    replayedAtMs: row.replayed_at as number | null,
    replayedAs: row.replayed_as as string | null,
    retriedAs: row.retried_as as string | null,
    status: row.status as Status,
    manualRetry: type.policy.manualRetry.mode,
    twin: row.twin_id === null ? null : { id: row.twin_id as string, status: row.twin_status as Status },
    priority: row.priority as number,
    dedupeKey: row.dedupe_key as string | null,
    limitKey: (row.limit_key as string | null) || null,
  }
}

/** Ordinary objects in an ordinary array, for rows that leave the store as they are. */
export const plain = <R extends object>(rows: readonly R[]): R[] => rows.map((row) => ({ ...row }))

export function parse<T>(text: string | null, absent: T): T {
  return text === null ? absent : (JSON.parse(text) as T)
}
