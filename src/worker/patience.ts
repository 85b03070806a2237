import type { Clock } from '../runtime/clock.ts'

/** The store has not answered yet, and may never answer. */
export const SILENCE = Symbol('silence')

/** How long the worker waits for an answer before it goes on without it and asks again. */
export const PATIENCE_MS = 10_000

/**
 * The answer, or `SILENCE` after `ms`. A connection that loses packets gives neither an answer nor an error, so no
 * loop of a worker may wait for the store alone. The caller can use a late answer by chaining to `asked`; a late
 * error is dropped.
 */
export function answerWithin<T>(clock: Clock, ms: number, asked: Promise<T>): Promise<T | typeof SILENCE> {
  return new Promise((resolve, reject) => {
    const timer = clock.setTimer(ms, () => resolve(SILENCE))
    asked.then(
      (answer) => {
        timer.cancel()
        resolve(answer)
      },
      (error: unknown) => {
        timer.cancel()
        reject(error)
      },
    )
  })
}

/** For callers that treat silence like an error. */
export async function answerOrThrow<T>(clock: Clock, asked: Promise<T>): Promise<T> {
  const answer = await answerWithin(clock, PATIENCE_MS, asked)
  if (answer === SILENCE) throw new Error(`The store did not answer within ${PATIENCE_MS / 1_000} s.`)
  return answer
}
