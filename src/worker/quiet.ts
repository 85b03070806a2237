import type { Clock } from '../runtime/clock.ts'

/** Lets somebody wait until a worker has nothing left in its hands. */
export class Quiet {
  readonly #clock: Clock
  readonly #isQuiet: () => boolean
  #waiting: { isEnough: () => boolean; wake: () => void }[] = []

  constructor(clock: Clock, isQuiet: () => boolean) {
    this.#clock = clock
    this.#isQuiet = isQuiet
  }

  /** Something changed: whoever waits looks again. */
  look(): void {
    if (this.#waiting.length === 0) return
    const woken = this.#waiting.filter(({ isEnough }) => isEnough())
    this.#waiting = this.#waiting.filter((one) => !woken.includes(one))
    for (const { wake } of woken) wake()
  }

  /** Resolves when no work is left, when the caller's condition holds, or after `ms` of the clock. */
  async within(ms: number, isEnough = this.#isQuiet): Promise<void> {
    if (isEnough()) return
    await new Promise<void>((resolve) => {
      const timer = Number.isFinite(ms) ? this.#clock.setTimer(ms, resolve) : null
      const wake = () => {
        timer?.cancel()
        resolve()
      }
      this.#waiting.push({ isEnough, wake })
    })
  }
}
