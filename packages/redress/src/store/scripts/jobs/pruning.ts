import type { Status } from '../../../core/job/states.ts'
import { DAY_MS } from '../../../core/text/duration.ts'
import { FOLD_PER_STEP } from '../../contract/failure-groups.ts'
import type { BatchKey, JobKey, Pruned, PruneRule, Store } from '../../contract/store.ts'
import { jobsWithUncounted } from '../failure-cursor.ts'
import { foldFailures, GROUPS_ALONE } from '../failure-groups.ts'
import { letterMarks } from '../letters/dead-letters.ts'
import { meters } from '../limits/meters.ts'
import type { ScriptContext, Tx } from '../tx/context.ts'
import type { Script } from '../tx/script.ts'
import { NONE, sql } from '../tx/sql.ts'
import { fillLimitKeys } from './types.ts'

/** Under this name `cursors` has the highest number of a removed event: a reader that stopped before it missed something. */
export const REMOVED_EVENTS = 'removed_events'

/** The columns of a job that decide whether its time is over. */
interface Finished {
  status: Status
  finished_at: number | null
}

function isOver({ status, finished_at }: Finished, rule: PruneRule | undefined, nowMs: number): boolean {
  const keptMs = keptFor(status, rule)
  return keptMs !== null && finished_at !== null && finished_at <= nowMs - keptMs
}

/**
 * A dead letter is kept, with its job, until a person replays it. A job that ended otherwise has nothing to replay.
 * null: for ever.
 */
const lettersKeptFor = ({ status }: Finished, rule: PruneRule | undefined): number | null =>
  status === 'failed' ? (rule?.deadLettersMs ?? null) : 0

function keptFor(status: Status, rule: PruneRule | undefined): number | null {
  if (rule === undefined) return null
  switch (status) {
    case 'complete':
      return rule.completeMs
    case 'failed':
      return rule.failedMs
    case 'cancelled':
      return rule.cancelledMs
    default:
      return null
  }
}

interface FinishedRow extends Finished {
  key: JobKey
  type: number
  dead_letter: number | null
}

/** A job's place in a batch, as far as removing the job is concerned. */
interface Place {
  batch: BatchKey
  /** Its batch is not settled yet: a reader must find the jobs that it counts. */
  isNeeded: boolean
}

/** How long a batch is kept that has no job whose removal could take it along: it never had one, or a person deleted them. */
const EMPTY_KEPT_MS = 30 * DAY_MS

/** What each driver does its own way. */
export interface PruningParts {
  /** Removes events and failures of these jobs and marks `REMOVED_EVENTS`. */
  removeHistory(tx: Tx, jobs: readonly JobKey[]): Script<void>
  /** Before the first step of a walk over all jobs. */
  begin?(): Promise<void>
  /** After its last step. */
  end?(rules: readonly PruneRule[]): Promise<void>
}

/** The rows of jobs without their history, which goes another way. */
export function* removeRows(tx: Tx, jobs: readonly JobKey[]): Script<void> {
  const ofJobs = tx.dialect.inNumbers(jobs)
  yield* tx.run`DELETE FROM jobs WHERE key ${ofJobs}`
  yield* tx.run`DELETE FROM job_specs WHERE key ${ofJobs}`
  yield* tx.run`DELETE FROM attempt_reports WHERE job ${ofJobs}`
}

/**
 * Old jobs are found by walking the table in bounded steps. An index on the time of finishing would be quicker here
 * and would cost every job that completes.
 */
export function openPruning(context: ScriptContext, parts: PruningParts): Pick<Store, 'prune'> {
  const { dialect, types, write } = context
  const { inNumbers, inTexts } = dialect

  /**
   * The next jobs of which anything may go, and how far the walk came. They are locked and looked at again: a job that
   * goes back to the queue at this moment stays.
   */
  const walk = function* (tx: Tx, after: JobKey, limit: number, mayConcern: (row: FinishedRow) => boolean) {
    const rows = yield* tx.all<FinishedRow>`
      SELECT key, type, status, finished_at, dead_letter FROM jobs WHERE key > ${after} ORDER BY key LIMIT ${limit}`
    const keys = rows.filter(mayConcern).map(({ key }) => key)
    const locked =
      keys.length === 0
        ? []
        : yield* tx.all<FinishedRow>`
            SELECT key, type, status, finished_at, dead_letter FROM jobs WHERE key ${inNumbers(keys)}
            ORDER BY key ${dialect.forUpdate} ${dialect.skipLocked}`
    return { rows: locked.filter(mayConcern), cursor: rows.length < limit ? null : (rows.at(-1)?.key ?? null) }
  }

  /** Removes the letters whose time is over. Answers with how many, and with the jobs that still have one. */
  const expireLetters = function* (
    tx: Tx,
    rows: readonly FinishedRow[],
    keptFor: (row: FinishedRow) => number | null,
    nowMs: number,
  ): Script<{ gone: number; keeping: Set<JobKey> }> {
    const letters = yield* tx.all<{ offset: number; job: JobKey; at: number }>`
      SELECT "offset", job, at FROM dead_letters WHERE job ${inNumbers(rows.map(({ key }) => key))} ${dialect.forUpdate}`
    const keptMs = new Map(rows.map((row) => [row.key, keptFor(row)]))
    const isExpired = ({ job, at }: { job: JobKey; at: number }): boolean => {
      const ms = keptMs.get(job) ?? null
      return ms !== null && at <= nowMs - ms
    }
    const expired = letters.filter(isExpired)
    yield* letterMarks.remove(tx, expired)
    const kept = letters.filter((letter) => !isExpired(letter))
    return { gone: expired.length, keeping: new Set(kept.map(({ job }) => job)) }
  }

  const placesOf = function* (tx: Tx, jobs: readonly JobKey[]): Script<Map<JobKey, Place>> {
    const rows = yield* tx.all<{ key: JobKey; batch: BatchKey; needed: unknown }>`
      SELECT job_specs.key, batch, left_batch IS NULL AND state = 'open' AS needed
      FROM job_specs JOIN batches ON batches.key = job_specs.batch WHERE job_specs.key ${inNumbers(jobs)}`
    return new Map(rows.map(({ key, batch, needed }) => [key, { batch, isNeeded: Boolean(needed) }]))
  }

  /** The events of removed batches. On SQLite the newest event stays: its number must not be given to another one. */
  const forgetBatches = function* (tx: Tx, removed: readonly { id: string }[]): Script<void> {
    if (removed.length === 0) return
    const but = dialect.choose({ sqlite: sql`AND seq < (SELECT max(seq) FROM events)`, postgres: NONE })
    yield* tx.run`DELETE FROM events WHERE subject ${inTexts(removed.map(({ id }) => `batch:${id}`))} ${but}`
  }

  /** The counts are stored in the batch, not derived from its jobs: the batch goes with its last job. */
  const removeIfLast = function* (tx: Tx, keys: readonly BatchKey[]): Script<void> {
    if (keys.length === 0) return
    const removed = yield* tx.all<{ id: string }>`
      DELETE FROM batches WHERE key ${inNumbers(keys)} AND state <> 'open'
        AND NOT EXISTS (SELECT 1 FROM job_specs WHERE batch = batches.key)
      RETURNING id`
    yield* forgetBatches(tx, removed)
  }

  const removeEmpty = function* (tx: Tx, nowMs: number, limit: number): Script<void> {
    const removed = yield* tx.all<{ id: string }>`
      DELETE FROM batches WHERE key IN (
        SELECT key FROM batches WHERE state <> 'open' AND settled_at <= ${nowMs - EMPTY_KEPT_MS}
          AND NOT EXISTS (SELECT 1 FROM job_specs WHERE batch = batches.key)
        LIMIT ${limit})
      RETURNING id`
    yield* forgetBatches(tx, removed)
  }

  const remove = function* (tx: Tx, wanted: readonly JobKey[]): Script<number> {
    if (wanted.length === 0) return 0
    const uncounted = yield* jobsWithUncounted(tx, wanted)
    const places = yield* placesOf(tx, wanted)
    const keys = wanted.filter((key) => !uncounted.has(key) && !places.get(key)?.isNeeded)
    yield* parts.removeHistory(tx, keys)
    yield* removeRows(tx, keys)
    const left = new Set(keys.flatMap((key) => places.get(key)?.batch ?? []))
    const sorted = [...left].toSorted((a, b) => a - b)
    yield* removeIfLast(tx, sorted)
    return keys.length
  }

  const step = function* (
    tx: Tx,
    rules: readonly PruneRule[],
    after: JobKey,
    limit: number,
    nowMs: number,
  ): Script<Pruned> {
    yield* types.refresh(tx)
    const names = new Map(types.known().map(({ key, name }) => [key, name]))
    const byName = new Map(rules.map((rule) => [rule.type, rule]))
    const ruleOf = ({ type }: FinishedRow) => byName.get(names.get(type) ?? '')
    const mayGo = (row: FinishedRow): boolean => isOver(row, ruleOf(row), nowMs)
    const { rows, cursor } = yield* walk(tx, after, limit, (row) => mayGo(row) || Boolean(row.dead_letter))
    const { gone, keeping } =
      rows.length === 0
        ? { gone: 0, keeping: new Set<JobKey>() }
        : yield* expireLetters(tx, rows, (row) => lettersKeptFor(row, ruleOf(row)), nowMs)
    const wanted = rows.filter((row) => mayGo(row) && !keeping.has(row.key)).map(({ key }) => key)
    const removed = yield* remove(tx, wanted)
    if (cursor === null) yield* removeEmpty(tx, nowMs, limit)
    return { removed, letters: gone, cursor }
  }

  return {
    async prune({ rules, after, limit }) {
      if (after === 0) {
        await parts.begin?.()
        // A process that died may have left jobs without a limit key.
        await fillLimitKeys(context)
      }
      const pruned = await write(
        'pruning',
        function* (tx, nowMs) {
          // A failure is counted before it is removed.
          yield* foldFailures(tx, types, FOLD_PER_STEP, nowMs)
          if (after === 0) {
            for (const { name, policy } of types.known()) yield* meters.forgetFull(tx, name, policy.rate, nowMs)
          }
          return yield* step(tx, rules, after, limit, nowMs)
        },
        { alone: GROUPS_ALONE },
      )
      if (pruned.cursor === null) await parts.end?.(rules)
      return pruned
    },
  }
}
