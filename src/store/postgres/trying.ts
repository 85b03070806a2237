import { randomInt } from 'node:crypto'
import { RedressError } from '../../core/errors.ts'
import { isDisconnected, isTransient, storeError, unknownOutcome } from './errors.ts'

/** So long a call goes on by itself while the server is away: a restart takes seconds, and so does a promotion. */
export const PATIENCE_MS = 30_000
const WAIT_MS_MIN = 50
const WAIT_MS_MAX = 2_000
/** Two that waited for each other, of which one had to give way: again at once, and hardly ever so often. */
const UNDONE_MAX = 8

/** How a call meets a server that cannot be reached. */
export interface How {
  /** Its caller tries again by himself, and has other things to see to meanwhile. */
  isImpatient?: boolean
  /** Done twice it is as good as done once, so it may be repeated although its first try may have been committed. */
  mayRepeat?: boolean
  /** Where it is not half a minute. */
  patienceMs?: number
  /** How long the whole call may take without an answer, if this differs from the timeout per statement. */
  deadlineMs?: number
  /** An earlier try of the same call, by the monotonic clock, of which nobody knows whether it was committed. */
  unknownSinceMonoMs?: number
}

export interface Try {
  /** When the first try was made of which nobody knows whether it was committed; null where there is none. */
  unknownSinceMonoMs: number | null
}

/**
 * Calls it until it is answered. Nothing is done twice: what may have been committed is repeated only where the caller
 * says that this does no harm, and else the caller is told that nobody knows.
 */
export async function trying<T>(
  doing: string,
  run: (one: Try) => Promise<T>,
  /** Whether it is certain that the try which failed so has changed nothing. */
  isNothingDone: (error: unknown) => boolean,
  { isImpatient = false, mayRepeat = false, patienceMs = PATIENCE_MS, unknownSinceMonoMs }: How = {},
): Promise<T> {
  const beganMonoMs = performance.now()
  const one: Try = { unknownSinceMonoMs: unknownSinceMonoMs ?? null }
  for (let tries = 1, undone = 0; ; tries++) {
    const triedMonoMs = performance.now()
    try {
      return await run(one)
    } catch (error) {
      if (error instanceof RedressError) throw error
      if (isTransient(error) && ++undone < UNDONE_MAX) continue
      if (!isDisconnected(error)) throw storeError(error, doing)
      if (!isNothingDone(error)) one.unknownSinceMonoMs ??= triedMonoMs
      const isUnknown = one.unknownSinceMonoMs !== null
      const isOver = isImpatient || performance.now() - beganMonoMs > patienceMs
      if (isOver || (isUnknown && !mayRepeat)) throw (isUnknown ? unknownOutcome : storeError)(error, doing)
      await afterMs(Math.min(WAIT_MS_MAX, WAIT_MS_MIN * 2 ** (tries - 1)) * (randomInt(50, 100) / 100))
    }
  }
}

const afterMs = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))
