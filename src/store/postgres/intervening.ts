import { triesOfTask } from '../../core/budget.ts'
import { RedressError } from '../../core/errors.ts'
import type { Status } from '../../core/states.ts'
import { OPERATION_OF, type StandingRow, standsAsSeen } from '../intervention.ts'
import type { Intervention } from '../store.ts'
import type { Batches } from './batches.ts'
import type { Tx } from './client.ts'
import type { Closing } from './closing.ts'
import type { PgContext } from './context.ts'
import type { LetterMarks } from './letter-marks.ts'

type Answer = 'done' | 'moved-on' | 'dedupe-taken'

/** A person's acts. Unlike a worker's they have no lease; they are compared with what that person saw. */
export function openIntervening(
  { history, write, hintWork }: PgContext,
  closing: Closing,
  batches: Batches,
  letters: LetterMarks,
) {
  /** Both rows are locked: what is compared stays so until the end of the transaction. */
  const find = async (tx: Tx, id: string): Promise<StandingRow | undefined> => {
    const [row] = await tx<StandingRow[]>`
      SELECT jobs.key, status, attempt, worker, cancel_requested_at, dedupe_key, dedupe_held, jobs.type, spent, retried_as,
        CASE WHEN left_batch IS NULL THEN batch END AS batch,
        (SELECT permanent FROM failures WHERE seq = jobs.failure) AS permanent
      FROM job_specs JOIN jobs ON jobs.key = job_specs.key WHERE job_specs.id = ${id}
      FOR UPDATE OF jobs, job_specs`
    return row
  }

  const isKeyTaken = async (tx: Tx, { type, dedupe_key }: StandingRow): Promise<boolean> => {
    const rows = await tx`
      SELECT 1 FROM job_specs WHERE type = ${type} AND dedupe_key = ${dedupe_key} AND dedupe_held IS NOT NULL`
    return rows.length > 0
  }

  const act = async (tx: Tx, intervention: Intervention, nowMs: number): Promise<Answer> => {
    const { id, act, actor, reason } = intervention
    const row = await find(tx, id)
    if (row === undefined || !standsAsSeen(row, intervention)) return 'moved-on'
    const { key, attempt, worker } = row
    const by = { actor, reason }
    const move = async (to: Status, isPermanent: boolean): Promise<void> => {
      if (row.batch !== null) await batches.moved(tx, row.batch, row.status, to, isPermanent, nowMs)
    }

    switch (act.kind) {
      case 'retry-in-place': {
        const needsKey = row.dedupe_key !== null && row.dedupe_held === null
        if (needsKey && (await isKeyTaken(tx, row))) return 'dedupe-taken'
        await tx`UPDATE job_specs SET dedupe_held = 1 WHERE key = ${key} AND dedupe_key IS NOT NULL`
        // The failure that a new job was made from is history now.
        await tx`UPDATE job_specs SET retried_as = NULL WHERE key = ${key} AND retried_as IS NOT NULL`
        await history.event(tx, key, nowMs, 'manual-retry', attempt, null, null, { ...by, spent: act.spent ?? '' })
        await tx`
          UPDATE jobs SET status = 'queued', ready = 1, due_at = NULL, counts_from = ${nowMs}, due_since = ${nowMs},
            claimed_at = NULL, started_at = NULL, finished_at = NULL, failure = NULL, ended_with = NULL, dead_letter = NULL,
            progress = NULL, cancel_requested_at = NULL, orphaned_at = NULL, spent = ${act.spent} WHERE key = ${key}`
        await letters.replayed(tx, key, id, nowMs)
        await move('queued', row.permanent === 1)
        break
      }
      case 'mark-failed': {
        const failed = { key, atMs: nowMs, attempt, worker, failure: act.failure, from: row.status }
        const failure = await history.failure(tx, { ...failed, to: 'failed', isPermanent: true })
        const letter = await closing.setAside(tx, key, failure, triesOfTask(attempt, act.spent), act.deadLetter, nowMs)
        await history.event(tx, key, nowMs, 'failed', attempt, worker, null, {
          ...by,
          failure,
          code: act.failure.code,
          spent: act.spent ?? '',
          ...(letter ? { deadLetterOffset: letter } : {}),
        })
        await tx`
          UPDATE jobs SET status = 'failed', ready = NULL, due_at = NULL, worker = NULL, lease_until = NULL,
            finished_at = ${nowMs}, failure = ${failure}, ended_with = ${act.failure.code}, spent = ${act.spent},
            dead_letter = ${letter} WHERE key = ${key}`
        await closing.freeDedupeKey(tx, key)
        await move('failed', true)
        await history.tell(tx, act.notices, row.batch, nowMs)
        break
      }
      case 'cancel':
        await history.event(tx, key, nowMs, 'cancelled', attempt, null, null, by)
        await tx`
          UPDATE jobs SET status = 'cancelled', ended_with = '', ready = NULL, due_at = NULL, finished_at = ${nowMs}
          WHERE key = ${key}`
        await closing.freeDedupeKey(tx, key)
        await move('cancelled', false)
        break
      case 'request-cancel':
        // Asking twice is asking once; but that it was asked is in the audit trail each time.
        if (row.cancel_requested_at !== null) break
        await history.event(tx, key, nowMs, 'cancel-requested', attempt, worker, null, by)
        await tx`UPDATE jobs SET cancel_requested_at = ${nowMs} WHERE key = ${key}`
    }
    await history.audit(tx, by, { atMs: nowMs, act: OPERATION_OF[act.kind], target: 'job', ids: [id] })
    return 'done'
  }

  return {
    async intervene(intervention: Intervention): Promise<Answer> {
      try {
        return await write('intervening', (tx, nowMs) => {
          hintWork(tx)
          return act(tx, intervention, nowMs)
        })
      } catch (error) {
        // Somebody submitted a job with the key after we looked; nothing was done.
        if (isTakenKey(error)) return 'dedupe-taken'
        throw error
      }
    },
  }
}

function isTakenKey(error: unknown): boolean {
  const cause =
    error instanceof RedressError ? (error.cause as { code?: unknown; constraint_name?: unknown } | null) : null
  return cause?.code === '23505' && cause.constraint_name === 'one_job_per_dedupe_key'
}
