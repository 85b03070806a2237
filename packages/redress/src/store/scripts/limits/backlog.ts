import { RedressError } from '../../../core/errors.ts'
import type { NewJob, Submitted } from '../../contract/store.ts'
import type { KnownType, Types } from '../jobs/types.ts'
import type { Tx } from '../tx/context.ts'
import type { Script } from '../tx/script.ts'
import { type Sql, sql } from '../tx/sql.ts'

/** The jobs of a type that wait, up to `max` of each kind. Exported so that a test can ask for its plan. */
export const waitingSql = (type: number, max: number): { ready: Sql; due: Sql } => ({
  ready: sql`SELECT 1 FROM jobs WHERE type = ${type} AND ready IS NOT NULL LIMIT ${max}`,
  due: sql`SELECT 1 FROM jobs
    WHERE type = ${type} AND limit_key IS NOT NULL AND due_at IS NOT NULL AND ready IS NULL LIMIT ${max}`,
})

/** Ends at the first row that is one too many. */
export function* countWaiting(tx: Tx, { key }: KnownType, max: number): Script<number> {
  const { ready, due } = waitingSql(key, max + 1)
  const row = yield* tx.get<{ total: number }>`
    SELECT (SELECT count(*) FROM (${ready}) AS r) + (SELECT count(*) FROM (${due}) AS d) AS total`
  return (row as { total: number }).total
}

/** How a driver undoes a submission in the middle of a transaction. */
export interface Savepoint {
  begin(tx: Tx): Script<void>
  undo(tx: Tx): Script<void>
  end(tx: Tx): Script<void>
}

/** `policy.backlog.max`: checked in the transaction that submits, so it holds however many submit at once. */
export function openBacklog(types: Types, count = countWaiting) {
  const refusal = function* (
    tx: Tx,
    jobs: readonly NewJob[],
    submitted: readonly Submitted[],
  ): Script<RedressError | null> {
    const added = new Map<string, number>()
    for (const [i, { type, retriedFrom }] of jobs.entries()) {
      // A retry by a person is never refused, and neither is a submission that makes nothing new.
      const isAdded = submitted[i]?.isNew && submitted[i]?.status === 'queued' && retriedFrom === null
      if (isAdded) added.set(type, (added.get(type) ?? 0) + 1)
    }
    for (const [name, more] of added) {
      const type = yield* types.needed(tx, name)
      const { max } = type.policy.backlog
      if (max === null || (yield* count(tx, type, max)) <= max) continue
      const what = more === 1 ? 'one more' : `${more} more`
      return new RedressError(
        'BACKLOG_FULL',
        `With ${what}, over ${max} jobs of type ${name} would wait, and its backlog.max is ${max}. Nothing was submitted.`,
      )
    }
    return null
  }

  return {
    /** Why a submission that was just made must be undone; null when there is room for it. */
    refusal,

    /**
     * All or nothing. With a savepoint the refusal is an answer, so that others in the same transaction are not undone by
     * it; without one it is thrown. Submissions of a bounded type run one after the other, to the end of their
     * transactions: each counts what the one before has committed.
     */
    *within(
      tx: Tx,
      jobs: readonly NewJob[],
      submit: () => Script<Submitted[]>,
      savepoint: Savepoint | null,
    ): Script<Submitted[] | RedressError> {
      yield* types.keepUp(tx)
      const bounded = new Set<string>()
      for (const { type } of jobs) {
        const known = types.knownByName(type) ?? (yield* types.byName(tx, type))
        if (known != null && known.policy.backlog.max !== null) bounded.add(type)
      }
      if (bounded.size === 0) return yield* submit()
      yield* tx.lock([...bounded].map((type) => `backlog ${type}`))
      if (savepoint !== null) yield* savepoint.begin(tx)
      const submitted = yield* submit()
      const refused = yield* refusal(tx, jobs, submitted)
      if (refused !== null) {
        if (savepoint === null) throw refused
        yield* savepoint.undo(tx)
      }
      if (savepoint !== null) yield* savepoint.end(tx)
      return refused ?? submitted
    },
  }
}
