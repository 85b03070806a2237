import type { JobKey } from '../store.ts'
import type { Tx } from './client.ts'

export type LetterMarks = ReturnType<typeof openLetterMarks>

/** What is written on a dead letter, or ends it, by whoever does it: a replay, a retry, a purge, or its retention. */
export function openLetterMarks() {
  return {
    /** A new job was made from the letters' job, or that job itself went back to the queue. */
    async replayed(tx: Tx, job: JobKey, as: string, nowMs: number): Promise<void> {
      await tx`
        UPDATE dead_letters SET replays = replays + 1, replayed_at = ${nowMs}, replayed_as = ${as} WHERE job = ${job}`
    },

    /** The job stays as it is, and so does its history. */
    async remove(tx: Tx, job: JobKey, offset: number): Promise<void> {
      await tx`UPDATE jobs SET dead_letter = NULL WHERE dead_letter = ${offset} AND key = ${job}`
      await tx`DELETE FROM dead_letters WHERE "offset" = ${offset}`
    },
  }
}
