import { Alarm, type Clock } from '../../runtime/clock.ts'
import type { Flight } from '../attempt/flight.ts'

/**
 * A suspended process may find that its leases have expired. If no other worker took the jobs, a renewal keeps them.
 * The store has this long to answer it before the jobs are given up.
 */
const STANDSTILL_GRACE_MS = 500

interface DeadlinesOptions {
  clock: Clock
  held: ReadonlyMap<number, Flight>
  /** The lease expired without a renewal: another worker may have the job by now. */
  lost: (flight: Flight) => void
  timedOut: (flight: Flight) => void
  /** The process was suspended: leases must be renewed at once. */
  stoodStill: () => void
}

/**
 * Ends attempts when their lease or their time limit expires. It has its own timer and never waits for the store,
 * which may refuse, answer late or never answer.
 */
export class Deadlines {
  readonly #options: DeadlinesOptions
  readonly #alarm: Alarm
  #isAfterStandstill = false

  constructor(options: DeadlinesOptions) {
    this.#options = options
    this.#alarm = new Alarm(options.clock, (lateMs) => this.#ring(lateMs))
  }

  watch(atMonoMs: number): void {
    this.#alarm.setAt(atMonoMs)
  }

  cancel(): void {
    this.#alarm.cancel()
  }

  endOverdue(): void {
    const { clock, held, lost, timedOut } = this.#options
    const nowMonoMs = clock.monoMs()
    let nextMonoMs = Number.POSITIVE_INFINITY
    for (const flight of [...held.values()]) {
      // An attempt that has ended and only waits to be recorded is left alone: the store decides whether its outcome
      // counts.
      if (flight.state.kind === 'closing') continue
      if (flight.trustedUntilMonoMs <= nowMonoMs) lost(flight)
      else if (flight.state.kind === 'running' && flight.endMonoMs <= nowMonoMs) timedOut(flight)
      else nextMonoMs = Math.min(nextMonoMs, flight.trustedUntilMonoMs, flight.endMonoMs)
    }
    this.watch(nextMonoMs)
  }

  #ring(lateMs: number): void {
    if (lateMs > STANDSTILL_GRACE_MS && !this.#isAfterStandstill) {
      this.#isAfterStandstill = true
      this.#alarm.setWithin(STANDSTILL_GRACE_MS)
      this.#options.stoodStill()
      return
    }
    this.#isAfterStandstill = false
    this.endOverdue()
  }
}
