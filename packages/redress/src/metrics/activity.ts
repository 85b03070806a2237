import { HOUR_MS } from '../core/text/duration.ts'
import type { Clock } from '../runtime/clock.ts'
import type { ActivityStore } from '../store/contract/activity.ts'
import type { Duty } from '../worker/duty.ts'
import { ActivityTally } from './activity-tally.ts'

const EVERY_MS = 10_000
/** A day can be looked at; an hour more, so that its first minute is whole. */
const KEPT_MS = 25 * HOUR_MS
const PRUNE_PER_STEP = 1_000
const PRUNE_STEPS_MAX = 10

/** Brings what this process counts into the store: every few seconds, before somebody reads it, and when it stops. */
export class Activity {
  readonly tally: ActivityTally
  /** A worker of this process sends what was counted, as one of its duties. */
  isWorked = false
  readonly #clock: Clock
  #store: ActivityStore | null = null
  #sending: Promise<void> = Promise.resolve()
  #sentMonoMs = Number.NEGATIVE_INFINITY

  constructor(clock: Clock) {
    this.#clock = clock
    this.tally = new ActivityTally(clock)
  }

  sendTo(store: ActivityStore): void {
    this.#store = store
  }

  /** One after the other: who waits for it finds in the store all that was counted before. */
  send(): Promise<void> {
    const sent = this.#sending.then(() => this.#send())
    this.#sending = sent.catch(() => undefined)
    return sent
  }

  /** For what is counted where there may be no worker: then nobody else sends it. */
  sendSoon(): void {
    if (this.isWorked || this.#clock.monoMs() - this.#sentMonoMs < EVERY_MS) return
    void this.send().catch(() => undefined)
  }

  async #send(): Promise<void> {
    const store = this.#store
    const taken = this.tally.take()
    if (store === null || taken.length === 0) return
    const nowMonoMs = this.#clock.monoMs()
    this.#sentMonoMs = nowMonoMs
    try {
      await store.addActivity({
        counts: taken.map(({ atMonoMs, ...rest }) => ({ agoMs: nowMonoMs - atMonoMs, ...rest })),
      })
    } catch (error) {
      this.tally.putBack(taken)
      throw error
    }
  }

  duty(): Duty {
    return {
      name: 'counting activity',
      everyMs: EVERY_MS,
      run: async () => {
        await this.send()
        for (let step = 0; step < PRUNE_STEPS_MAX; step++) {
          const removed = await this.#store?.pruneActivity({ olderThanMs: KEPT_MS, limit: PRUNE_PER_STEP })
          if (removed !== PRUNE_PER_STEP) break
        }
      },
    }
  }
}
