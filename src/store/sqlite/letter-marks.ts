import type { JobKey } from '../store.ts'
import type { Connection } from './connection.ts'

export type LetterMarks = ReturnType<typeof openLetterMarks>

/** What is written on a dead letter, or ends it, by whoever does it: a replay, a retry, a purge, or its retention. */
export function openLetterMarks(connection: Connection) {
  const mark = (job: string) =>
    connection.prepare(`UPDATE dead_letters SET replays = replays + 1, replayed_at = ?2, replayed_as = ?3
      WHERE job = ${job}`)
  const markById = mark('(SELECT key FROM job_specs WHERE id = ?1)')
  const markByKey = mark('?1')
  const unmarkJob = connection.prepare('UPDATE jobs SET dead_letter = NULL WHERE dead_letter = ?2 AND key = ?1')
  const remove = connection.prepare('DELETE FROM dead_letters WHERE "offset" = ?')

  return {
    /** A new job was made from the letters' job, or that job itself went back to the queue. */
    replayed(job: string | JobKey, as: string, nowMs: number): void {
      const statement = typeof job === 'string' ? markById : markByKey
      statement.run(job, nowMs, as)
    },

    /** The job stays as it is, and so does its history. */
    remove(job: JobKey, offset: number): void {
      unmarkJob.run(job, offset)
      remove.run(offset)
    },
  }
}
