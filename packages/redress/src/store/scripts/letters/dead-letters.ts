import { obstacleTo, type Skip } from '../../../core/dead-letter/replay.ts'
import type { DeadLetter } from '../../../core/job/change.ts'
import { successorDedupe, successorOutcome } from '../../../core/job/dedupe.ts'
import {
  type DeadLetterStore,
  type LetterFilter,
  madeAfter,
  type Replayed,
  type StoredDeadLetter,
} from '../../contract/dead-letters.ts'
import type { JobKey, NewJob, Submitted } from '../../contract/store.ts'
import { type Row, toFailure, toLetter } from '../jobs/rows.ts'
import type { ScriptContext, Tx } from '../tx/context.ts'
import type { Script } from '../tx/script.ts'
import { type Sql, sql } from '../tx/sql.ts'
import {
  countLetters,
  type LetterRange,
  matchingLetters,
  offsetsOfPage,
  pageOfLetters,
  pageOfOffsets,
} from './letter-pages.ts'

/** What a replay, a retry, a purge or the retention writes on a letter. */
export const letterMarks = {
  /** The value of `jobs.dead_letter`: the offset of a new letter, 0 for a flag, or null. */
  *add(
    tx: Tx,
    job: JobKey,
    failure: number,
    attempts: number,
    deadLetter: DeadLetter,
    nowMs: number,
  ): Script<number | null> {
    if (deadLetter !== 'queue') return deadLetter === 'flag' ? 0 : null
    const letter = yield* tx.get<{ offset: number }>`
      INSERT INTO dead_letters (job, failure, attempts, at) VALUES (${job}, ${failure}, ${attempts}, ${nowMs})
      RETURNING "offset"`
    return (letter as { offset: number }).offset
  },

  /** A new job was made from the letters' job, or that job itself went back to the queue. */
  *replayed(tx: Tx, job: string | JobKey, as: string, nowMs: number): Script<void> {
    const key = typeof job === 'string' ? sql`(SELECT key FROM job_specs WHERE id = ${job})` : sql`${job}`
    yield* tx.run`
      UPDATE dead_letters SET replays = replays + 1, replayed_at = ${nowMs}, replayed_as = ${as} WHERE job = ${key}`
  },

  /** The jobs and their history stay. */
  *remove(tx: Tx, letters: readonly { job: JobKey; offset: number }[]): Script<void> {
    if (letters.length === 0) return
    const { inNumbers } = tx.dialect
    const offsets = letters.map(({ offset }) => offset)
    yield* tx.run`
      UPDATE jobs SET dead_letter = NULL
      WHERE key ${inNumbers(letters.map(({ job }) => job))} AND dead_letter ${inNumbers(offsets)}`
    yield* tx.run`DELETE FROM dead_letters WHERE "offset" ${inNumbers(offsets)}`
  },
} as const

/** A letter that will become a job, unless there is an obstacle. */
export interface Replay {
  offset: number
  replaysSeen: number
  job: NewJob
}

export type Letters = ReturnType<typeof openLetters>

/** Dead letters inside a transaction: for the methods of the store, and for the replay of many. */
export function openLetters({ types, submit }: Pick<ScriptContext, 'types' | 'submit'>) {
  /** The letters of a page, which is a statement that gives their offsets: read with it, they are of one moment. */
  const readLetters = function* (tx: Tx, page: Sql): Script<StoredDeadLetter[]> {
    // Another live job with the same key. A job that keeps its key for ever is no twin of itself.
    const ofTwin = sql`twin.type = job_specs.type AND twin.dedupe_key = job_specs.dedupe_key
      AND twin.dedupe_held IS NOT NULL AND twin.key <> job_specs.key`
    const rows = yield* tx.all<Row>`
      WITH page AS MATERIALIZED (${page})
      SELECT dead_letters."offset", dead_letters.attempts AS letter_attempts, dead_letters.at AS letter_at, replays,
        replayed_at, replayed_as, job_specs.id AS job_id, job_specs.retried_as, job_specs.payload, job_specs.dedupe_key,
        job_specs.type AS type_key, job_specs.owner AS letter_owner,
        (SELECT id FROM batches WHERE batches.key = job_specs.batch) AS letter_batch, jobs.status, priority, limit_key,
        (SELECT twin.id FROM job_specs AS twin WHERE ${ofTwin}) AS twin_id,
        (SELECT twins.status FROM job_specs AS twin JOIN jobs AS twins ON twins.key = twin.key WHERE ${ofTwin})
          AS twin_status,
        failures.*, workers.id AS worker_id
      FROM page JOIN dead_letters ON dead_letters."offset" = page."offset"
        JOIN job_specs ON job_specs.key = dead_letters.job JOIN jobs ON jobs.key = dead_letters.job
        JOIN failures ON failures.seq = dead_letters.failure LEFT JOIN workers ON workers.key = failures.worker`
    const found: StoredDeadLetter[] = []
    for (const row of rows) {
      const type = yield* types.byKey(tx, row.type_key as number)
      found.push(toLetter(row, type, toFailure(row)))
    }
    return found.sort((a, b) => a.offset - b.offset)
  }

  const findMany = function* (tx: Tx, offsets: readonly number[]): Script<Map<number, StoredDeadLetter>> {
    yield* types.refresh(tx)
    const found = yield* readLetters(tx, pageOfOffsets(tx, offsets))
    return new Map(found.map((letter) => [letter.offset, letter]))
  }

  /** The letters and their jobs: nothing about them changes until the end of the transaction. */
  const lock = function* (tx: Tx, offsets: readonly number[]): Script<void> {
    const found = yield* tx.all<{ job: JobKey }>`
      SELECT DISTINCT job FROM dead_letters WHERE "offset" ${tx.dialect.inNumbers(offsets)}`
    const jobs = found.map(({ job }) => job)
    yield* tx.lockRows('jobs', 'key', jobs)
    yield* tx.lockRows('dead_letters', 'offset', offsets)
  }

  /** Replays of letters of different jobs: one changes nothing about another, except by a dedupe key. */
  const replayApart = function* (
    tx: Tx,
    replays: readonly Replay[],
    isEdited: boolean,
    nowMs: number,
  ): Script<Replayed[]> {
    const offsets = replays.map(({ offset }) => offset)
    const facts = yield* findMany(tx, offsets)
    const answers = replays.map(({ offset, replaysSeen }): Replayed | null => {
      const skip = obstacleTo(facts.get(offset) ?? null, replaysSeen, isEdited)
      return skip === null ? null : { job: null, skip }
    })
    const submitSome = function* (wanted: readonly number[], isKeyed: boolean): Script<Submitted[]> {
      const jobs = wanted.map((i) => {
        const { job, offset } = replays[i] as Replay
        // It was not skipped, so the letter exists.
        const letter = facts.get(offset) as StoredDeadLetter
        return { ...madeAfter(letter, job), dedupe: isKeyed ? successorDedupe(letter.dedupeKey, isEdited) : null }
      })
      return jobs.length === 0 ? [] : yield* submit(tx, jobs, nowMs)
    }
    const open = replays.flatMap((_, i) => (answers[i] === null ? [i] : []))
    const submitted = yield* submitSome(open, true)
    const keyless: number[] = []
    for (const [place, i] of open.entries()) {
      const { job, offset } = replays[i] as Replay
      const holder = submitted[place] as Submitted
      const outcome = successorOutcome(holder.id, job.id, (facts.get(offset) as StoredDeadLetter).jobId)
      if (outcome === 'made') answers[i] = { job: job.id, skip: null }
      else if (outcome === 'keyless') keyless.push(i)
      // It came after the facts were read.
      else answers[i] = { job: null, skip: twinOf(holder) }
    }
    const made = yield* submitSome(keyless, false)
    for (const [place, { id }] of made.entries()) answers[keyless[place] as number] = { job: id, skip: null }
    return answers as Replayed[]
  }

  /** -1 is the key of no type. */
  const typeKey = ({ type }: LetterFilter): number | undefined =>
    type === undefined ? undefined : (types.known().find(({ name }) => name === type)?.key ?? -1)

  return {
    findMany,

    /** The facts are read in the transaction that makes the jobs: of any number of callers at once, one succeeds. */
    *replayMany(tx: Tx, replays: readonly Replay[], isEdited: boolean, nowMs: number): Script<Replayed[]> {
      const offsets = replays.map(({ offset }) => offset)
      yield* lock(tx, offsets)
      const answers: Replayed[] = []
      while (answers.length < replays.length) {
        // Up to the second letter of one job: the first one's replay counts for that letter, too.
        const rest = replays.slice(answers.length)
        const sources = rest.map(({ job }) => job.retriedFrom?.id)
        const end = sources.findIndex((id, i) => id !== undefined && sources.indexOf(id) < i)
        answers.push(...(yield* replayApart(tx, end === -1 ? rest : rest.slice(0, end), isEdited, nowMs)))
      }
      return answers
    },

    *list(tx: Tx, filter: LetterFilter, range: LetterRange): Script<StoredDeadLetter[]> {
      yield* types.refresh(tx)
      const found = yield* readLetters(tx, yield* pageOfLetters(tx, filter, typeKey(filter), range))
      return range.isNewestFirst ? found.reverse() : found
    },

    *count(tx: Tx, filter: LetterFilter) {
      yield* types.refresh(tx)
      const rows = yield* countLetters(tx, filter, typeKey(filter))
      const byCause: { type: string; code: string; letters: number }[] = []
      for (const { type, code, n } of rows) {
        const { name } = yield* types.byKey(tx, type)
        byCause.push({ type: name, code, letters: n })
      }
      return {
        letters: rows.reduce((sum, { n }) => sum + n, 0),
        lastOffset: rows.reduce((most, { last }) => Math.max(most, last), 0),
        byCause: byCause.sort((a, b) => b.letters - a.letters || (a.code < b.code ? -1 : 1)),
      }
    },

    /** Removes the next ones. Answers with the removed offsets, and the last one looked at if there may be more. */
    *purge(
      tx: Tx,
      filter: LetterFilter,
      range: { afterOffset: number; upToOffset: number; limit: number },
    ): Script<{ offsets: number[]; cursor: number | null }> {
      yield* types.refresh(tx)
      const page = yield* offsetsOfPage(tx, filter, typeKey(filter), range)
      yield* lock(tx, page)
      // Compared again under the lock: a person may have replayed one since it was found.
      const letters = yield* matchingLetters(tx, page, filter, typeKey(filter))
      yield* letterMarks.remove(tx, letters)
      const cursor = page.length < range.limit ? null : (page.at(-1) ?? null)
      return { offsets: letters.map(({ offset }) => offset), cursor }
    },
  }
}

/** In the words of core, which has not seen this twin yet. */
const twinOf = (twin: Submitted): Skip => {
  const facts = { status: 'failed', manualRetry: 'in-place', replays: 0, replayedAs: null } as const
  return obstacleTo({ ...facts, twin }, 0, false) as Skip
}

export function openDeadLetters({ history, read, write }: ScriptContext, letters: Letters): DeadLetterStore {
  return {
    deadLetters: ({ afterOffset, limit, isNewestFirst = false, ...filter }) =>
      read('reading dead letters', (tx) => letters.list(tx, filter, { afterOffset, limit, isNewestFirst }), {
        isLong: true,
      }),

    deadLetter: ({ offset }) =>
      read('reading a dead letter', function* (tx) {
        const found = yield* letters.findMany(tx, [offset])
        return found.get(offset) ?? null
      }),

    countDeadLetters: (filter) => read('counting dead letters', (tx) => letters.count(tx, filter), { isLong: true }),

    replayDeadLetter: ({ offset, replaysSeen, isEdited, job }) =>
      write('replaying a dead letter', function* (tx, nowMs) {
        const [replayed] = yield* letters.replayMany(tx, [{ offset, replaysSeen, job }], isEdited, nowMs)
        tx.wakeWorkers()
        return replayed as Replayed
      }),

    purgeDeadLetters: ({ actor, reason, filter, ...range }) =>
      write('purging dead letters', function* (tx, atMs) {
        const { offsets, cursor } = yield* letters.purge(tx, filter, range)
        if (offsets.length > 0) {
          const ids = offsets.map(String)
          const entry = { atMs, act: 'dead-letters.purge', target: 'dead-letter', ids, data: { filter } }
          yield* history.audit(tx, { actor, reason }, entry)
        }
        return { purged: offsets.length, cursor }
      }),
  }
}
