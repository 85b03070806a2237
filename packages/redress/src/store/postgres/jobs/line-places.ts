import type { LeasedRow } from './claim-sql.ts'

/** A place in the line of a type: that of a job that was taken from it. */
export interface LinePlace {
  priority: number
  placeMs: number
  key: number
}

/** Before everything: whoever begins here begins at the beginning. */
const NOWHERE: LinePlace = { priority: -Number.MAX_SAFE_INTEGER, placeMs: 0, key: 0 }

/** So many entries a claim may find in vain without anything being amiss. */
const VAIN_MAX = 10_000
/** Entries that are looked at in vain in a millisecond; ten times as long as that took, it is not done again. */
const VAIN_PER_MS = 2_500
const REST_TIMES = 10
/** What comes back into the line before the place that was reached is seen after so long at the latest. */
const REST_MS_MAX = 1_000

export type LinePlaces = ReturnType<typeof openLinePlaces>

/**
 * Where claims go on in the line. Nearly always at its beginning. But while somebody's transaction stands open for long,
 * what was taken from the line since cannot be cleared away, and each claim would look through all of that again. So
 * when one has looked at many entries in vain, the next ones begin where it ended, and only now and then at the
 * beginning; what has a higher priority is found at once nevertheless.
 */
export function openLinePlaces() {
  const reached = new Map<number, LinePlace>()
  let untilMonoMs = Number.NEGATIVE_INFINITY

  return {
    /** For each of the types; null for the beginning. */
    of(types: readonly number[]): LinePlace[] | null {
      if (performance.now() >= untilMonoMs) return null
      return types.map((type) => reached.get(type) ?? NOWHERE)
    },

    /** After a claim, with how many entries it looked at. */
    claimed(leased: readonly LeasedRow[], looked: number, isFromBeginning: boolean): void {
      const vain = looked - leased.length
      if (isFromBeginning) {
        reached.clear()
        const restMs = vain > VAIN_MAX ? Math.min(REST_MS_MAX, (vain / VAIN_PER_MS) * REST_TIMES) : 0
        untilMonoMs = performance.now() + restMs
        if (restMs === 0) return
      }
      for (const { 0: key, 1: type, 5: priority, 15: placeMs } of leased) {
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
