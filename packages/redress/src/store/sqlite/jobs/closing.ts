import {
  type Change,
  cancelOnRequeue,
  type DecidedFailure,
  type EndNumbers,
  endEventOf,
  type HeldNow,
  isStillReclaimable,
  NO_NUMBERS,
} from '../../../core/job/change.ts'
import { FREES_LIVE_KEY } from '../../../core/job/dedupe.ts'
import type { EventData } from '../../../core/job/events.ts'
import type { Status } from '../../../core/job/states.ts'
import { triesOfTask } from '../../../core/policy/budget.ts'
import type { Report } from '../../contract/reports.ts'
import type {
  BatchKey,
  Close,
  CloseAnswer,
  Held,
  JobKey,
  Reclaim,
  Renewal,
  Started,
  WorkerKey,
} from '../../contract/store.ts'
import type { freeLiveKey } from '../../scripts/jobs/intervening.ts'
import type { reports } from '../../scripts/jobs/reports.ts'
import type { letterMarks } from '../../scripts/letters/dead-letters.ts'
import type { AtOnce } from '../../scripts/tx/script.ts'
import type { Connection } from '../connection/connection.ts'
import type { Batches, History, RetryMeters } from './at-once.ts'
import { HELD } from './fence.ts'

interface HeldRow {
  worker: WorkerKey
  cancel_requested_at: number | null
  orphaned_at: number | null
  lease_until: number
  claimed_at: number
  untold_claim: number | null
  started_at: number | null
  batch: BatchKey | null
}

type UntoldClaim = Pick<HeldRow, 'untold_claim'>

/** An attempt that ends, as its event tells it. */
interface Ended {
  at: Held
  worker: WorkerKey
  /** null if an event has told of the claim. */
  claimedAtMs: number | null
  ranMs: number | null
}

type Requeue = Extract<Change, { to: 'queued' }>

const nowOf = ({ lease_until, started_at, orphaned_at }: HeldRow): HeldNow => ({
  leaseUntilMs: lease_until,
  startedAtMs: started_at,
  orphanedAtMs: orphaned_at,
})

const dueAt = ({ delayMs }: Requeue, nowMs: number): number | null => (delayMs > 0 ? nowMs + delayMs : null)

/** The writes that end or extend an attempt. Each begins at the fence. */
export function openClosing(
  connection: Connection,
  history: History,
  batches: Batches,
  retries: RetryMeters,
  letters: AtOnce<{ add: typeof letterMarks.add; freeLiveKey: typeof freeLiveKey }>,
  reported: AtOnce<typeof reports>,
) {
  const selectHeld = connection.prepare(`
    SELECT worker, cancel_requested_at, orphaned_at, lease_until, claimed_at, untold_claim, started_at,
      (SELECT batch FROM job_specs WHERE job_specs.key = jobs.key AND left_batch IS NULL) AS batch FROM jobs WHERE ${HELD}`)
  const standing = connection.prepare('SELECT status, attempt FROM jobs WHERE key = ?')
  const complete = connection.prepare(`
    UPDATE jobs SET status = 'complete', worker = NULL, lease_until = NULL, finished_at = ?3,
      started_at = coalesce(started_at, max(claimed_at, ?4)), result = ?5 WHERE ${HELD} RETURNING untold_claim`)
  const requeue = connection.prepare(`
    UPDATE jobs SET status = 'queued', worker = NULL, lease_until = NULL, claimed_at = NULL, started_at = NULL,
      progress = NULL, orphaned_at = NULL, ready = ?3, due_at = ?4, spent = ?5, due_since = ?6 WHERE ${HELD}`)
  // Without reading the row first. A row with a request to cancel or a report as orphan is left for core to decide (`apply`).
  const requeueUndisturbed = connection.prepare(`
    UPDATE jobs SET status = 'queued', worker = NULL, lease_until = NULL, claimed_at = NULL, started_at = NULL,
      progress = NULL, ready = ?3, due_at = ?4, spent = ?5, due_since = ?6
    WHERE ${HELD} AND cancel_requested_at IS NULL AND orphaned_at IS NULL RETURNING untold_claim`)
  const fail = connection.prepare(`
    UPDATE jobs SET status = 'failed', worker = NULL, lease_until = NULL, finished_at = ?3,
      started_at = coalesce(started_at, ?4), failure = ?5, spent = ?6, dead_letter = ?7, ended_with = ?8 WHERE ${HELD}`)
  const cancel = connection.prepare(`
    UPDATE jobs SET status = 'cancelled', ended_with = '', worker = NULL, lease_until = NULL, finished_at = ?3,
      started_at = coalesce(started_at, ?4) WHERE ${HELD}`)
  const begin = connection.prepare(
    `UPDATE jobs SET started_at = coalesce(started_at, ?3), untold_claim = NULL WHERE ${HELD}`,
  )
  const extend = connection.prepare(`
    UPDATE jobs SET lease_until = ?3, orphaned_at = NULL WHERE ${HELD}`)
  const orphan = connection.prepare(`UPDATE jobs SET orphaned_at = ?3 WHERE ${HELD}`)

  const held = ({ key, attempt }: Held) => selectHeld.get(key, attempt) as HeldRow | undefined

  /** A late write changes nothing and leaves an event as evidence. */
  const refuse = ({ key, attempt }: Held, write: NonNullable<EventData['write']>, worker: WorkerKey, nowMs: number) => {
    const row = standing.get(key) as { status: Status; attempt: number } | undefined
    if (row === undefined) return
    history.event(key, nowMs, 'lost', attempt, worker, null, { write, status: row.status, currentAttempt: row.attempt })
  }

  const failureOf = (
    { key, attempt }: Held,
    worker: WorkerKey,
    failure: DecidedFailure,
    to: Status,
    isPermanent: boolean | null,
    atMs: number,
  ): number => history.failure({ key, atMs, attempt, worker, failure, from: 'processing', to, isPermanent })

  /** Adds the event of an attempt that ends, with the numbers that the store gave. */
  const addEnd = (
    { at, worker, claimedAtMs, ranMs }: Ended,
    change: Change,
    numbers: EndNumbers,
    nowMs: number,
  ): void => {
    const { kind, data } = endEventOf(change, numbers)
    history.event(at.key, nowMs, kind, at.attempt, worker, ranMs, data, claimedAtMs)
  }

  /** Adds the failure and the event of a job that goes back to the queue. */
  const addRequeue = (ended: Ended, change: Requeue, nowMs: number): void => {
    const { at, worker } = ended
    const failure = change.failure === null ? null : failureOf(at, worker, change.failure, 'queued', null, nowMs)
    addEnd(ended, change, { failure, dueAtMs: dueAt(change, nowMs), deadLetterOffset: null }, nowMs)
  }

  /** A retry over the budget of its type waits longer. Only a change that is applied pays. */
  const priced = (change: Requeue, nowMs: number): { retry: Requeue; pay?: () => void } => {
    if (change.budget === undefined) return { retry: change }
    const prices = retries.price([change], nowMs)
    return { retry: prices.changes[0] as Requeue, pay: () => retries.pay(prices) }
  }

  /** Applies a change to a row that is known to be held in this transaction. */
  const apply = (at: Held, row: HeldRow, asked: Change, ranMs: number | null, nowMs: number): void => {
    const { key, attempt } = at
    const { worker } = row
    const { change, keptFailure } = cancelOnRequeue(asked, row.cancel_requested_at !== null)
    if (keptFailure !== null) failureOf(at, worker, keptFailure, change.to, null, nowMs)
    const startedAtMs = ranMs === null ? null : Math.max(row.claimed_at, nowMs - ranMs)
    const ended = { at, worker, claimedAtMs: row.untold_claim, ranMs }
    switch (change.to) {
      case 'complete':
        addEnd(ended, change, NO_NUMBERS, nowMs)
        complete.get(key, attempt, nowMs, startedAtMs, change.result)
        break
      case 'cancelled':
        addEnd(ended, change, NO_NUMBERS, nowMs)
        cancel.run(key, attempt, nowMs, startedAtMs)
        break
      case 'queued': {
        const { retry, pay } = priced(change, nowMs)
        const { delayMs, spent } = retry
        addRequeue(ended, retry, nowMs)
        requeue.run(key, attempt, delayMs > 0 ? null : 1, dueAt(retry, nowMs), spent, nowMs + delayMs)
        pay?.()
        return
      }
      case 'failed': {
        const { failure: final, spent, deadLetter, isPermanent } = change
        const failure = failureOf(at, worker, final, 'failed', isPermanent, nowMs)
        const letter = letters.add(key, failure, triesOfTask(attempt, spent), deadLetter, nowMs)
        addEnd(ended, change, { failure, dueAtMs: null, deadLetterOffset: letter || null }, nowMs)
        fail.run(key, attempt, nowMs, startedAtMs, failure, spent, letter, final.code)
      }
    }
    if (FREES_LIVE_KEY.includes(change.to)) letters.freeLiveKey(key)
    const isPermanent = change.to === 'failed' && change.isPermanent
    if (row.batch !== null) batches.moved(row.batch, 'processing', change.to, isPermanent, nowMs)
  }

  return {
    close(close: Close, worker: WorkerKey, nowMs: number): CloseAnswer {
      const { key, attempt, change } = close
      const ranMs = close.ranMs === null ? null : Math.round(close.ranMs)
      if (close.report !== undefined) reported.add([{ key, attempt, ...close.report }], nowMs)
      if (change.to === 'complete') {
        // The hot path: the fence is in the UPDATE itself, and no row is read first.
        const startedAtMs = ranMs === null ? null : nowMs - ranMs
        const closed = complete.get(key, attempt, nowMs, startedAtMs, change.result) as UntoldClaim | undefined
        if (closed === undefined) {
          refuse(close, 'close', worker, nowMs)
          return 'lost'
        }
        addEnd({ at: close, worker, claimedAtMs: closed.untold_claim, ranMs }, change, NO_NUMBERS, nowMs)
        const { batch } = close
        if (batch !== null && batch !== undefined) batches.moved(batch, 'processing', 'complete', false, nowMs)
        return 'closed'
      }
      if (change.to === 'queued') {
        // The same for retries. A row with a request to cancel or a report as orphan takes the path below.
        const { retry, pay } = priced(change, nowMs)
        const { delayMs } = retry
        const ready = delayMs > 0 ? null : 1
        const dueAtMs = dueAt(retry, nowMs)
        const values = [key, attempt, ready, dueAtMs, change.spent, nowMs + delayMs]
        const closed = requeueUndisturbed.get(...values) as UntoldClaim | undefined
        if (closed !== undefined) {
          pay?.()
          addRequeue({ at: close, worker, claimedAtMs: closed.untold_claim, ranMs }, retry, nowMs)
          return 'closed'
        }
      }
      const row = held(close)
      if (row === undefined) {
        refuse(close, 'close', worker, nowMs)
        return 'lost'
      }
      apply(close, row, change, ranMs, nowMs)
      history.notify(close.notices, row.batch, nowMs)
      return 'closed'
    },

    start(started: Started, worker: WorkerKey, nowMs: number): CloseAnswer {
      const row = held(started)
      if (row === undefined) {
        refuse(started, 'start', worker, nowMs)
        return 'lost'
      }
      // ChangeNotices again, because the answer to the first time was lost.
      if (row.started_at !== null) return 'closed'
      const startedAtMs = Math.max(row.claimed_at, nowMs - Math.round(started.agoMs))
      history.event(started.key, startedAtMs, 'started', started.attempt, row.worker, null, null, row.untold_claim)
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
      extend.run(key, attempt, nowMs + renewal.ttlMs)
      return 'closed'
    },

    /** Returns the keys whose lease is lost. */
    report(given: readonly Report[], worker: WorkerKey, nowMs: number): JobKey[] {
      const lost = reported.add(given, nowMs)
      for (const one of lost) refuse(one, 'report', worker, nowMs)
      return lost.map(({ key }) => key)
    },

    reclaim(reclaim: Reclaim, nowMs: number): CloseAnswer {
      const row = held(reclaim)
      // Not an error: the worker renewed, started or closed after the reclaiming worker read the job.
      if (row === undefined || !isStillReclaimable(reclaim.expect, reclaim.change.to, nowOf(row), nowMs)) return 'lost'
      if (reclaim.change.to === 'orphaned') {
        history.recordClaims([reclaim.key])
        history.event(reclaim.key, nowMs, 'orphaned', reclaim.attempt, row.worker, null, null)
        orphan.run(reclaim.key, reclaim.attempt, nowMs)
        history.notify(reclaim.notices, row.batch, nowMs)
        return 'closed'
      }
      apply(reclaim, row, reclaim.change, null, nowMs)
      history.notify(reclaim.notices, row.batch, nowMs)
      return 'closed'
    },
  }
}
