import { RedressError } from '../../../core/errors.ts'
import { type Status, TERMINAL } from '../../../core/job/states.ts'
import { FOLD_PER_STEP } from '../../contract/failure-groups.ts'
import type { Deletion, JobKey, Store } from '../../contract/store.ts'
import { jobsWithUncounted } from '../failure-cursor.ts'
import { foldFailures, GROUPS_ALONE } from '../failure-groups.ts'
import { letterMarks } from '../letters/dead-letters.ts'
import type { ScriptContext, Tx } from '../tx/context.ts'
import type { Script } from '../tx/script.ts'
import { NONE, sql } from '../tx/sql.ts'
import { REMOVED_EVENTS, removeRows } from './pruning.ts'
import { LOCK_JOB } from './submitting.ts'

type Answer = Awaited<ReturnType<Store['deleteJob']>>

interface Row {
  key: JobKey
  status: Status
  attempt: number
  type: number
  owner: string | null
  retried_from: string | null
  batch_id: string | null
}

/** Deletion of one finished job by a person. Retention removes jobs by itself: see pruning.ts. */
export function openDeleting({ types, history, submit, write }: ScriptContext): Pick<Store, 'deleteJob'> {
  const deleteJob = function* (tx: Tx, deletion: Deletion, nowMs: number): Script<Answer> {
    const { id, actor, reason, expect, isForced, cleanup } = deletion
    // A failure is counted before it is removed. Counting must come before anything is written or locked.
    yield* foldFailures(tx, types, FOLD_PER_STEP, nowMs)
    const row = yield* tx.get<Row>`
      SELECT jobs.key, status, attempt, jobs.type, owner, retried_from,
        (SELECT batches.id FROM batches WHERE batches.key = job_specs.batch) AS batch_id
      FROM job_specs JOIN jobs ON jobs.key = job_specs.key WHERE job_specs.id = ${id}
      ${tx.dialect.choose(LOCK_JOB)}`
    if (row === undefined || row.status !== expect.status || row.attempt !== expect.attempt) return 'moved-on'
    const { key, status, attempt, owner, retried_from: retriedFrom, batch_id: batchId } = row
    if (!TERMINAL.has(status)) {
      throw new RedressError('JOB_WRONG_STATE', `A ${status} job cannot be deleted.`, { jobId: id })
    }
    const letters = yield* tx.all<{ job: JobKey; offset: number; replayed_at: number | null }>`
      SELECT job, "offset", replayed_at FROM dead_letters WHERE job = ${key} ${tx.dialect.forUpdate}`
    const openLetters = letters.filter(({ replayed_at }) => replayed_at === null).map(({ offset }) => offset)
    if (openLetters.length > 0 && !isForced) return 'letter-open'
    if ((yield* jobsWithUncounted(tx, [key])).has(key)) return 'uncounted'

    const { name: type, queue } = yield* types.byKey(tx, row.type)
    yield* letterMarks.remove(tx, letters)
    const about = { type, queue, owner, batchId, retriedFrom, status, attempt }
    // Written before the history is removed: on SQLite the newest event keeps its number, and must not be one of this job.
    yield* history.deletedEvent(tx, id, nowMs, { ...about, actor, reason })
    yield* eraseHistory(tx, key)
    yield* removeRows(tx, [key])
    if (cleanup !== null) yield* submit(tx, [cleanup], nowMs)
    const data = {
      type,
      status,
      owner,
      ...(batchId !== null && { batch: batchId }),
      ...(openLetters.length > 0 && { deadLetters: openLetters }),
      ...(cleanup !== null && { filesRemovedBy: cleanup.id }),
    }
    yield* history.audit(tx, { actor, reason }, { atMs: nowMs, act: 'jobs.delete', target: 'job', ids: [id], data })
    if (cleanup !== null) tx.wakeWorkers()
    return 'done'
  }

  return {
    deleteJob: (deletion) =>
      write('deleting a job', (tx, nowMs) => deleteJob(tx, deletion, nowMs), { alone: GROUPS_ALONE }),
  }
}

/**
 * Retention leaves the rows of PostgreSQL until their day is dropped. A person who deletes a job wants its data gone now. On
 * SQLite the newest failure must stay, because its number would be given again: its words are removed instead.
 */
function* eraseHistory(tx: Tx, key: JobKey): Script<void> {
  // On SQLite a trigger marks removed events.
  const mark = tx.dialect.choose({
    sqlite: null,
    postgres: sql`
      INSERT INTO cursors (name, position)
      SELECT ${REMOVED_EVENTS}, max(seq) FROM events WHERE job = ${key} HAVING max(seq) IS NOT NULL
      ON CONFLICT (name) DO UPDATE SET position = greatest(cursors.position, excluded.position)`,
  })
  if (mark !== null) yield* tx.run`${mark}`
  yield* tx.run`DELETE FROM events WHERE job = ${key}`
  const butNewest = tx.dialect.choose({ sqlite: sql`AND seq < (SELECT max(seq) FROM failures)`, postgres: NONE })
  yield* tx.run`DELETE FROM failures WHERE job = ${key} ${butNewest}`
  yield* tx.run`
    UPDATE failures SET message = '', waiting = '', detail = '', context = NULL, causes = NULL, decision = '{}'
    WHERE job = ${key}`
}
