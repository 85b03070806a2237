/**
 * Something that has to be done again and again, by whichever process comes first: every worker runs all of them, so
 * each step of a duty compares before it changes.
 */
export interface Duty {
  name: string
  everyMs: number
  run(): Promise<unknown>
  /** When it will next have something to do, if that is known: virtual time must not jump over it. */
  nextAtMs?(): Promise<number | null>
}
