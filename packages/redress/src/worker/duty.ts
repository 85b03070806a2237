import { formatMs, MINUTE_MS } from '../core/text/duration.ts'
import type { Clock, Timer } from '../runtime/clock.ts'
import type { Log } from '../runtime/log.ts'
import { untraced } from '../tracing/tracing.ts'
import { Trouble } from './store-calls.ts'

/** A periodic task that any worker can run. Every worker runs all of them, so each step compares before it changes. */
export interface Duty {
  name: string
  everyMs: number
  run(): Promise<unknown>
  /** When it will next have something to do, if that is known: virtual time must not jump over it. */
  nextAtMs?(): Promise<number | null>
}

/** A run that takes longer is left alone, and the next one begins: runs of several processes overlap, too. */
const HUNG_MS = 10 * MINUTE_MS

/** Runs a duty, and again `everyMs` after its end. A failure is logged and does not end the loop. */
export class DutyLoop {
  readonly #clock: Clock
  readonly #trouble: Trouble
  readonly #duty: Duty
  #timer: Timer | null = null
  #isStopped = true

  constructor(clock: Clock, log: Log, duty: Duty) {
    this.#clock = clock
    this.#trouble = new Trouble(clock, log)
    this.#duty = duty
  }

  start(): void {
    this.#isStopped = false
    this.#setTimer()
  }

  stop(): void {
    this.#isStopped = true
    this.#timer?.cancel()
  }

  #setTimer(): void {
    this.#timer = this.#clock.setTimer(this.#duty.everyMs, () => this.#begin())
  }

  #begin(): void {
    let isOver = false
    const goOn = (): void => {
      if (isOver) return
      isOver = true
      this.#timer?.cancel()
      if (!this.#isStopped) this.#setTimer()
    }
    this.#timer = this.#clock.setTimer(HUNG_MS, () => {
      this.#trouble.failed({}, `${this.#duty.name} did not end within ${formatMs(HUNG_MS)}; will begin again`)
      goOn()
    })
    void this.#once().then(goOn)
  }

  async #once(): Promise<void> {
    try {
      await untraced(() => this.#duty.run())
      this.#trouble.ended()
    } catch (error) {
      this.#trouble.failed({ err: error }, `${this.#duty.name} failed; will try again`)
    }
  }
}
