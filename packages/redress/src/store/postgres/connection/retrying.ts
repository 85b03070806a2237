import { randomInt } from 'node:crypto'
import { RedressError } from '../../../core/errors.ts'
import type { How } from '../../scripts/tx/context.ts'
import { codeOf, isDisconnected, isTransient, storeError, unknownOutcome } from './errors.ts'

/** How long a call is repeated while the server is away: a restart or a promotion takes seconds. */
export const PATIENCE_MS = 30_000
const WAIT_MS_MIN = 50
const WAIT_MS_MAX = 2_000
/** A transaction that was undone by a deadlock or a conflict runs again at once. This often is unlikely. */
const UNDONE_MAX = 8

export interface Try {
  /** When the first try was made that may have been committed; null if there is none. */
  unknownSinceMonoMs: number | null
}

/**
 * Repeats a call until it is answered. A call that may have been committed is repeated only if the caller says that it is
 * idempotent; otherwise the caller is told that the outcome is not known.
 */
export async function retrying<T>(
  doing: string,
  run: (one: Try) => Promise<T>,
  /** Whether a try that failed with this error has certainly changed nothing. */
  isNothingDone: (error: unknown) => boolean,
  { isImpatient = false, mayRepeat = false, patienceMs = PATIENCE_MS, unknownSinceMonoMs }: How = {},
): Promise<T> {
  const beganMonoMs = performance.now()
  const one: Try = { unknownSinceMonoMs: unknownSinceMonoMs ?? null }
  let cause: unknown = null
  for (let tries = 1, undone = 0; ; tries++) {
    const triedMonoMs = performance.now()
    try {
      return await run(one)
    } catch (error) {
      if (error instanceof RedressError) throw error
      if (isTransient(error) && ++undone < UNDONE_MAX) continue
      if (!isDisconnected(error)) throw storeError(error, doing)
      // After a refused connection the client may also fail to write to its socket. The error before that names the cause.
      if (cause === null || codeOf(error) !== 'ERR_SOCKET_CLOSED') cause = error
      if (!isNothingDone(error)) one.unknownSinceMonoMs ??= triedMonoMs
      const isUnknown = one.unknownSinceMonoMs !== null
      const isOver = isImpatient || performance.now() - beganMonoMs > patienceMs
      if (isOver || (isUnknown && !mayRepeat)) throw (isUnknown ? unknownOutcome : storeError)(cause, doing)
      await afterMs(Math.min(WAIT_MS_MAX, WAIT_MS_MIN * 2 ** (tries - 1)) * (randomInt(50, 100) / 100))
    }
  }
}

const afterMs = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))
