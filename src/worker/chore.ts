import { formatMs, MINUTE_MS } from '../core/duration.ts'
import type { Clock, Timer } from '../runtime/clock.ts'
import type { Log } from '../runtime/log.ts'
import { untraced } from '../runtime/tracing.ts'
import { Trouble } from './trouble.ts'

/** A run that takes longer is left to itself, and the next one begins: runs of several processes overlap, too. */
const HUNG_MS = 10 * MINUTE_MS

/** Something done again and again, `everyMs` after it was last done. Its failure is told and does not end it. */
export class Chore {
  readonly #clock: Clock
  readonly #trouble: Trouble
  readonly #name: string
  readonly #everyMs: number
  readonly #run: () => Promise<unknown>
  #timer: Timer | null = null
  #isStopped = true

  constructor(clock: Clock, log: Log, name: string, everyMs: number, run: () => Promise<unknown>) {
    this.#clock = clock
    this.#trouble = new Trouble(clock, log)
    this.#name = name
    this.#everyMs = everyMs
    this.#run = run
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
    this.#timer = this.#clock.setTimer(this.#everyMs, () => this.#begin())
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
      this.#trouble.failed({}, `${this.#name} did not end within ${formatMs(HUNG_MS)}; will begin again`)
      goOn()
    })
    void this.#once().then(goOn)
  }

  async #once(): Promise<void> {
    try {
      await untraced(this.#run)
      this.#trouble.isOver()
    } catch (error) {
      this.#trouble.failed({ err: error }, `${this.#name} failed; will try again`)
    }
  }
}
