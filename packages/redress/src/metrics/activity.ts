import { FAULTS, type Fault } from '../core/failure/failure.ts'
import { type Counted, WAIT_BUCKETS, waitBucket } from '../core/job/activity.ts'
import type { Change } from '../core/job/change.ts'
import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../core/text/duration.ts'
import type { Clock } from '../runtime/clock.ts'
import type { ActivityCount, ActivityStore } from '../store/contract/activity.ts'
import type { Duty } from '../worker/duty.ts'

/** What was counted of one type in one second. Plain numbers: some of them grow with each job. */
class TypeActivity {
  complete = 0
  failed = 0
  cancelled = 0
  readonly faults: Record<Fault, number> = { caller: 0, dependency: 0, system: 0, code: 0, operator: 0, unknown: 0 }
  readonly waits: number[] = new Array(WAIT_BUCKETS).fill(0)

  counts(): [Counted, number][] {
    const { complete, failed, cancelled, faults, waits } = this
    const all: [Counted, number][] = [
      ['complete', complete],
      ['failed', failed],
      ['cancelled', cancelled],
      ...FAULTS.map((fault): [Counted, number] => [`fault:${fault}`, faults[fault]]),
      ...waits.map((count, bucket): [Counted, number] => [`wait:${bucket}`, count]),
    ]
    return all.filter(([, count]) => count > 0)
  }
}

/** How long counts are kept in memory while the store does not take them. */
const UNSENT_KEPT_MS = 10 * MINUTE_MS

interface Unsent extends Omit<ActivityCount, 'agoMs'> {
  atMonoMs: number
}

/** What this process has counted, by the second, until it is in the store. */
export class ActivityTally {
  readonly #clock: Clock
  #seconds = new Map<number, Map<string, TypeActivity>>()
  #second = Number.NaN
  #types = new Map<string, TypeActivity>()
  #unsent: Unsent[] = []

  constructor(clock: Clock) {
    this.#clock = clock
  }

  #of(type: string): TypeActivity {
    const second = Math.floor(this.#clock.monoMs() / SECOND_MS)
    if (second !== this.#second) {
      this.#second = second
      this.#types = new Map()
      this.#seconds.set(second, this.#types)
    }
    let found = this.#types.get(type)
    if (found === undefined) {
      found = new TypeActivity()
      this.#types.set(type, found)
    }
    return found
  }

  readonly started = (type: string, waitedMs: number): void => {
    const { waits } = this.#of(type)
    const bucket = waitBucket(waitedMs)
    waits[bucket] = (waits[bucket] as number) + 1
  }

  /** An attempt has ended or was reclaimed. Each failure counts for its fault, also when it is retried. */
  ended(type: string, change: Change | { to: 'orphaned' }): void {
    if (change.to === 'complete') this.#of(type).complete++
    else if (change.to === 'cancelled') this.#of(type).cancelled++
    else if (change.to === 'failed') this.failed(type, change.failure.fault)
    else if (change.to === 'queued' && change.failure !== null) this.#of(type).faults[change.failure.fault]++
  }

  failed(type: string, fault: Fault): void {
    const of = this.#of(type)
    of.failed++
    of.faults[fault]++
  }

  cancelled(type: string): void {
    this.#of(type).cancelled++
  }

  /** All counts, for the sender, which puts back what it cannot send. */
  take(): Unsent[] {
    const taken = this.#unsent
    for (const [second, types] of this.#seconds) {
      for (const [type, of] of types) {
        for (const [what, count] of of.counts()) taken.push({ atMonoMs: second * SECOND_MS, type, what, count })
      }
    }
    this.#unsent = []
    this.#seconds = new Map()
    this.#second = Number.NaN
    return taken
  }

  putBack(taken: readonly Unsent[]): void {
    const sinceMonoMs = this.#clock.monoMs() - UNSENT_KEPT_MS
    this.#unsent = [...taken.filter(({ atMonoMs }) => atMonoMs >= sinceMonoMs), ...this.#unsent]
  }
}

const EVERY_MS = 10_000
/** A day can be looked at; an hour more, so that its first minute is whole. */
const KEPT_MS = 25 * HOUR_MS
const PRUNE_PER_STEP = 1_000
const PRUNE_STEPS_MAX = 10

/** Brings what this process counts into the store: every few seconds, before a read, and when it stops. */
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

  /** For counts in a process that may have no worker to send them. */
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
