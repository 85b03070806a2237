import { obstacleTo } from '../../core/replay-obstacle.ts'
import {
  type DeadLetterStore,
  type LetterCounts,
  type LetterFilter,
  type LetterPage,
  madeAfter,
  type Replayed,
  type StoredDeadLetter,
} from '../dead-letters.ts'
import { type Row, toFailure, toLetter } from '../rows.ts'
import type { JobKey, NewJob, Submitted } from '../store.ts'
import type { Connection } from './connection.ts'
import type { SqliteContext } from './context.ts'
import type { LetterMarks } from './letter-marks.ts'

type Submit = (job: NewJob, nowMs: number) => Submitted

const TABLES = `dead_letters JOIN failures ON failures.seq = dead_letters.failure
  JOIN job_specs ON job_specs.key = dead_letters.job JOIN jobs ON jobs.key = dead_letters.job`
/** Another live job with the same key. One that keeps its own key for good is no twin of itself. */
const TWIN = `SELECT twin.key FROM job_specs AS twin
  WHERE twin.type = job_specs.type AND twin.dedupe_key = job_specs.dedupe_key AND twin.dedupe_held IS NOT NULL
    AND twin.key <> job_specs.key`
const COLUMNS = `dead_letters."offset", dead_letters.attempts AS letter_attempts, dead_letters.at AS letter_at,
  replays, replayed_at, replayed_as, job_specs.retried_as, job_specs.payload, job_specs.dedupe_key, job_specs.type AS type_key, job_specs.owner AS letter_owner,
  (SELECT id FROM batches WHERE batches.key = job_specs.batch) AS letter_batch,
  jobs.status, priority, limit_key, failures.*, job_specs.id AS job_id, workers.id AS worker_id,
  twins.id AS twin_id, (SELECT status FROM jobs WHERE key = twins.key) AS twin_status`

const LETTERS_PER_STEP = 2_000
const stepEndSql = (beyond: string, order: string): string => `
  SELECT "offset" FROM dead_letters WHERE "offset" ${beyond} ? ORDER BY "offset" ${order}
  LIMIT 1 OFFSET ${LETTERS_PER_STEP - 1}`

interface CountedCause {
  type: number
  code: string
  n: number
  last: number
}

export type Letters = ReturnType<typeof openLetters>

/** Dead letters inside a transaction: for the methods of the store, and for the replay of many. */
export function openLetters({ connection, types }: SqliteContext, marks: LetterMarks, submit: Submit) {
  const one = connection.prepare(`
    SELECT ${COLUMNS} FROM ${TABLES} LEFT JOIN workers ON workers.key = failures.worker
      LEFT JOIN job_specs AS twins ON twins.key = (${TWIN})
    WHERE dead_letters."offset" = ?`)

  const read = (row: Row): StoredDeadLetter => toLetter(row, types.byKey(row.type_key as number), toFailure(row))

  const find = (offset: number): StoredDeadLetter | null => {
    const row = one.get(offset) as Row | undefined
    return row === undefined ? null : read(row)
  }

  return {
    find,

    /** The facts are read in the transaction that makes the job: of any number who try at once, one succeeds. */
    replay(offset: number, replaysSeen: number, isEdited: boolean, job: NewJob, nowMs: number): Replayed {
      types.refresh()
      const letter = find(offset)
      const skip = obstacleTo(letter, replaysSeen, isEdited)
      if (skip !== null || letter === null) return { job: null, skip: skip as NonNullable<typeof skip> }
      const key = isEdited ? null : letter.dedupeKey
      const made = madeAfter(letter, job)
      const submitted = submit({ ...made, dedupe: key === null ? null : { key, scope: 'live' } }, nowMs)
      if (submitted.isNew) return { job: submitted.id, skip: null }
      // The failed job itself keeps its key for good (scope 'always'): the new one is its successor and needs none.
      return { job: submit({ ...made, dedupe: null }, nowMs).id, skip: null }
    },

    *list(
      on: Connection,
      filter: LetterFilter,
      { afterOffset, limit, isNewestFirst = false }: LetterPage,
    ): Generator<undefined, StoredDeadLetter[]> {
      types.refresh()
      const { where, values } = condition(filter)
      const [beyond, upTo, order] = isNewestFirst ? ['<', '>=', 'DESC'] : ['>', '<=', 'ASC']
      const stepEnd = on.prepare(stepEndSql(beyond, order))
      const page = on.prepare(`
        SELECT ${COLUMNS} FROM ${TABLES} LEFT JOIN workers ON workers.key = failures.worker
          LEFT JOIN job_specs AS twins ON twins.key = (${TWIN})
        WHERE dead_letters."offset" ${beyond} ? AND dead_letters."offset" ${upTo} ? AND ${where}
        ORDER BY dead_letters."offset" ${order} LIMIT ?`)
      const found: StoredDeadLetter[] = []
      for (let from = isNewestFirst && afterOffset === 0 ? Number.MAX_SAFE_INTEGER : afterOffset; ; ) {
        const end = (stepEnd.get(from) as { offset: number } | undefined)?.offset
        const to = end ?? (isNewestFirst ? 0 : Number.MAX_SAFE_INTEGER)
        found.push(...(page.all(from, to, ...values, limit - found.length) as Row[]).map(read))
        if (end === undefined || found.length >= limit) return found
        from = end
        yield
      }
    },

    *count(on: Connection, filter: LetterFilter): Generator<undefined, LetterCounts> {
      const { where, values } = condition(filter)
      const stepEnd = on.prepare(stepEndSql('>', 'ASC'))
      const counted = on.prepare(`
        SELECT job_specs.type, code, count(*) AS n, max(dead_letters."offset") AS last FROM ${TABLES}
        WHERE dead_letters."offset" > ? AND dead_letters."offset" <= ? AND ${where} GROUP BY job_specs.type, code`)
      const causes = new Map<string, { type: string; code: string; letters: number }>()
      let [letters, lastOffset] = [0, 0]
      for (let from = 0; ; ) {
        const end = (stepEnd.get(from) as { offset: number } | undefined)?.offset
        const rows = counted.all(from, end ?? Number.MAX_SAFE_INTEGER, ...values) as unknown as CountedCause[]
        for (const { type, code, n, last } of rows) {
          const cause = causes.get(`${type} ${code}`) ?? { type: types.byKey(type).name, code, letters: 0 }
          causes.set(`${type} ${code}`, { ...cause, letters: cause.letters + n })
          letters += n
          lastOffset = Math.max(lastOffset, last)
        }
        if (end === undefined) break
        from = end
        yield
      }
      const byCause = [...causes.values()].sort((a, b) => b.letters - a.letters || (a.code < b.code ? -1 : 1))
      return { letters, lastOffset, byCause }
    },

    /** Removes the next of them and answers with their offsets. */
    purge(filter: LetterFilter, afterOffset: number, upToOffset: number, limit: number): number[] {
      const { where, values } = condition(filter)
      const sql = `SELECT dead_letters."offset", dead_letters.job FROM ${TABLES}
        WHERE dead_letters."offset" > ? AND dead_letters."offset" <= ? AND ${where}
        ORDER BY dead_letters."offset" LIMIT ?`
      const found = connection.prepare(sql).all(afterOffset, upToOffset, ...values, limit) as {
        offset: number
        job: JobKey
      }[]
      for (const { job, offset } of found) marks.remove(job, offset)
      return found.map(({ offset }) => offset)
    },
  }

  function condition(filter: LetterFilter): { where: string; values: (string | number)[] } {
    const where: string[] = ['1']
    const values: (string | number)[] = []
    const and = (sql: string, value: string | number | undefined) => {
      if (value === undefined) return
      where.push(sql)
      values.push(value)
    }
    and('dead_letters."offset" = ?', filter.offset)
    and('job_specs.type = ?', filter.type === undefined ? undefined : (types.byName(filter.type)?.key ?? -1))
    and('code = ?', filter.code)
    and('job_specs.owner = ?', filter.owner)
    and('fingerprint = ?', filter.fingerprint)
    and('dead_letters.at >= ?', filter.sinceMs)
    and('dead_letters.at < ?', filter.untilMs)
    if (filter.isReplayed !== undefined) where.push(filter.isReplayed ? 'replays > 0' : 'replays = 0')
    return { where: where.join(' AND '), values }
  }
}

export function openDeadLetters(context: SqliteContext, letters: Letters): DeadLetterStore {
  const { history, nowMs, read, readInSteps, write, hintWork } = context
  return {
    deadLetters: ({ afterOffset, limit, isNewestFirst = false, ...filter }) =>
      readInSteps('reading dead letters', (on) => letters.list(on, filter, { afterOffset, limit, isNewestFirst })),
    deadLetter: ({ offset }) => read('reading a dead letter', () => letters.find(offset)),
    countDeadLetters: (filter) => readInSteps('counting dead letters', (on) => letters.count(on, filter)),

    replayDeadLetter: ({ offset, replaysSeen, isEdited, job }) =>
      write('replaying a dead letter', () => {
        hintWork()
        return letters.replay(offset, replaysSeen, isEdited, job, nowMs())
      }),

    purgeDeadLetters: ({ actor, reason, filter, afterOffset, upToOffset, limit }) =>
      write('purging dead letters', () => {
        const offsets = letters.purge(filter, afterOffset, upToOffset, limit)
        if (offsets.length > 0) {
          const ids = offsets.map(String)
          history.audit(
            { actor, reason },
            { atMs: nowMs(), act: 'dead-letters.purge', target: 'dead-letter', ids, data: { filter } },
          )
        }
        return { purged: offsets.length, cursor: offsets.length < limit ? null : (offsets.at(-1) ?? null) }
      }),
  }
}
