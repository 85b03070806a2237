import { failedEventData } from '../../../core/job/change.ts'
import { type Status, TERMINAL } from '../../../core/job/states.ts'
import { triesOfTask } from '../../../core/policy/budget.ts'
import type { BatchKey, JobKey, Started, Store } from '../../contract/store.ts'
import type { ExpiredFailure } from '../../contract/waiting.ts'
import type { Batches } from '../batches.ts'
import { letterMarks } from '../letters/dead-letters.ts'
import type { ScriptContext, Tx } from '../tx/context.ts'
import type { Script } from '../tx/script.ts'
import { freeLiveKey } from './intervening.ts'
import { LOCK_JOB } from './submitting.ts'

interface ExpiredRow {
  key: JobKey
  id: string
  type: number
  status: Status
  attempt: number
  spent: string | null
  owner: string | null
  created_at: number
  ttl_until: number
  retried_from: string | null
  forward_only: number
}

/** Jobs whose time to live ends while they wait. A worker that claims one fails it itself; this is for those that wait on. */
export function openExpiring(
  { history, types, read, write }: ScriptContext,
  batches: Pick<Batches, 'moved'>,
): Pick<Store, 'expiredJobs' | 'failExpired' | 'nextExpiryAtMs'> {
  const fail = function* (tx: Tx, expired: ExpiredFailure, nowMs: number): Script<'failed' | 'moved-on'> {
    const { key, attempt, failure, spent, deadLetter, notices } = expired
    // Locked: a claim at the same moment leaves the job to this transaction, or has it already.
    const row = yield* tx.get<{ status: Status; attempt: number; batch: BatchKey | null; ttl_until: number | null }>`
      SELECT status, attempt, ttl_until, CASE WHEN left_batch IS NULL THEN batch END AS batch
      FROM job_specs JOIN jobs ON jobs.key = job_specs.key WHERE job_specs.key = ${key}
      ${tx.dialect.choose(LOCK_JOB)}`
    const isSame = row !== undefined && row.status === 'queued' && row.attempt === attempt
    if (!isSame || row.ttl_until === null || row.ttl_until > nowMs) return 'moved-on'
    const failed = { key, atMs: nowMs, attempt, worker: null, failure, from: 'queued', to: 'failed' } as const
    const seq = yield* history.failure(tx, { ...failed, isPermanent: false })
    const letter = yield* letterMarks.add(tx, key, seq, triesOfTask(attempt, spent), deadLetter, nowMs)
    yield* history.event(tx, key, nowMs, 'failed', attempt, null, null, {
      failure: seq,
      ...failedEventData(expired),
      ...(letter ? { deadLetterOffset: letter } : {}),
    })
    yield* tx.run`
      UPDATE jobs SET status = 'failed', ready = NULL, due_at = NULL, finished_at = ${nowMs}, failure = ${seq},
        ended_with = ${failure.code}, spent = ${spent}, dead_letter = ${letter} WHERE key = ${key}`
    yield* tx.run`UPDATE job_specs SET ttl_until = NULL WHERE key = ${key}`
    yield* freeLiveKey(tx, key)
    if (row.batch !== null) yield* batches.moved(tx, row.batch, 'queued', 'failed', false, nowMs)
    yield* history.notify(tx, notices, row.batch, nowMs)
    return 'failed'
  }

  return {
    async expiredJobs({ limit }) {
      const found = await read('looking for expired jobs', function* (tx) {
        const nowMs = yield* tx.now()
        const rows = yield* tx.all<ExpiredRow>`
          SELECT job_specs.key, id, jobs.type, status, attempt, spent, owner, created_at, ttl_until, retried_from, forward_only
          FROM job_specs JOIN jobs ON jobs.key = job_specs.key
          WHERE ttl_until <= ${nowMs} AND ttl_until IS NOT NULL AND status <> 'processing'
          ORDER BY ttl_until LIMIT ${limit}`
        const jobs = []
        for (const row of rows) jobs.push({ row, type: yield* types.byKey(tx, row.type) })
        return { jobs, nowMs }
      })
      const ended = found.jobs.filter(({ row }) => TERMINAL.has(row.status)).map(({ row }) => row.key)
      if (ended.length > 0) {
        await write('forgetting times to live', (tx) => forgetTtl(tx, ended), { mayRepeat: true })
      }
      return found.jobs.flatMap(({ row, type }) => {
        if (row.status !== 'queued') return []
        const { key, id, attempt, spent, owner } = row
        const rest = { createdAtMs: row.created_at, expiresAtMs: row.ttl_until, retriedFrom: row.retried_from }
        return [
          {
            key,
            id,
            type: type.name,
            attempt,
            spent,
            owner,
            ...rest,
            isForwardOnly: row.forward_only === 1,
            nowMs: found.nowMs,
          },
        ]
      })
    },

    failExpired: ({ jobs }) =>
      write('failing expired jobs', function* (tx, nowMs) {
        const answers: ('failed' | 'moved-on')[] = []
        // In the order of their keys, like every transaction that locks several.
        const order = [...jobs.entries()].toSorted(([, a], [, b]) => a.key - b.key)
        for (const [i, job] of order) answers[i] = yield* fail(tx, job, nowMs)
        return answers
      }),

    nextExpiryAtMs: () =>
      read('looking for the next expiry', function* (tx) {
        const row = yield* tx.get<{ at: number | null }>`
          SELECT min(ttl_until) AS at FROM job_specs JOIN jobs ON jobs.key = job_specs.key
          WHERE ttl_until IS NOT NULL AND status = 'queued'`
        return row?.at ?? null
      }),
  }
}

/** The jobs whose time to live ends because an attempt has begun. */
export const withTtlBegun = (attempts: readonly Started[], lost: readonly JobKey[]): JobKey[] =>
  attempts.filter(({ key, hasTtl }) => hasTtl === true && !lost.includes(key)).map(({ key }) => key)

/** An attempt has begun, or the job has ended: from now on the job cannot expire. */
export function* forgetTtl(tx: Tx, keys: readonly JobKey[]): Script<void> {
  yield* tx.run`
    UPDATE job_specs SET ttl_until = NULL WHERE key ${tx.dialect.inNumbers(keys)} AND ttl_until IS NOT NULL`
}
