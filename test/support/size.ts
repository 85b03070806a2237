/**
 * `npm test` tries what needs many repetitions in a small form, and `npm run test:long` in full. Both make the same
 * promises and can fail for the same reasons. Every file that uses this stands in docs/testing.md.
 */
export const IS_LONG = process.env.REDRESS_LONG === '1'

export const size = <T>(small: T, full: T): T => (IS_LONG ? full : small)

/** What a test did, in figures: the long run prints it. */
export function did(figures: Readonly<Record<string, unknown>>): void {
  if (IS_LONG) console.log(`  did: ${JSON.stringify(figures)}`)
}
