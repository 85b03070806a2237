import { obstacleTo, type Skip } from '../../core/replay-obstacle.ts'
import {
  type DeadLetterStore,
  type LetterCounts,
  type LetterFilter,
  type LetterPage,
  madeAfter,
  type Replayed,
  type StoredDeadLetter,
} from '../dead-letters.ts'
import type { KnownType } from '../known-type.ts'
import { type Row, toFailure, toLetter } from '../rows.ts'
import type { JobKey, NewJob, Submitted } from '../store.ts'
import type { Fragment, Sql, Tx } from './client.ts'
import type { PgContext } from './context.ts'
import { letterCondition, lettersFor, pageOfLetters } from './letter-pages.ts'

type SubmitMany = (tx: Tx, jobs: readonly NewJob[], nowMs: number) => Promise<Submitted[]>

interface LetterRow {
  [column: string]: unknown
  type_key: number
  failure: Row
}

/** A letter that is to become a job, unless something stands in the way. */
export interface Replay {
  offset: number
  replaysSeen: number
  job: NewJob
}

export type Letters = ReturnType<typeof openLetters>

/** Dead letters inside a transaction: for the methods of the store, and for the replay of many. */
export function openLetters({ types }: PgContext, submitMany: SubmitMany) {
  const readLetters = async (sql: Sql, page: Fragment): Promise<StoredDeadLetter[]> => {
    const rows = await sql<LetterRow[]>`
      WITH page AS MATERIALIZED (${page})
      SELECT dead_letters."offset", dead_letters.attempts AS letter_attempts, dead_letters.at AS letter_at, replays,
        replayed_at, replayed_as, job_specs.retried_as, job_specs.payload, job_specs.dedupe_key, job_specs.type AS type_key,
        job_specs.owner AS letter_owner,
        (SELECT batches.id FROM batches WHERE batches.key = job_specs.batch) AS letter_batch, jobs.status, priority, limit_key, to_json(cause) AS failure,
        twins.id AS twin_id, twins.status AS twin_status
      FROM page JOIN dead_letters ON dead_letters."offset" = page."offset"
        JOIN job_specs ON job_specs.key = dead_letters.job JOIN jobs ON jobs.key = dead_letters.job
        CROSS JOIN LATERAL (
          SELECT failures.*, job_specs.id AS job_id, workers.id AS worker_id
          FROM failures LEFT JOIN workers ON workers.key = failures.worker
          WHERE failures.seq = dead_letters.failure) AS cause
        -- Another live job with the same key. One that keeps its own key for good is no twin of itself.
        LEFT JOIN LATERAL (
          SELECT twin.id, twin_jobs.status FROM job_specs AS twin JOIN jobs AS twin_jobs ON twin_jobs.key = twin.key
          WHERE twin.type = job_specs.type AND twin.dedupe_key = job_specs.dedupe_key AND twin.dedupe_held IS NOT NULL
            AND twin.key <> job_specs.key) AS twins ON true`
    return rows
      .map(({ failure, ...row }) =>
        toLetter(row as unknown as Row, types.knownByKey(row.type_key) as KnownType, toFailure(failure)),
      )
      .sort((a, b) => a.offset - b.offset)
  }

  const findMany = async (sql: Sql, offsets: readonly number[]): Promise<Map<number, StoredDeadLetter>> => {
    await types.refresh(sql)
    const found = await readLetters(sql, sql`SELECT unnest(${offsets as number[]}::bigint[]) AS "offset"`)
    return new Map(found.map((letter) => [letter.offset, letter]))
  }

  /** Whatever could stand in the way, or come to, waits until we are done: the letters and the jobs they are about. */
  const lock = async (tx: Tx, offsets: readonly number[]): Promise<void> => {
    const found = await tx<{ job: JobKey }[]>`
      SELECT DISTINCT job FROM dead_letters WHERE "offset" = ANY(${offsets as number[]}::bigint[])`
    const jobs = found.map(({ job }) => job).sort((a, b) => a - b)
    // In the order of the arrays: whoever locks several does it by ascending numbers.
    await tx`
      SELECT 1 FROM unnest(${jobs}::bigint[]) AS given (key) JOIN jobs ON jobs.key = given.key FOR UPDATE OF jobs`
    await tx`
      SELECT 1 FROM unnest(${offsets.toSorted((a, b) => a - b)}::bigint[]) AS given ("offset")
        JOIN dead_letters ON dead_letters."offset" = given."offset" FOR UPDATE OF dead_letters`
  }

  /** Replays of letters of different jobs: one of them changes nothing about another, except by a dedupe key. */
  const replayApart = async (
    tx: Tx,
    replays: readonly Replay[],
    isEdited: boolean,
    nowMs: number,
  ): Promise<Replayed[]> => {
    const facts = await findMany(
      tx,
      replays.map(({ offset }) => offset),
    )
    const answers = replays.map(({ offset, replaysSeen }): Replayed | null => {
      const skip = obstacleTo(facts.get(offset) ?? null, replaysSeen, isEdited)
      return skip === null ? null : { job: null, skip }
    })
    const submit = async (wanted: readonly number[], isKeyed: boolean): Promise<Submitted[]> => {
      const jobs = wanted.map((i) => {
        const { job, offset } = replays[i] as Replay
        // It was not skipped, so the letter exists.
        const letter = facts.get(offset) as StoredDeadLetter
        const key = isKeyed && !isEdited ? letter.dedupeKey : null
        return { ...madeAfter(letter, job), dedupe: key === null ? null : { key, scope: 'live' as const } }
      })
      return jobs.length === 0 ? [] : submitMany(tx, jobs, nowMs)
    }
    const open = replays.flatMap((_, i) => (answers[i] === null ? [i] : []))
    const submitted = await submit(open, true)
    const inTheWay: number[] = []
    for (const [place, i] of open.entries()) {
      const { id } = submitted[place] as Submitted
      // One with the same id is the job itself, made before an answer was lost.
      if (id === replays[i]?.job.id) answers[i] = { job: id, skip: null }
      else inTheWay.push(i)
    }
    // The failed job itself keeps its key for good (scope 'always'): the new one is its successor and needs none. Any
    // other holder of the key came after we looked.
    const isOwn = (i: number) => submitted[open.indexOf(i)]?.id === facts.get(replays[i]?.offset ?? 0)?.jobId
    const successors = inTheWay.filter(isOwn)
    for (const [place, { id }] of (await submit(successors, false)).entries()) {
      answers[successors[place] as number] = { job: id, skip: null }
    }
    for (const i of inTheWay) if (!isOwn(i)) answers[i] = { job: null, skip: twinOf(submitted[open.indexOf(i)]) }
    return answers as Replayed[]
  }

  return {
    findMany,

    async find(sql: Sql, offset: number): Promise<StoredDeadLetter | null> {
      return (await findMany(sql, [offset])).get(offset) ?? null
    },

    /**
     * The facts are read in the transaction that makes the jobs, and nobody else can change them meanwhile: of any number
     * who try at once, one succeeds.
     */
    async replayMany(tx: Tx, replays: readonly Replay[], isEdited: boolean, nowMs: number): Promise<Replayed[]> {
      await lock(
        tx,
        replays.map(({ offset }) => offset),
      )
      const answers: Replayed[] = []
      while (answers.length < replays.length) {
        // Up to the second letter of one job: the first one's replay counts for that, too.
        const rest = replays.slice(answers.length)
        const sources = rest.map(({ job }) => job.retriedFrom?.id)
        const end = sources.findIndex((id, i) => id !== undefined && sources.indexOf(id) < i)
        answers.push(...(await replayApart(tx, end === -1 ? rest : rest.slice(0, end), isEdited, nowMs)))
      }
      return answers
    },

    async list(sql: Sql, filter: LetterFilter, page: LetterPage): Promise<StoredDeadLetter[]> {
      await types.refresh(sql)
      const found = await readLetters(sql, pageOfLetters(sql, filter, typeKey(filter), page))
      return page.isNewestFirst ? found.reverse() : found
    },

    async count(sql: Sql, filter: LetterFilter): Promise<LetterCounts> {
      await types.refresh(sql)
      const rows = await sql<{ type: number; code: string; n: number; last: number }[]>`
        SELECT type, code, count(*) AS n, max(letter_traits."offset") AS last
        FROM ${lettersFor(sql, filter)} WHERE true ${letterCondition(sql, filter, typeKey(filter))} GROUP BY type, code`
      rows.sort((a, b) => b.n - a.n || (a.code < b.code ? -1 : 1))
      return {
        letters: rows.reduce((sum, { n }) => sum + n, 0),
        lastOffset: rows.reduce((most, { last }) => Math.max(most, last), 0),
        byCause: rows.map(({ type, code, n }) => ({
          type: (types.knownByKey(type) as KnownType).name,
          code,
          letters: n,
        })),
      }
    },

    /** Removes the next of them. Answers with those it removed, and the last one it looked at if there may be more. */
    async purge(
      tx: Tx,
      filter: LetterFilter,
      range: { afterOffset: number; upToOffset: number; limit: number },
    ): Promise<{ offsets: number[]; cursor: number | null }> {
      await types.refresh(tx)
      const found = await tx<{ offset: number }[]>`${pageOfLetters(tx, filter, typeKey(filter), range)}`
      const page = found.map(({ offset }) => offset)
      await lock(tx, page)
      // Compared again: somebody may have replayed one since it was found.
      const removed = await tx<{ offset: number; job: JobKey }[]>`
        DELETE FROM dead_letters USING letter_traits
        WHERE dead_letters."offset" = ANY(${page}::bigint[]) AND letter_traits."offset" = dead_letters."offset"
          ${letterCondition(tx, filter, typeKey(filter))}
        RETURNING dead_letters."offset", dead_letters.job`
      const offsets = removed.map(({ offset }) => offset).toSorted((a, b) => a - b)
      await tx`
        UPDATE jobs SET dead_letter = NULL
        WHERE key = ANY(${removed.map(({ job }) => job)}::bigint[]) AND dead_letter = ANY(${offsets}::bigint[])`
      return { offsets, cursor: page.length < range.limit ? null : (page.at(-1) ?? null) }
    },
  }

  /** -1 is nobody's. */
  function typeKey({ type }: LetterFilter): number | undefined {
    return type === undefined ? undefined : (types.known().find(({ name }) => name === type)?.key ?? -1)
  }
}

/** In the words of core, which has not seen this one yet. */
const twinOf = (twin: Submitted | undefined): Skip => {
  const facts = { status: 'failed', manualRetry: 'in-place', replays: 0, replayedAs: null } as const
  return obstacleTo({ ...facts, twin: twin ?? null }, 0, false) as Skip
}

export function openDeadLetters(context: PgContext, letters: Letters): DeadLetterStore {
  const { history, read, write, hintWork } = context
  return {
    deadLetters: ({ afterOffset, limit, isNewestFirst = false, ...filter }) =>
      read('reading dead letters', (sql) => letters.list(sql, filter, { afterOffset, limit, isNewestFirst })),
    deadLetter: ({ offset }) => read('reading a dead letter', (sql) => letters.find(sql, offset)),
    countDeadLetters: (filter) => read('counting dead letters', (sql) => letters.count(sql, filter)),

    replayDeadLetter: ({ offset, replaysSeen, isEdited, job }) =>
      write('replaying a dead letter', async (tx, nowMs) => {
        const [replayed] = await letters.replayMany(tx, [{ offset, replaysSeen, job }], isEdited, nowMs)
        hintWork(tx)
        return replayed as Replayed
      }),

    purgeDeadLetters: ({ actor, reason, filter, ...range }) =>
      write('purging dead letters', async (tx, atMs) => {
        const { offsets, cursor } = await letters.purge(tx, filter, range)
        if (offsets.length > 0) {
          const ids = offsets.map(String)
          const entry = { atMs, act: 'dead-letters.purge', target: 'dead-letter', ids, data: { filter } }
          await history.audit(tx, { actor, reason }, entry)
        }
        return { purged: offsets.length, cursor }
      }),
  }
}
