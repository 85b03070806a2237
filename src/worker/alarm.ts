import type { Clock, Timer } from '../runtime/clock.ts'

/** One timer that is only ever moved forward: whoever needs to be woken earlier sets it earlier. */
export class Alarm {
  readonly #clock: Clock
  readonly #ring: (lateMs: number) => void
  #timer: Timer | null = null
  #dueMonoMs = Number.POSITIVE_INFINITY

  constructor(clock: Clock, ring: (lateMs: number) => void) {
    this.#clock = clock
    this.#ring = ring
  }

  get dueMonoMs(): number {
    return this.#dueMonoMs
  }

  setWithin(delayMs: number): void {
    const dueMonoMs = this.#clock.monoMs() + delayMs
    if (this.#dueMonoMs <= dueMonoMs) return
    this.#timer?.cancel()
    this.#dueMonoMs = dueMonoMs
    this.#timer = this.#clock.setTimer(delayMs, () => {
      const lateMs = this.#clock.monoMs() - this.#dueMonoMs
      this.#timer = null
      this.#dueMonoMs = Number.POSITIVE_INFINITY
      this.#ring(lateMs)
    })
  }

  cancel(): void {
    this.#timer?.cancel()
    this.#timer = null
    this.#dueMonoMs = Number.POSITIVE_INFINITY
  }
}
