import type { RatePolicy } from '../policy/flow.ts'

/** A bucket of tokens as it stood when it was last written. A bucket that was never written is full. */
export interface Meter {
  tokens: number
  atMs: number
}

/**
 * The bucket is reckoned in credits, which are whole numbers: each millisecond brings `max` of them, and a dispatch
 * costs `perMs`. Fractions of a token would drift, and a dispatch that is due now would come a millisecond late.
 */
export function creditsAt(meter: Meter | null, rate: RatePolicy, nowMs: number): number {
  const { max, perMs, burst } = rate
  if (meter === null) return burst * perMs
  // A clock that was set back takes nothing away, and gives nothing twice.
  const elapsedMs = Math.max(0, nowMs - meter.atMs)
  return Math.min(burst * perMs + keptBeyondFull(rate), Math.round(meter.tokens * perMs) + elapsedMs * max)
}

/**
 * A bucket becomes full between two milliseconds, and a dispatch can only be at one. What flows in until then is kept,
 * or three in a second would be one in 334 ms for ever. It is less than one dispatch.
 */
const keptBeyondFull = ({ max, perMs }: RatePolicy): number => Math.min(max, perMs) - 1

/** How many may go at once. */
export const affordable = (credits: number, { perMs }: RatePolicy): number => Math.floor(credits / perMs)

/** The first moment at which one more may go. */
export function affordableAtMs(credits: number, { max, perMs }: RatePolicy, nowMs: number): number {
  return nowMs + Math.max(0, Math.ceil((perMs - credits) / max))
}

/** The bucket after so many dispatches. */
export function afterTaking(credits: number, taken: number, { perMs }: RatePolicy, nowMs: number): Meter {
  return { tokens: (credits - taken * perMs) / perMs, atMs: nowMs }
}

/** After this time without use, any bucket is full again and its row can be removed. */
export const refilledAfterMs = ({ max, perMs, burst }: RatePolicy): number => Math.ceil((burst * perMs) / max)
