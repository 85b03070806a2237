import { RedressError } from '../../core/errors.ts'
import type { KnownType } from '../known-type.ts'
import type { NewJob, Submitted } from '../store.ts'
import type { Tx } from './client.ts'
import type { PgContext } from './context.ts'
import { lockNames } from './locks.ts'

export type Backlog = ReturnType<typeof openBacklog>

/** `policy.backlog.max`: checked in the transaction that submits, so it holds however many submit at once. */
export function openBacklog({ types }: PgContext) {
  /** Each count ends at the first row that is one too many. */
  const isOver = async (tx: Tx, { key }: KnownType, max: number): Promise<boolean> => {
    const [row] = await tx<{ n: number }[]>`
      SELECT (SELECT count(*) FROM (
          SELECT 1 FROM jobs WHERE type = ${key} AND ready IS NOT NULL LIMIT ${max + 1}) AS r)
        + (SELECT count(*) FROM (
          SELECT 1 FROM jobs WHERE type = ${key} AND limit_key IS NOT NULL AND due_at IS NOT NULL AND ready IS NULL
          LIMIT ${max + 1}) AS w) AS n`
    return (row as { n: number }).n > max
  }

  const refuseOver = async (tx: Tx, jobs: readonly NewJob[], submitted: readonly Submitted[]): Promise<void> => {
    const added = new Map<string, number>()
    for (const [i, { type, retriedFrom }] of jobs.entries()) {
      // A person's retry is never refused, and neither is what makes nothing new.
      const isAdded = submitted[i]?.isNew && submitted[i]?.status === 'queued' && retriedFrom === null
      if (isAdded) added.set(type, (added.get(type) ?? 0) + 1)
    }
    for (const [name, count] of added) {
      const type = await types.needed(name, tx)
      const { max } = type.policy.backlog
      if (max === null || !(await isOver(tx, type, max))) continue
      const what = count === 1 ? 'one more' : `${count} more`
      throw new RedressError(
        'BACKLOG_FULL',
        `With ${what}, over ${max} jobs of type ${name} would wait, and its backlog.max is ${max}. Nothing was submitted.`,
      )
    }
  }

  return {
    /**
     * All or nothing: a refusal is thrown, and undoes the transaction. Those who submit jobs of a bounded type do so one
     * after the other, to the end of their transactions; whoever comes next counts what the one before has committed.
     */
    async within(tx: Tx, jobs: readonly NewJob[], submit: () => Promise<Submitted[]>): Promise<Submitted[]> {
      await types.keepUp(tx)
      const bounded = new Set<string>()
      for (const { type } of jobs) {
        if (!bounded.has(type) && (await types.byName(type, tx))?.policy.backlog.max != null) bounded.add(type)
      }
      if (bounded.size === 0) return submit()
      await lockNames(
        tx,
        [...bounded].map((type) => `backlog ${type}`),
      )
      const submitted = await submit()
      await refuseOver(tx, jobs, submitted)
      return submitted
    },
  }
}
