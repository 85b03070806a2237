import type { Clock } from '../runtime/clock.ts'
import type { Log } from '../runtime/log.ts'

/** The store has not answered yet, and may never answer. */
export const NO_ANSWER = Symbol('no answer')

/** How long the worker waits for an answer before it goes on without it and asks again. */
export const ANSWER_MS_MAX = 10_000

/**
 * The answer, or `NO_ANSWER` after `ms`. A connection that loses packets gives neither an answer nor an error, so no
 * loop of a worker may wait for the store alone. The caller can use a late answer by chaining to `asked`; a late
 * error is dropped.
 */
export function answerWithin<T>(clock: Clock, ms: number, asked: Promise<T>): Promise<T | typeof NO_ANSWER> {
  return new Promise((resolve, reject) => {
    const timer = clock.setTimer(ms, () => resolve(NO_ANSWER))
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
  const answer = await answerWithin(clock, ANSWER_MS_MAX, asked)
  if (answer === NO_ANSWER) throw new Error(`The store did not answer within ${ANSWER_MS_MAX / 1_000} s.`)
  return answer
}

/** After this many failures in a row the next try is still made at once. */
const PATIENT_FAILURES = 3
const WAIT_MS_MIN = 100
const WAIT_MS_MAX = 5_000

/**
 * A call that keeps failing, for instance because the disk is full. It is tried and logged less and less often: a log
 * line ten times a second hides everything else, and may fill the same disk.
 */
export class Trouble {
  readonly #clock: Clock
  readonly #log: Log
  #failures = 0
  #unlogged = 0
  #waitsUntilMonoMs = Number.NEGATIVE_INFINITY
  #logsAtMonoMs = Number.NEGATIVE_INFINITY

  constructor(clock: Clock, log: Log) {
    this.#clock = clock
    this.#log = log
  }

  /** Whether it is too early to try again. */
  get isWaiting(): boolean {
    return this.#failures > PATIENT_FAILURES && this.#clock.monoMs() < this.#waitsUntilMonoMs
  }

  failed(fields: object, message: string): void {
    const nowMonoMs = this.#clock.monoMs()
    this.#failures++
    const waitMs = Math.min(WAIT_MS_MAX, WAIT_MS_MIN * 2 ** (this.#failures - 1))
    this.#waitsUntilMonoMs = nowMonoMs + waitMs
    if (nowMonoMs < this.#logsAtMonoMs) {
      this.#unlogged++
      return
    }
    this.#log.error({ ...fields, ...(this.#unlogged > 0 && { times_since_told: this.#unlogged + 1 }) }, message)
    this.#unlogged = 0
    this.#logsAtMonoMs = nowMonoMs + waitMs
  }

  ended(): void {
    if (this.#failures === 0) return
    this.#failures = 0
    this.#unlogged = 0
    this.#logsAtMonoMs = Number.NEGATIVE_INFINITY
  }
}
