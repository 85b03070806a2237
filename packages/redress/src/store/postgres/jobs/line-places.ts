import type { LeasedRow } from './claim-sql.ts'

/** The position in the queue of a type that a claim has reached. */
export interface LinePlace {
  priority: number
  placeMs: number
  key: number
}

/** The beginning of the queue. */
const BEGINNING: LinePlace = { priority: -Number.MAX_SAFE_INTEGER, placeMs: 0, key: 0 }

/** A claim may skip this many dead entries without countermeasures. */
const VAIN_MAX = 10_000
/** Dead entries skipped per millisecond. The next claim from the beginning waits ten times as long as the skipping took. */
const VAIN_PER_MS = 2_500
const REST_TIMES = 10
/** Jobs that are queued again before the reached position are seen after this time at the latest. */
const REST_MS_MAX = 1_000

/**
 * Where claims begin in the queue: nearly always at its beginning. While a transaction stays open for long, vacuum cannot
 * remove the index entries of claimed jobs, and each claim would skip all of them again. So after a claim that skipped many
 * entries, the next claims begin where it ended, and only now and then at the beginning. Jobs with a higher priority are
 * still found at once.
 */
export function openLinePlaces() {
  const reached = new Map<number, LinePlace>()
  let untilMonoMs = Number.NEGATIVE_INFINITY

  return {
    /** The position of each type; null to begin at the beginning. */
    of(types: readonly number[]): LinePlace[] | null {
      if (performance.now() >= untilMonoMs) return null
      return types.map((type) => reached.get(type) ?? BEGINNING)
    },

    /** Called after each claim, with the number of entries that it looked at. */
    claimed(leased: readonly LeasedRow[], looked: number, isFromBeginning: boolean): void {
      const vain = looked - leased.length
      if (isFromBeginning) {
        reached.clear()
        const restMs = vain > VAIN_MAX ? Math.min(REST_MS_MAX, (vain / VAIN_PER_MS) * REST_TIMES) : 0
        untilMonoMs = performance.now() + restMs
        if (restMs === 0) return
      }
      for (const { 0: key, 1: type, 5: priority, 16: placeMs } of leased) {
        const place = { priority, placeMs, key }
        const before = reached.get(type)
        if (before === undefined || isLater(place, before)) reached.set(type, place)
      }
    },

    /** The next claim begins at the beginning. */
    restart(): void {
      untilMonoMs = Number.NEGATIVE_INFINITY
    },
  }
}

const isLater = (a: LinePlace, b: LinePlace): boolean =>
  (b.priority - a.priority || a.placeMs - b.placeMs || a.key - b.key) > 0
