import { FAULTS, type Fault } from '../core/failure/failure.ts'
import { type Counted, WAIT_BUCKETS, waitBucket } from '../core/job/activity.ts'
import type { Change } from '../core/job/change.ts'
import { MINUTE_MS, SECOND_MS } from '../core/text/duration.ts'
import type { Clock } from '../runtime/clock.ts'
import type { ActivityCount } from '../store/contract/activity.ts'

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

/** As long as this it is kept while the store does not take it. */
const KEPT_MS = 10 * MINUTE_MS

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

  /** An attempt has ended, or was taken back: whatever failed has somebody whose fault it is, also where it is retried. */
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

  /** All of it, for whoever sends it; what cannot be sent is put back. */
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
    const sinceMonoMs = this.#clock.monoMs() - KEPT_MS
    this.#unsent = [...taken.filter(({ atMonoMs }) => atMonoMs >= sinceMonoMs), ...this.#unsent]
  }
}
