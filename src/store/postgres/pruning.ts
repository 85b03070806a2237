import { FOLD_PER_STEP } from '../failure-groups.ts'
import { isOver, lettersKeptFor } from '../retention.ts'
import type { JobKey, Pruned, PruneRule, Store } from '../store.ts'
import { openBatchPruning } from './batch-pruning.ts'
import type { Tx } from './client.ts'
import type { PgContext } from './context.ts'
import { jobsWithUncounted } from './failure-cursor.ts'
import { GROUPS_ALONE, type openFailureGroups } from './failure-groups.ts'
import { fillLimitKeys } from './limit-keys.ts'
import type { Meters } from './meters.ts'
import { openPartitions, removeHistory } from './partitions.ts'

interface FinishedRow {
  key: JobKey
  type: number
  status: 'complete' | 'failed' | 'cancelled'
  finished_at: number
  dead_letter: number | null
}

/**
 * Old jobs are found by walking the table in bounded steps. An index on the time of finishing would be quicker here
 * and would cost every job that completes.
 */
export function openPruning(
  context: PgContext,
  groups: ReturnType<typeof openFailureGroups>,
  meters: Pick<Meters, 'forgetFull'>,
): Pick<Store, 'prune'> {
  const { types, write } = context
  const batches = openBatchPruning()
  const partitions = openPartitions(context)

  /**
   * The next jobs of which anything may go, and how far the walk came. Locked, and looked at once more when they are: one
   * that somebody takes back to the queue at this moment stays.
   */
  const walk = async (tx: Tx, after: JobKey, limit: number, mayConcern: (row: FinishedRow) => boolean) => {
    const rows = await tx<FinishedRow[]>`
      SELECT key, type, status, finished_at, dead_letter FROM jobs WHERE key > ${after} ORDER BY key LIMIT ${limit}`
    const keys = rows.filter(mayConcern).map(({ key }) => key)
    const locked =
      keys.length === 0
        ? []
        : await tx<FinishedRow[]>`
            SELECT jobs.key, type, status, finished_at, dead_letter
            FROM unnest(${keys}::bigint[]) AS given (key) JOIN jobs ON jobs.key = given.key
            FOR UPDATE OF jobs SKIP LOCKED`
    return { rows: locked.filter(mayConcern), cursor: rows.length < limit ? null : (rows.at(-1)?.key ?? null) }
  }

  /** Removes the letters whose time is over. Answers with how many went, and the jobs that still have one. */
  const expireLetters = async (
    tx: Tx,
    rows: readonly FinishedRow[],
    keptFor: (row: FinishedRow) => number | null,
    nowMs: number,
  ): Promise<{ gone: number; keeping: Set<JobKey> }> => {
    const letters = await tx<{ offset: number; job: JobKey; at: number }[]>`
      SELECT "offset", job, at FROM dead_letters WHERE job = ANY(${rows.map(({ key }) => key)}::bigint[]) FOR UPDATE`
    const keptMs = new Map(rows.map((row) => [row.key, keptFor(row)]))
    const over = letters.filter(({ job, at }) => {
      const ms = keptMs.get(job) ?? null
      return ms !== null && at <= nowMs - ms
    })
    const gone = new Set(over.map(({ offset }) => offset))
    if (gone.size > 0) {
      await tx`
        UPDATE jobs SET dead_letter = NULL
        WHERE key = ANY(${over.map(({ job }) => job)}::bigint[]) AND dead_letter = ANY(${[...gone]}::bigint[])`
      await tx`DELETE FROM dead_letters WHERE "offset" = ANY(${[...gone]}::bigint[])`
    }
    const keeping = letters.filter(({ offset }) => !gone.has(offset)).map(({ job }) => job)
    return { gone: gone.size, keeping: new Set(keeping) }
  }

  const remove = async (tx: Tx, wanted: readonly JobKey[]): Promise<number> => {
    if (wanted.length === 0) return 0
    const uncounted = await jobsWithUncounted(tx, wanted)
    const places = await batches.placesOf(tx, wanted)
    const keys = wanted.filter((key) => !uncounted.has(key) && !places.get(key)?.isNeeded)
    await removeHistory(tx, keys)
    await tx`DELETE FROM jobs WHERE key = ANY(${keys}::bigint[])`
    await tx`DELETE FROM job_specs WHERE key = ANY(${keys}::bigint[])`
    const left = keys.flatMap((key) => places.get(key)?.batch ?? [])
    await batches.removeIfLast(
      tx,
      [...new Set(left)].toSorted((a, b) => a - b),
    )
    return keys.length
  }

  const prune = async (
    tx: Tx,
    rules: readonly PruneRule[],
    after: JobKey,
    limit: number,
    nowMs: number,
  ): Promise<Pruned> => {
    await types.refresh(tx)
    const byName = new Map(rules.map((rule) => [rule.type, rule]))
    const ruleOf = ({ type }: FinishedRow) => byName.get(types.knownByKey(type)?.name ?? '')
    const mayGo = (row: FinishedRow): boolean => isOver(row, ruleOf(row), nowMs)
    const { rows, cursor } = await walk(tx, after, limit, (row) => mayGo(row) || Boolean(row.dead_letter))
    const { gone, keeping } =
      rows.length === 0
        ? { gone: 0, keeping: new Set<JobKey>() }
        : await expireLetters(tx, rows, (row) => lettersKeptFor(row, ruleOf(row)), nowMs)
    const wanted = rows.filter((row) => mayGo(row) && !keeping.has(row.key)).map(({ key }) => key)
    const removed = await remove(tx, wanted)
    if (cursor === null) await batches.removeEmpty(tx, nowMs, limit)
    return { removed, letters: gone, cursor }
  }

  return {
    async prune({ rules, after, limit }) {
      if (after === 0) {
        await partitions.keep()
        // A process that died may have left some behind.
        await fillLimitKeys(context)
      }
      const pruned = await write(
        'pruning',
        async (tx, nowMs) => {
          // A failure that goes is counted first.
          await groups.fold(tx, FOLD_PER_STEP, nowMs)
          if (after === 0) {
            for (const { name, policy } of types.known()) await meters.forgetFull(tx, name, policy.rate, nowMs)
          }
          return prune(tx, rules, after, limit, nowMs)
        },
        GROUPS_ALONE,
      )
      if (pruned.cursor === null) await partitions.retire(rules)
      return pruned
    },
  }
}
