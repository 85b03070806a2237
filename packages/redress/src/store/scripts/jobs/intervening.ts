import { createHash } from 'node:crypto'
import { RedressError } from '../../../core/errors.ts'
import { failedEventData } from '../../../core/job/change.ts'
import type { Status } from '../../../core/job/states.ts'
import { triesOfTask, unpackSpent } from '../../../core/policy/budget.ts'
import { isoTime } from '../../../core/text/duration.ts'
import type { BatchKey, Intervention, JobKey, Store, WorkerKey } from '../../contract/store.ts'
import type { Batches } from '../batches.ts'
import { letterMarks } from '../letters/dead-letters.ts'
import type { ScriptContext, Tx } from '../tx/context.ts'
import type { Script } from '../tx/script.ts'
import { changeWaiting } from './changing.ts'
import { freePastKey, LOCK_JOB, limitKeyOf } from './submitting.ts'

type Act = Intervention['act']
type Answer = Awaited<ReturnType<Store['intervene']>>

/** A job in the columns that an operator's act depends on. */
interface JobNow {
  key: JobKey
  status: Status
  attempt: number
  worker: WorkerKey | null
  cancel_requested_at: number | null
  dedupe_key: string | null
  dedupe_held: number | null
  type: number
  spent: string | null
  batch: BatchKey | null
  permanent: number | null
  retried_as: string | null
  priority: number
  due_at: number | null
  payload: string
}

/** Where each act leads from; the state machine has no other edge for it. */
const FROM: Record<Act['kind'], readonly Status[]> = {
  'retry-in-place': ['failed'],
  'mark-failed': ['queued', 'processing'],
  cancel: ['queued'],
  'request-cancel': ['processing'],
  reschedule: ['queued'],
  promote: ['queued'],
  reprioritise: ['queued'],
  'replace-input': ['queued'],
}

const OPERATION_OF: Record<Act['kind'], string> = {
  'retry-in-place': 'jobs.retry',
  'mark-failed': 'jobs.mark-failed',
  cancel: 'jobs.cancel',
  'request-cancel': 'jobs.cancel',
  reschedule: 'jobs.reschedule',
  promote: 'jobs.promote',
  reprioritise: 'jobs.reprioritise',
  'replace-input': 'jobs.replace-input',
}

/** An operator's acts. Unlike those of a worker they have no lease; they are compared with what the operator saw. */
export function openIntervening(
  { history, types, write }: ScriptContext,
  batches: Pick<Batches, 'moved'>,
  /** On PostgreSQL, a submission may take the dedupe key after it was looked for; then nothing was done. */
  isKeyTaken: (error: unknown) => boolean = () => false,
): Pick<Store, 'intervene' | 'expire'> {
  const intervene = function* (tx: Tx, intervention: Intervention, nowMs: number): Script<Answer> {
    const { id, act, actor, reason } = intervention
    tx.wakeWorkers()
    // Both rows are locked, so that they stay as they were compared until the end of the transaction.
    const row = yield* tx.get<JobNow>`
      SELECT jobs.key, status, attempt, worker, cancel_requested_at, dedupe_key, dedupe_held, jobs.type, spent, retried_as,
        priority, due_at, payload,
        CASE WHEN left_batch IS NULL THEN batch END AS batch,
        (SELECT permanent FROM failures WHERE seq = jobs.failure) AS permanent
      FROM job_specs JOIN jobs ON jobs.key = job_specs.key WHERE job_specs.id = ${id}
      ${tx.dialect.choose(LOCK_JOB)}`
    if (row === undefined || !isAsSeen(row, intervention)) return 'moved-on'
    const { key, attempt, worker } = row
    const by = { actor, reason }
    let data: object | null = null
    if (row.status === 'processing') yield* history.recordClaims(tx, [key])
    const move = function* (to: Status, isPermanent: boolean): Script<void> {
      if (row.batch !== null) yield* batches.moved(tx, row.batch, row.status, to, isPermanent, nowMs)
    }

    switch (act.kind) {
      case 'retry-in-place': {
        if (row.dedupe_key !== null && row.dedupe_held === null) {
          yield* freePastKey(tx, row.type, row.dedupe_key, nowMs)
          const twin = yield* tx.get`
            SELECT 1 FROM job_specs WHERE type = ${row.type} AND dedupe_key = ${row.dedupe_key} AND dedupe_held IS NOT NULL`
          if (twin !== undefined) return 'dedupe-taken'
        }
        // The failure from which a new job was made is history now.
        yield* tx.run`
          UPDATE job_specs SET dedupe_held = CASE WHEN dedupe_key IS NOT NULL THEN 1 END, retried_as = NULL,
            ttl_until = NULL
          WHERE key = ${key}`
        yield* history.event(tx, key, nowMs, 'manual-retry', attempt, null, null, { ...by, spent: act.spent ?? '' })
        yield* tx.run`
          UPDATE jobs SET status = 'queued', ready = 1, due_at = NULL, counts_from = ${nowMs}, due_since = ${nowMs},
            claimed_at = NULL, started_at = NULL, finished_at = NULL, failure = NULL, ended_with = NULL, dead_letter = NULL,
            progress = NULL, cancel_requested_at = NULL, orphaned_at = NULL, spent = ${act.spent} WHERE key = ${key}`
        yield* letterMarks.replayed(tx, key, id, nowMs)
        yield* move('queued', row.permanent === 1)
        break
      }
      case 'mark-failed': {
        const { failure, spent, deadLetter, notices } = act
        const failed = { key, atMs: nowMs, attempt, worker, failure, from: row.status, to: 'failed' } as const
        const seq = yield* history.failure(tx, { ...failed, isPermanent: true })
        const letter = yield* letterMarks.add(tx, key, seq, triesOfTask(attempt, spent), deadLetter, nowMs)
        yield* history.event(tx, key, nowMs, 'failed', attempt, worker, null, {
          ...by,
          failure: seq,
          ...failedEventData(act),
          ...(letter ? { deadLetterOffset: letter } : {}),
        })
        yield* tx.run`
          UPDATE jobs SET status = 'failed', ready = NULL, due_at = NULL, worker = NULL, lease_until = NULL,
            finished_at = ${nowMs}, failure = ${seq}, ended_with = ${failure.code}, spent = ${spent},
            dead_letter = ${letter} WHERE key = ${key}`
        yield* freeLiveKey(tx, key)
        yield* move('failed', true)
        yield* history.notify(tx, notices, row.batch, nowMs)
        break
      }
      case 'cancel':
        yield* history.event(tx, key, nowMs, 'cancelled', attempt, null, null, by)
        yield* tx.run`
          UPDATE jobs SET status = 'cancelled', ended_with = '', ready = NULL, due_at = NULL, finished_at = ${nowMs}
          WHERE key = ${key}`
        yield* freeLiveKey(tx, key)
        yield* move('cancelled', false)
        break
      case 'request-cancel':
        // A second request changes nothing, but it is in the audit trail too.
        if (row.cancel_requested_at !== null) break
        yield* history.event(tx, key, nowMs, 'cancel-requested', attempt, worker, null, by)
        yield* tx.run`UPDATE jobs SET cancel_requested_at = ${nowMs} WHERE key = ${key}`
        break
      case 'reschedule': {
        const dueAtMs = 'atMs' in act.to ? act.to.atMs : nowMs + act.to.delayMs
        yield* changeWaiting(tx, row, { dueAtMs }, by, nowMs)
        data = { from: timeOf(row.due_at), to: timeOf(dueAtMs) }
        break
      }
      case 'promote':
        yield* changeWaiting(tx, row, { dueAtMs: null }, by, nowMs)
        data = { from: timeOf(row.due_at) }
        break
      case 'reprioritise':
        yield* changeWaiting(tx, row, { priority: act.priority }, by, nowMs)
        data = { from: row.priority, to: act.priority }
        break
      case 'replace-input': {
        const { payload, limitKey } = act
        const type = yield* types.byKey(tx, row.type)
        const keyed = limitKey === undefined ? {} : { limitKey: limitKeyOf({ limitKey }, type) }
        yield* changeWaiting(tx, row, { input: { payload, ...keyed } }, by, nowMs)
        data = { from: digestOf(row.payload), to: digestOf(payload) }
      }
    }
    yield* history.audit(tx, by, { atMs: nowMs, act: OPERATION_OF[act.kind], target: 'job', ids: [id], data })
    return 'done'
  }

  return {
    async intervene(intervention) {
      try {
        return await write('intervening', (tx, nowMs) => intervene(tx, intervention, nowMs))
      } catch (error) {
        if (isKeyTaken(error)) return 'dedupe-taken'
        throw error
      }
    },

    // The files of a job are kept for a time. Their removal is part of the job's history.
    expire: ({ id, reason }) =>
      write('noting what expired', function* (tx, nowMs) {
        // Locked: of two processes that remove the same file, one writes the event.
        const job = yield* tx.get<{ key: JobKey; status: Status; attempt: number }>`
          SELECT key, status, attempt FROM jobs
          WHERE key = (SELECT job_specs.key FROM job_specs WHERE id = ${id}) AND finished_at IS NOT NULL
          ${tx.dialect.forUpdate}`
        if (job === undefined) return false
        const { key, status, attempt } = job
        const events = yield* tx.all<{ data: string }>`SELECT data FROM events WHERE job = ${key} AND kind = 'expired'`
        if (events.some(({ data }) => JSON.parse(data).reason === reason)) return false
        yield* history.event(tx, key, nowMs, 'expired', attempt, null, null, { reason, status })
        yield* freeLiveKey(tx, key)
        return true
      }),
  }
}

/** A job that has ended without success (`FREES_LIVE_KEY`), or whose output is gone, does not hold a live dedupe key. */
export function* freeLiveKey(tx: Tx, key: JobKey): Script<void> {
  yield* tx.run`
    UPDATE job_specs SET dedupe_held = NULL WHERE key = ${key} AND dedupe_held IS NOT NULL AND dedupe_scope = 'live'`
}

const timeOf = (ms: number | null): string | null => (ms === null ? null : isoTime(ms))

/** The input that was replaced is in no other place. The trail can tell whether it was a given one, and does not show it. */
const digestOf = (payload: string): object => ({
  sha256: createHash('sha256').update(payload).digest('hex'),
  bytes: Buffer.byteLength(payload),
})

/** Whether the job is as the operator saw it. An act that is impossible in that state is an error of the caller. */
function isAsSeen(
  row: Pick<JobNow, 'status' | 'attempt' | 'spent' | 'retried_as'>,
  { id, expect, act }: Intervention,
): boolean {
  if (row.status !== expect.status || row.attempt !== expect.attempt) return false
  if (act.kind === 'retry-in-place' && row.retried_as !== (expect.retriedAs ?? null)) return false
  if ('spent' in act && !isDecidedOn(row, act)) return false
  if (act.kind === 'replace-input' && row.attempt > 0) {
    const message = `Job ${id} has run ${row.attempt} times with the input it has, and keeps it.`
    throw new RedressError('JOB_WRONG_STATE', message, { jobId: id })
  }
  if (!FROM[act.kind].includes(row.status)) {
    throw new RedressError('JOB_WRONG_STATE', `A ${row.status} job does not allow ${act.kind}.`, { jobId: id })
  }
  return true
}

/**
 * A job that one operator retried and another one marked failed again has the same status and attempt as before. Only the
 * count of manual retries tells whether the decision was made on the current job or on an old page.
 */
function isDecidedOn(row: { spent: string | null }, act: Extract<Act, { spent: string | null }>): boolean {
  const adds = act.kind === 'retry-in-place' ? 1 : 0
  return unpackSpent(act.spent).manualRetries === unpackSpent(row.spent).manualRetries + adds
}
