import type { Clock } from '../runtime/clock.ts'
import type { Log } from '../runtime/log.ts'

/** So often in a row it is tried again at once: most trouble is over by then. */
const PATIENT_FAILURES = 3
const WAIT_MS_MIN = 100
const WAIT_MS_MAX = 5_000

/**
 * Something that fails again and again, for instance because the disk is full. It is tried less and less often, and
 * told of as often: a log that repeats itself ten times a second hides everything else, and may be on the same disk.
 */
export class Trouble {
  readonly #clock: Clock
  readonly #log: Log
  #failures = 0
  #untold = 0
  #waitsUntilMonoMs = Number.NEGATIVE_INFINITY
  #tellsAtMonoMs = Number.NEGATIVE_INFINITY

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
    if (nowMonoMs < this.#tellsAtMonoMs) {
      this.#untold++
      return
    }
    this.#log.error({ ...fields, ...(this.#untold > 0 && { times_since_told: this.#untold + 1 }) }, message)
    this.#untold = 0
    this.#tellsAtMonoMs = nowMonoMs + waitMs
  }

  isOver(): void {
    if (this.#failures === 0) return
    this.#failures = 0
    this.#untold = 0
    this.#tellsAtMonoMs = Number.NEGATIVE_INFINITY
  }
}
