import { triesOfTask } from '../core/budget.ts'
import type { JobEvent } from '../core/events.ts'
import type { Failure, Fault } from '../core/failure.ts'
import { asForwardOnly, type Policy } from '../core/policy.ts'
import type { Status } from '../core/states.ts'
import type { StoredAct } from './audit.ts'
import type { StoredDeadLetter } from './dead-letters.ts'
import type { FailedEnd, JobRow, StoredFailure, TypeCounts } from './store.ts'

/** A row as SQL gives it. Every driver has the same columns, so what they mean is said once. */
export type Row = Readonly<Record<string, number | string | null>>

/** What of its type a row is read with. */
interface TypeOfRow {
  name: string
  queue: string
  policy: Policy
}

export function toJob(row: Row, type: TypeOfRow, latestFailure: StoredFailure | null): JobRow {
  const isProcessing = row.status === 'processing'
  return {
    key: row.key as number,
    id: row.id as string,
    type: type.name,
    queue: type.queue,
    status: row.status as Status,
    payload: row.payload as string,
    result: row.result as string | null,
    owner: row.owner as string | null,
    priority: row.priority as number,
    attempt: row.attempt as number,
    tries: triesOfTask(row.attempt as number, row.spent as string | null),
    spent: row.spent as string | null,
    progress: row.status === 'complete' ? 1 : ((row.progress as number | null) ?? 0),
    createdAtMs: row.created_at as number,
    queuedAtMs: (row.counts_from ?? row.queued_at) as number,
    dueAtMs: row.due_at as number | null,
    claimedAtMs: row.claimed_at as number | null,
    startedAtMs: row.started_at as number | null,
    finishedAtMs: row.finished_at as number | null,
    lease: isProcessing ? { worker: row.worker_id as string, untilMs: row.lease_until as number } : null,
    // Marks of an attempt that has ended are history; only a processing job can be an orphan.
    orphanedAtMs: isProcessing ? (row.orphaned_at as number | null) : null,
    cancelRequestedAtMs: isProcessing ? (row.cancel_requested_at as number | null) : null,
    retriedFrom: row.retried_from as string | null,
    retriedAs: row.retried_as as string | null,
    retriedAsStatus: row.retried_as_status as Status | null,
    dedupeKey: row.dedupe_key as string | null,
    batch: row.batch as number | null,
    batchId: row.batch_id as string | null,
    limitKey: (row.limit_key as string | null) || null,
    failure: row.failure as number | null,
    latestFailure,
    isForwardOnly: row.forward_only === 1,
    isDeadLettered: row.dead_letter !== null,
    policy: row.forward_only === 1 ? asForwardOnly(type.policy) : type.policy,
  }
}

export const toFailedEnd = (row: Row, { name }: TypeOfRow): FailedEnd => ({
  type: name,
  code: row.code as string,
  isForwardOnly: row.forward_only === 1,
  count: row.count as number,
  fault: row.fault as Fault,
  message: row.message as string,
})

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
    stage: row.stage as Failure['stage'],
    owner: row.owner as Failure['owner'],
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

/** One row per type and status. */
export function toCounts(rows: readonly Row[], typeOf: (key: number) => { name: string; queue: string }): TypeCounts[] {
  const byType = new Map<number, TypeCounts>()
  for (const row of rows) {
    const { name, queue } = typeOf(row.type as number)
    const sum = byType.get(row.type as number) ?? noJobs(name, queue)
    sum[row.status as Status] = row.n as number
    if (row.status === 'queued') sum.waiting = row.waiting as number
    if (row.status === 'processing') sum.orphaned = row.orphaned as number
    byType.set(row.type as number, sum)
  }
  return [...byType.values()]
}

function noJobs(type: string, queue: string): TypeCounts {
  return { type, queue, queued: 0, waiting: 0, processing: 0, orphaned: 0, complete: 0, failed: 0, cancelled: 0 }
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

export function toAct(row: Row): StoredAct {
  return {
    seq: row.seq as number,
    atMs: row.at as number,
    actor: row.actor as string,
    act: row.act as string,
    reason: row.reason as string,
    target: row.target as string,
    ids: JSON.parse(row.ids as string),
    data: parse<StoredAct['data']>(row.data as string | null, null),
  }
}

export function parse<T>(text: string | null, absent: T): T {
  return text === null ? absent : (JSON.parse(text) as T)
}
