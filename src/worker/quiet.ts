import type { Clock } from '../runtime/clock.ts'

/** Lets somebody wait until a worker has nothing left in its hands. */
export class Quiet {
  readonly #clock: Clock
  readonly #isQuiet: () => boolean
  #waiting: (() => void)[] = []

  constructor(clock: Clock, isQuiet: () => boolean) {
    this.#clock = clock
    this.#isQuiet = isQuiet
  }

  /** Something changed: whoever waits looks again. */
  look(): void {
    if (this.#waiting.length === 0 || !this.#isQuiet()) return
    const waiting = this.#waiting
    this.#waiting = []
    for (const wake of waiting) wake()
  }

  /** Resolves when it is quiet, or after `ms` of the clock. */
  async within(ms: number): Promise<void> {
    if (this.#isQuiet()) return
    await new Promise<void>((resolve) => {
      const timer = Number.isFinite(ms) ? this.#clock.setTimer(ms, resolve) : null
      this.#waiting.push(() => {
        timer?.cancel()
        resolve()
      })
    })
  }
}
