import type { Clock, Timer } from '../runtime/clock.ts'
import type { Log } from '../runtime/log.ts'
import { untraced } from '../runtime/tracing.ts'
import { Trouble } from './trouble.ts'

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
    this.#timer = this.#clock.setTimer(this.#everyMs, () => void this.#once())
  }

  async #once(): Promise<void> {
    try {
      await untraced(this.#run)
      this.#trouble.isOver()
    } catch (error) {
      this.#trouble.failed({ err: error }, `${this.#name} failed; will try again`)
    }
    if (!this.#isStopped) this.#setTimer()
  }
}
