import { triesOfTask } from '../../core/budget.ts'
import { attemptFactsOf, type Change, type DecidedFailure } from '../../core/change.ts'
import type { EventData, EventKind } from '../../core/events.ts'
import type { Status } from '../../core/states.ts'
import type { BatchKey, Close, CloseAnswer, Held, JobKey, Reclaim, Renewal, Started, WorkerKey } from '../store.ts'
import type { Batches } from './batches.ts'
import type { Connection } from './connection.ts'
import { HELD } from './fence.ts'
import type { History } from './history.ts'
import type { RetryMeters } from './retry-meters.ts'

interface HeldRow {
  worker: WorkerKey
  cancel_requested_at: number | null
  orphaned_at: number | null
  lease_until: number
  claimed_at: number
  started_at: number | null
  batch: BatchKey | null
}

type Requeue = Extract<Change, { to: 'queued' }>
type Fail = Extract<Change, { to: 'failed' }>

const dueAt = ({ delayMs }: Requeue, nowMs: number): number | null => (delayMs > 0 ? nowMs + delayMs : null)

export type Closing = ReturnType<typeof openClosing>

/** The writes that end or extend an attempt, whoever sends them. Each begins at the fence. */
export function openClosing(connection: Connection, history: History, batches: Batches, retries: RetryMeters) {
  const selectHeld = connection.prepare(`
    SELECT worker, cancel_requested_at, orphaned_at, lease_until, claimed_at, started_at,
      (SELECT batch FROM job_specs WHERE job_specs.key = jobs.key AND left_batch IS NULL) AS batch FROM jobs WHERE ${HELD}`)
  const standing = connection.prepare('SELECT status, attempt FROM jobs WHERE key = ?')
  const complete = connection.prepare(`
    UPDATE jobs SET status = 'complete', worker = NULL, lease_until = NULL, finished_at = ?3,
      started_at = coalesce(started_at, max(claimed_at, ?4)), result = ?5 WHERE ${HELD}`)
  const requeue = connection.prepare(`
    UPDATE jobs SET status = 'queued', worker = NULL, lease_until = NULL, claimed_at = NULL, started_at = NULL,
      progress = NULL, orphaned_at = NULL, ready = ?3, due_at = ?4, spent = ?5, due_since = ?6 WHERE ${HELD}`)
  const requeueAsIs = connection.prepare(`
    UPDATE jobs SET status = 'queued', worker = NULL, lease_until = NULL, claimed_at = NULL, started_at = NULL,
      progress = NULL, ready = ?3, due_at = ?4, spent = ?5, due_since = ?6
    WHERE ${HELD} AND cancel_requested_at IS NULL AND orphaned_at IS NULL`)
  const fail = connection.prepare(`
    UPDATE jobs SET status = 'failed', worker = NULL, lease_until = NULL, finished_at = ?3,
      started_at = coalesce(started_at, ?4), failure = ?5, spent = ?6, dead_letter = ?7, ended_with = ?8 WHERE ${HELD}`)
  const cancel = connection.prepare(`
    UPDATE jobs SET status = 'cancelled', ended_with = '', worker = NULL, lease_until = NULL, finished_at = ?3,
      started_at = coalesce(started_at, ?4) WHERE ${HELD}`)
  const begin = connection.prepare(`UPDATE jobs SET started_at = coalesce(started_at, ?3) WHERE ${HELD}`)
  const extend = connection.prepare(`
    UPDATE jobs SET lease_until = ?3, progress = coalesce(?4, progress), orphaned_at = NULL WHERE ${HELD}`)
  const orphan = connection.prepare(`UPDATE jobs SET orphaned_at = ?3 WHERE ${HELD}`)
  const addDeadLetter = connection.prepare('INSERT INTO dead_letters (job, failure, attempts, at) VALUES (?, ?, ?, ?)')
  const freeDedupeKey = connection.prepare(
    `UPDATE job_specs SET dedupe_held = NULL WHERE key = ? AND dedupe_held IS NOT NULL AND dedupe_scope = 'live'`,
  )

  const held = ({ key, attempt }: Held) => selectHeld.get(key, attempt) as HeldRow | undefined

  /** A write that came too late changes nothing and leaves evidence. */
  const refuse = ({ key, attempt }: Held, write: NonNullable<EventData['write']>, worker: WorkerKey, nowMs: number) => {
    const row = standing.get(key) as { status: Status; attempt: number } | undefined
    if (row === undefined) return
    history.event(key, nowMs, 'lost', attempt, worker, null, { write, status: row.status, currentAttempt: row.attempt })
  }

  const failureOf = ({ key, attempt }: Held, worker: WorkerKey, failure: DecidedFailure, to: Status, nowMs: number) =>
    history.failure({ key, atMs: nowMs, attempt, worker, failure, from: 'processing', to })
  const finalFailureOf = ({ key, attempt }: Held, worker: WorkerKey, { failure, isPermanent }: Fail, atMs: number) =>
    history.failure({ key, atMs, attempt, worker, failure, from: 'processing', to: 'failed', isPermanent })

  /** The failure and the event of a job that goes back to the queue. */
  const tellRequeue = (at: Held, worker: WorkerKey, change: Requeue, ranMs: number | null, nowMs: number): void => {
    const data: EventData = { spent: change.spent ?? '', ...attemptFactsOf(change) }
    if (change.failure !== null) {
      data.failure = failureOf(at, worker, change.failure, 'queued', nowMs)
      data.code = change.failure.code
    }
    const dueAtMs = dueAt(change, nowMs)
    if (dueAtMs !== null) data.dueAtMs = dueAtMs
    if (change.note !== null) data.reason = change.note
    history.event(at.key, nowMs, change.cause, at.attempt, worker, ranMs, data)
  }

  /** Applies a change to a row that is known to be held in this transaction. */
  const apply = (at: Held, row: HeldRow, change: Change, ranMs: number | null, nowMs: number): void => {
    const { key, attempt } = at
    const startedAtMs = ranMs === null ? null : Math.max(row.claimed_at, nowMs - ranMs)
    const event = (kind: EventKind, data: EventData | null) =>
      history.event(key, nowMs, kind, attempt, row.worker, ranMs, data)
    const leave = (to: Status, isPermanent: boolean) => {
      if (row.batch !== null) batches.moved(row.batch, 'processing', to, isPermanent, nowMs)
    }

    switch (change.to) {
      case 'complete':
        event('complete', attemptFactsOf(change))
        complete.run(key, attempt, nowMs, startedAtMs, change.result)
        leave('complete', false)
        return
      case 'cancelled':
        event(
          'cancelled',
          change.note === null ? attemptFactsOf(change) : { reason: change.note, ...attemptFactsOf(change) },
        )
        cancel.run(key, attempt, nowMs, startedAtMs)
        freeDedupeKey.run(key)
        leave('cancelled', false)
        return
      case 'queued': {
        // The request to cancel was acknowledged; going back to the queue must not forget it.
        if (row.cancel_requested_at !== null) {
          if (change.failure !== null) failureOf(at, row.worker, change.failure, 'cancelled', nowMs)
          const { stages } = change
          const asAsked = { to: 'cancelled', note: 'it was asked to cancel', ...(stages && { stages }) } as const
          apply(at, row, asAsked, ranMs, nowMs)
          return
        }
        const retry = retries.price(change, nowMs)
        const { delayMs, spent } = retry.change
        tellRequeue(at, row.worker, retry.change, ranMs, nowMs)
        requeue.run(key, attempt, delayMs > 0 ? null : 1, dueAt(retry.change, nowMs), spent, nowMs + delayMs)
        retry.pay()
        return
      }
      case 'failed': {
        const failure = finalFailureOf(at, row.worker, change, nowMs)
        const letter = setAside(key, failure, triesOfTask(attempt, change.spent), change.deadLetter, nowMs)
        event('failed', {
          failure,
          code: change.failure.code,
          spent: change.spent ?? '',
          ...attemptFactsOf(change),
          ...(letter ? { deadLetterOffset: letter } : {}),
        })
        fail.run(key, attempt, nowMs, startedAtMs, failure, change.spent, letter, change.failure.code)
        freeDedupeKey.run(key)
        leave('failed', change.isPermanent)
        return
      }
    }
  }

  /** The value of `jobs.dead_letter`: an offset, 0 for a mere flag, or null. */
  const setAside = (
    key: JobKey,
    failure: number,
    attempts: number,
    deadLetter: 'none' | 'flag' | 'queue',
    nowMs: number,
  ): number | null => {
    if (deadLetter === 'none') return null
    if (deadLetter === 'flag') return 0
    return Number(addDeadLetter.run(key, failure, attempts, nowMs).lastInsertRowid)
  }

  return {
    setAside,
    freeDedupeKey: (key: JobKey) => void freeDedupeKey.run(key),

    close(close: Close, worker: WorkerKey, nowMs: number): CloseAnswer {
      const { key, attempt, change } = close
      const ranMs = close.ranMs === null ? null : Math.round(close.ranMs)
      if (change.to === 'complete') {
        // The hot path: the fence is in the UPDATE itself, and no row is read first.
        const startedAtMs = ranMs === null ? null : nowMs - ranMs
        if (complete.run(key, attempt, nowMs, startedAtMs, change.result).changes === 0) {
          refuse(close, 'close', worker, nowMs)
          return 'lost'
        }
        history.event(key, nowMs, 'complete', attempt, worker, ranMs, attemptFactsOf(change))
        const { batch } = close
        if (batch !== null && batch !== undefined) batches.moved(batch, 'processing', 'complete', false, nowMs)
        return 'closed'
      }
      if (change.to === 'queued') {
        // The same for retries. What a request to cancel or a report as orphan makes of it is worked out below.
        const retry = retries.price(change, nowMs)
        const { delayMs } = retry.change
        const [ready, dueAtMs] = [delayMs > 0 ? null : 1, dueAt(retry.change, nowMs)]
        if (requeueAsIs.run(key, attempt, ready, dueAtMs, change.spent, nowMs + delayMs).changes === 1) {
          retry.pay()
          tellRequeue(close, worker, retry.change, ranMs, nowMs)
          return 'closed'
        }
      }
      const row = held(close)
      if (row === undefined) {
        refuse(close, 'close', worker, nowMs)
        return 'lost'
      }
      apply(close, row, change, ranMs, nowMs)
      history.tell(close.notices, row.batch, nowMs)
      return 'closed'
    },

    start(started: Started, worker: WorkerKey, nowMs: number): CloseAnswer {
      const row = held(started)
      if (row === undefined) {
        refuse(started, 'start', worker, nowMs)
        return 'lost'
      }
      // Told again, because the answer to the first time was lost.
      if (row.started_at !== null) return 'closed'
      const startedAtMs = Math.max(row.claimed_at, nowMs - Math.round(started.agoMs))
      history.event(started.key, startedAtMs, 'started', started.attempt, row.worker, null, null)
      begin.run(started.key, started.attempt, startedAtMs)
      return 'closed'
    },

    renew(renewal: Renewal, worker: WorkerKey, nowMs: number): CloseAnswer {
      const { key, attempt } = renewal
      const row = held(renewal)
      if (row === undefined) {
        refuse(renewal, 'renew', worker, nowMs)
        return 'lost'
      }
      if (row.orphaned_at !== null) history.event(key, nowMs, 'recovered', attempt, row.worker, null, null)
      extend.run(key, attempt, nowMs + renewal.ttlMs, renewal.progress)
      return 'closed'
    },

    reclaim(reclaim: Reclaim, nowMs: number): CloseAnswer {
      const row = held(reclaim)
      const { expect } = reclaim
      const isStill =
        row !== undefined &&
        (expect === 'unstarted' || expect === 'stuck' || row.lease_until <= nowMs) &&
        (expect === 'expired' || (row.started_at === null) === (expect !== 'stuck'))
      // Not an error of anybody: the worker renewed, started or closed after we looked.
      if (!isStill) return 'lost'
      if (reclaim.change.to === 'orphaned') {
        if (row.orphaned_at !== null) return 'lost'
        history.event(reclaim.key, nowMs, 'orphaned', reclaim.attempt, row.worker, null, null)
        orphan.run(reclaim.key, reclaim.attempt, nowMs)
        history.tell(reclaim.notices, row.batch, nowMs)
        return 'closed'
      }
      apply(reclaim, row, reclaim.change, null, nowMs)
      history.tell(reclaim.notices, row.batch, nowMs)
      return 'closed'
    },
  }
}
