import { RedressError } from '../../core/errors.ts'
import type { KnownType } from '../known-type.ts'
import type { NewJob, Submitted } from '../store.ts'
import type { Connection } from './connection.ts'
import type { Types } from './types.ts'

const OF_TYPE = 'SELECT 1 FROM jobs WHERE type = ?1'

/** Exported so that a test can ask SQLite how it finds these rows. */
export const BACKLOG_SQL = {
  ready: `SELECT count(*) AS n FROM (${OF_TYPE} AND ready IS NOT NULL LIMIT ?2)`,
  waiting: `SELECT count(*) AS n FROM (${OF_TYPE} AND limit_key IS NOT NULL AND due_at IS NOT NULL AND ready IS NULL LIMIT ?2)`,
}

/** `policy.backlog.max`: checked in the transaction that submits, so it holds however many submit at once. */
export function openBacklog({ database, prepare }: Connection, types: Types) {
  const countReady = prepare(BACKLOG_SQL.ready)
  const countWaiting = prepare(BACKLOG_SQL.waiting)
  const newestEvent = prepare('SELECT max(seq) AS seq FROM events')
  /** How many waited at most when the event of that number was the newest. */
  const counted = new Map<number, { atMost: number; seq: number }>()

  /**
   * No job comes to the queue without an event, whoever sends it there. So a count stays an upper bound when the events
   * since are added to it, and only a queue that may be full is counted again.
   */
  const isOver = ({ key }: KnownType, max: number): boolean => {
    const { seq } = newestEvent.get() as { seq: number }
    const before = counted.get(key)
    if (before !== undefined && before.atMost + Math.max(0, seq - before.seq) <= max) return false
    const ready = (countReady.get(key, max + 1) as { n: number }).n
    const atMost = ready + (countWaiting.get(key, max + 1 - ready) as { n: number }).n
    counted.set(key, { atMost, seq })
    return atMost > max
  }

  const refusal = (jobs: readonly NewJob[], submitted: readonly Submitted[]): RedressError | null => {
    const added = new Map<string, number>()
    for (const [i, { type, retriedFrom }] of jobs.entries()) {
      // A person's retry is never refused, and neither is what makes nothing new.
      const isAdded = submitted[i]?.isNew && submitted[i]?.status === 'queued' && retriedFrom === null
      if (isAdded) added.set(type, (added.get(type) ?? 0) + 1)
    }
    for (const [name, count] of added) {
      const type = types.needed(name)
      const { max } = type.policy.backlog
      if (max === null || !isOver(type, max)) continue
      const what = count === 1 ? 'one more' : `${count} more`
      return new RedressError(
        'BACKLOG_FULL',
        `With ${what}, over ${max} jobs of type ${name} would wait, and its backlog.max is ${max}. Nothing was submitted.`,
      )
    }
    return null
  }

  /** Something was undone: event numbers are given again, so what was counted by them says nothing any more. */
  const forget = (): void => counted.clear()

  return {
    /** Why a submission that was just made must be undone; null when there is room for it. */
    refusal,

    forget,

    /** All or nothing. The refusal is an answer, not a throw: others in the same transaction are not undone by it. */
    within(jobs: readonly NewJob[], submit: () => Submitted[]): Submitted[] | RedressError {
      types.keepUp()
      if (!jobs.some(({ type }) => types.byName(type)?.policy.backlog.max)) return submit()
      database.exec('SAVEPOINT submission')
      const submitted = submit()
      const refused = refusal(jobs, submitted)
      if (refused !== null) {
        database.exec('ROLLBACK TO submission')
        forget()
      }
      database.exec('RELEASE submission')
      return refused ?? submitted
    },
  }
}
