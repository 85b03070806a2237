import { RedressError } from '../../../core/errors.ts'
import type { NewJob, Submitted } from '../../contract/store.ts'
import type { How } from '../../scripts/tx/context.ts'
import type { Tx } from '../connection/client.ts'
import type { PgContext } from '../connection/context.ts'
import { GroupCommit } from '../connection/group-commit.ts'
import type { Submitting } from './submitting.ts'

const JOBS_PER_FLUSH = 1_000

/** Submits in a transaction, and throws when a backlog is full. */
export type SubmitWithin = (tx: Tx, jobs: readonly NewJob[], nowMs: number) => Promise<Submitted[]>

/** The submissions of this process. Those that arrive during a commit share the next one. */
export function openSubmissions(
  { write, once, givenNowMs, wakeWorkers }: PgContext,
  submitting: Submitting,
  submitWithin: SubmitWithin,
) {
  const submitPlain = async (jobs: readonly NewJob[]): Promise<Submitted[] | null> => {
    if (!submitting.arePlain(jobs)) return null
    return once('submitting', (sql) => submitting.submitPlain(sql, jobs, givenNowMs()), true, { isImpatient: true })
  }

  /** A submission may be repeated after an unknown commit: its ids find the jobs that exist already. */
  const submitAll = async (calls: readonly (readonly NewJob[])[]): Promise<Submitted[]> => {
    const jobs = calls.flat()
    const beganMonoMs = performance.now()
    const how: How = { mayRepeat: true }
    try {
      const submitted = await submitPlain(jobs)
      if (submitted !== null) return submitted
    } catch (error) {
      if (!isUnreachable(error)) throw error
      // The call may have tried several statements, each a transaction: an earlier one may have been committed.
      how.unknownSinceMonoMs = beganMonoMs
    }
    return write(
      'submitting',
      async (tx, nowMs, sinceMs) => {
        wakeWorkers(tx)
        const answers = await submitWithin(tx, jobs, nowMs)
        return sinceMs === null ? answers : ownAsNew(tx, jobs, answers, sinceMs)
      },
      undefined,
      how,
    )
  }

  const commit = async (calls: readonly (readonly NewJob[])[]): Promise<Submitted[][]> => {
    const submitted = await submitAll(calls)
    let begin = 0
    return calls.map(({ length }) => {
      begin += length
      return submitted.slice(begin - length, begin)
    })
  }

  const group = new GroupCommit(commit, { sizeOf: ({ length }: readonly NewJob[]) => length, sizeMax: JOBS_PER_FLUSH })

  return {
    submit: (jobs: readonly NewJob[]): Promise<Submitted[]> =>
      jobs.length === 0 ? Promise.resolve([]) : group.add(jobs),

    /** Finishes pending submissions before the store stops. */
    drain: () => group.drain(),
  }
}

const isUnreachable = (error: unknown): boolean => error instanceof RedressError && error.code === 'STORE_UNREACHABLE'

/** Jobs that an earlier try of this call submitted count as new for the caller. */
async function ownAsNew(
  tx: Tx,
  jobs: readonly NewJob[],
  answers: readonly Submitted[],
  sinceMs: number,
): Promise<Submitted[]> {
  const ids = answers.filter(({ id, isNew }, i) => !isNew && id === jobs[i]?.id).map(({ id }) => id)
  if (ids.length === 0) return [...answers]
  const rows = await tx<{ id: string }[]>`
    SELECT id FROM job_specs WHERE id = ANY (${ids}::text[]) AND created_at >= ${Math.floor(sinceMs)}::bigint`
  const own = new Set(rows.map(({ id }) => id))
  return answers.map((answer) => (own.has(answer.id) ? { ...answer, isNew: true } : answer))
}
