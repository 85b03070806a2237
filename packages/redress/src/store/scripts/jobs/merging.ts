import {
  dueAtMsOf,
  expiresAtMsOf,
  type KeyHolder,
  keyNeededAgainMs,
  keyNeededUntilMs,
  type Merge,
  mergedWith,
  nameOfKey,
} from '../../../core/job/merging.ts'
import type { Status } from '../../../core/job/states.ts'
import type { JobKey, NewJob, Store, Submitted } from '../../contract/store.ts'
import type { Batches } from '../batches.ts'
import { history } from '../history.ts'
import type { ScriptContext, Tx } from '../tx/context.ts'
import type { Script } from '../tx/script.ts'
import { sql } from '../tx/sql.ts'
import { changeWaiting, type WaitingJob } from './changing.ts'
import { auditOf, jobById, LOCK_JOB, limitKeyOf, openMakeJob } from './submitting.ts'
import type { KnownType } from './types.ts'

/** Submissions with the same key run one after the other. A transaction takes all of its keys in one call. */
export const mergeLocksOf = (jobs: readonly { job: NewJob; type: KnownType }[]): string[] =>
  jobs.flatMap(({ job: { merge, rejected }, type }) =>
    merge === undefined || rejected !== null ? [] : [lockOf(merge, type)],
  )

const lockOf = (merge: Merge, { key }: KnownType): string => `submit:${key} ${nameOfKey(merge)}`

/** The newest job of a key. */
interface Holder extends KeyHolder {
  /** null if retention or a person has removed it. */
  job: (WaitingJob & { id: string }) | null
  /** The id of the newest submission with the key. */
  submission: string
}

/** Submits one special job (`isSpecial`) inside the transaction of `tx`. */
export function openSubmitSpecial(batches: Pick<Batches, 'keyOf' | 'entered' | 'moved'>) {
  const make = openMakeJob(batches)

  /**
   * A job with a key becomes a new job, or is merged with the newest job of that key, whose row is locked. So a claim at
   * the same moment either gets the new input, or the job no longer waits and a new one is made.
   */
  const submitMerged = function* (tx: Tx, job: NewJob, merge: Merge, type: KnownType): Script<Submitted> {
    yield* tx.lock([lockOf(merge, type)])
    // Read under the lock: a submission that waited for another one is later than that one.
    const nowMs = yield* tx.now()
    const made = yield* jobById(tx, job.id)
    if (made !== undefined) return { id: made.id, isNew: false, status: made.status }
    const holder = yield* holderOf(tx, merge, type)
    const merged = mergedWith(merge, holder, nowMs)
    if (holder !== null && holder.job !== null) {
      const { id, key } = holder.job
      const found: Submitted = { id, isNew: false, status: holder.status }
      if (merged.kind === 'found') return found
      // The same submission again, because the outcome of its commit was unknown.
      const isAgain = holder.submission === job.id
      if (merged.kind === 'replace' && !isAgain) {
        yield* replaceInput(tx, holder.job, job, type, merged.dueAtMs, nowMs)
        yield* keepKey(tx, merge, job, type, { key, atMs: holder.atMs }, nowMs)
        const act = auditOf({ ...job, id }, nowMs)
        if (act !== null) yield* history.audit(tx, ...act)
      }
      if (merged.kind === 'replace' || isAgain) return { ...found, isReplaced: true }
    }
    const { dueAtMs, atMs } = merged.kind === 'new' ? merged : { dueAtMs: null, atMs: nowMs }
    const own = merge.kind === 'singleton' ? dueAtMsOf(job, nowMs) : dueAtMs
    const { submitted, key } = yield* make(tx, job, type, own, nowMs)
    if (key !== null) yield* keepKey(tx, merge, job, type, { key, atMs }, nowMs)
    return submitted
  }

  return function* (tx: Tx, job: NewJob, type: KnownType, nowMs: number): Script<Submitted> {
    // A refused submission is merged with nothing: a waiting job must not get its input.
    if (job.merge !== undefined && job.rejected === null) return yield* submitMerged(tx, job, job.merge, type)
    return (yield* make(tx, job, type, dueAtMsOf(job, nowMs), nowMs)).submitted
  }
}

function* holderOf(tx: Tx, merge: Merge, { key: type }: KnownType): Script<Holder | null> {
  const row = yield* tx.get<{ job: JobKey; at: number; submission: string }>`
    SELECT job, at, submission FROM submit_keys WHERE type = ${type} AND name = ${nameOfKey(merge)}`
  if (row === undefined) return null
  const { job: key, at: atMs, submission } = row
  const job = yield* tx.get<WaitingJob & { id: string; status: Status }>`
    SELECT job_specs.key, id, status, attempt, due_at FROM job_specs JOIN jobs ON jobs.key = job_specs.key WHERE job_specs.key = ${key}
    ${tx.dialect.choose(LOCK_JOB)}`
  if (job === undefined) return { atMs, submission, job: null, status: 'complete', attempt: 1 }
  return { atMs, submission, job, status: job.status, attempt: job.attempt }
}

function* keepKey(
  tx: Tx,
  merge: Merge,
  { id }: NewJob,
  type: KnownType,
  { key, atMs }: { key: JobKey; atMs: number },
  nowMs: number,
): Script<void> {
  yield* tx.run`
    INSERT INTO submit_keys (type, name, job, at, submission, needed_until)
    VALUES (${type.key}, ${nameOfKey(merge)}, ${key}, ${atMs}, ${id}, ${keyNeededUntilMs(merge, atMs, nowMs)})
    ON CONFLICT (type, name) DO UPDATE SET job = excluded.job, at = excluded.at, submission = excluded.submission,
      needed_until = excluded.needed_until`
}

/** Gives the waiting job of a key the input of a later submission, with the limit key, trace and time to live of that one. */
function* replaceInput(
  tx: Tx,
  waiting: WaitingJob,
  job: NewJob,
  type: KnownType,
  dueAtMs: number | null,
  nowMs: number,
): Script<void> {
  const input = { payload: job.payload, limitKey: limitKeyOf(job, type) }
  yield* changeWaiting(tx, waiting, { ...(dueAtMs !== null && { dueAtMs }), input }, job.by ?? null, nowMs)
  const ttlUntilMs = expiresAtMsOf(job, dueAtMs ?? waiting.due_at, nowMs)
  yield* tx.run`
    UPDATE job_specs SET trace = ${job.trace ?? null}, ttl_until = ${ttlUntilMs} WHERE key = ${waiting.key}`
}

/** Keys that no submission can meet any more are removed in steps. */
export function openMerging({ write }: ScriptContext): Pick<Store, 'forgetKeys'> {
  return {
    forgetKeys: ({ limit }) =>
      write('forgetting keys of submissions', function* (tx, nowMs) {
        const rows = yield* tx.all<{
          type: number
          name: string
          job: JobKey
          needed_until: number
          status: Status | null
        }>`
          SELECT submit_keys.type, name, job, needed_until, status
          FROM submit_keys LEFT JOIN jobs ON jobs.key = submit_keys.job
          WHERE needed_until <= ${nowMs} ORDER BY needed_until, submit_keys.type, name LIMIT ${limit}`
        for (const { type, name, needed_until, status } of rows) {
          const nextMs = keyNeededAgainMs(name, status, nowMs)
          // A submission may have used the key since it was read.
          const same = sql`type = ${type} AND name = ${name} AND needed_until = ${needed_until}`
          if (nextMs === null) yield* tx.run`DELETE FROM submit_keys WHERE ${same}`
          else yield* tx.run`UPDATE submit_keys SET needed_until = ${nextMs} WHERE ${same}`
        }
        return rows.length
      }),
  }
}
