import type { KnownType } from '../../scripts/jobs/types.ts'
import { countWaiting, type Savepoint } from '../../scripts/limits/backlog.ts'
import type { Tx } from '../../scripts/tx/context.ts'
import type { Script } from '../../scripts/tx/script.ts'

/** An upper bound of the waiting jobs of each type, so that a queue is counted only when it may be full. */
export function openBacklogCount() {
  /** How many waited at most when the event of that number was the newest. */
  const counted = new Map<number, { atMost: number; seq: number }>()

  return {
    /**
     * No job enters the queue without an event. So a count stays an upper bound when the number of events since is added.
     */
    *count(tx: Tx, type: KnownType, max: number): Script<number> {
      const newest = yield* tx.get<{ seq: number }>`SELECT max(seq) AS seq FROM events`
      const seq = newest?.seq ?? 0
      const before = counted.get(type.key)
      const bound = before === undefined ? max + 1 : before.atMost + Math.max(0, seq - before.seq)
      if (bound <= max) return bound
      const atMost = yield* countWaiting(tx, type, max)
      counted.set(type.key, { atMost, seq })
      return atMost
    },

    /** After a rollback, event numbers are given again, so the counts say nothing. */
    forget: (): void => counted.clear(),
  }
}

export const SAVEPOINT: Savepoint = {
  *begin(tx) {
    yield* tx.run`SAVEPOINT submission`
  },
  *undo(tx) {
    yield* tx.run`ROLLBACK TO submission`
  },
  *end(tx) {
    yield* tx.run`RELEASE submission`
  },
}
