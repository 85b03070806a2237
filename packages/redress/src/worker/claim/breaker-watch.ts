import { engineFailure } from '../../core/failure/capture.ts'
import type { Change } from '../../core/job/change.ts'
import {
  type BreakerStatus,
  bucketOf,
  type CallBucket,
  callOf,
  isTooBad,
  NO_CALLS,
  sumWindow,
  withOlder,
} from '../../core/limits/breaker.ts'
import { unpackSpent } from '../../core/policy/budget.ts'
import type { BreakerPolicy } from '../../core/policy/flow.ts'
import type { Policy } from '../../core/policy/policy.ts'
import type { Clock, Timer } from '../../runtime/clock.ts'
import type { Log } from '../../runtime/log.ts'
import type { BreakerStanding, CallReport } from '../../store/contract/breakers.ts'
import type { Store } from '../../store/contract/store.ts'
import type { Handler } from '../attempt/call-handler.ts'
import type { Flight } from '../attempt/flight.ts'
import { release } from '../attempt/outcome.ts'
import { answerOrThrow } from '../store-calls.ts'

/** Counts go to the store this often, and at once when they may open or close the breaker. */
const REPORT_MS = 250
/** An older state is read again before an attempt begins, so that an opening reaches every worker within a second. */
const STALE_MS = 500

/** Calls that ended here and are not in the store yet; of one breaker, begun in one of its epochs. */
interface Tally {
  policy: BreakerPolicy
  epoch: number
  /** By this process's monotonic clock, the newest last. */
  buckets: (CallBucket & { lastMonoMs: number })[]
}

interface WatchOptions {
  store: Store
  clock: Clock
  log: Log
  /** There are counts to send: the worker's loop must run soon. */
  toSend: () => void
  /** The states of the breakers were read again: attempts may begin. */
  looked: () => void
  /** Some breaker stands differently: jobs that wait for a slot may have to go back. */
  changed: (watch: BreakerWatch) => unknown
}

/**
 * What a worker knows of the breakers of its job types, and what it has counted for them. Claims bring news of them and
 * take counts along, so that a call costs the store nothing of its own.
 */
export class BreakerWatch {
  readonly #options: WatchOptions
  /** Empty where no job type has a breaker: then nothing is asked, counted or looked at. */
  readonly #names = new Set<string>()
  readonly #known = new Map<string, BreakerStanding>()
  #tallies: Tally[] = []
  #isUrgent = false
  #isSending = false
  #isSendingNews = false
  #isLooking = false
  #sentMonoMs = Number.NEGATIVE_INFINITY
  #learnedMonoMs = Number.NEGATIVE_INFINITY
  #timer: Timer | null = null
  #isEnded = false

  constructor(options: WatchOptions) {
    this.#options = options
  }

  /** From now on, the breakers of these types are watched, too. */
  serve(handlers: readonly Handler[]): void {
    const before = this.#names.size
    for (const { policy } of handlers) if (policy.breaker !== null) this.#names.add(policy.breaker.guards)
    // Nothing is known of the new ones: they must be looked at before an attempt begins.
    if (this.#names.size > before) this.#learnedMonoMs = Number.NEGATIVE_INFINITY
  }

  get isNeeded(): boolean {
    return this.#names.size > 0
  }

  /** Something will be answered without time going by. */
  get isMoving(): boolean {
    return this.#isSending || this.#isLooking
  }

  /** `askedMonoMs`: when the store was asked, not when it answered. */
  update(standings: readonly BreakerStanding[], askedMonoMs: number): void {
    let hasShut = false
    for (const standing of standings) {
      const before = this.#known.get(standing.name)
      // Answers may overtake each other; an epoch does not come back.
      if (before !== undefined && before.epoch > standing.epoch) continue
      const window = standing.window ?? (before?.epoch === standing.epoch ? before.window : null)
      this.#known.set(standing.name, { ...standing, window })
      hasShut ||= standing.status !== 'closed' && standing.status !== before?.status
    }
    this.#learnedMonoMs = Math.max(this.#learnedMonoMs, askedMonoMs)
    if (hasShut) this.#options.changed(this)
  }

  /** As this worker last heard of it; null where the policy names none. */
  statusOf({ breaker }: Policy): { name: string; status: BreakerStatus } | null {
    if (breaker === null) return null
    return { name: breaker.guards, status: this.#known.get(breaker.guards)?.status ?? 'closed' }
  }

  /**
   * Whether what is known is not enough to begin by: it is too old, or what was just counted here may have changed it.
   * Nothing begins then until the store has answered.
   */
  looksFirst(nowMonoMs: number): boolean {
    if (this.#isLooking || this.#isUrgent || this.#isSendingNews) return true
    if (nowMonoMs - this.#learnedMonoMs <= STALE_MS) return false
    this.#isLooking = true
    void this.#look(nowMonoMs)
    return true
  }

  async #look(nowMonoMs: number): Promise<void> {
    const { store, clock, log, looked } = this.#options
    try {
      this.update(await answerOrThrow(clock, store.standings({ names: [...this.#names] })), nowMonoMs)
    } catch (error) {
      log.error({ err: error }, 'breakers could not be looked at; going by what was known when the jobs were claimed')
      this.#learnedMonoMs = nowMonoMs
    }
    this.#isLooking = false
    looked()
  }

  /** The change to record if the attempt must not begin; null when it may. */
  refusal(flight: Flight): Change | null {
    const { policy } = flight.handler
    if (policy.breaker === null) return null
    const { guard } = flight.lease
    const known = this.#known.get(policy.breaker.guards)
    if (guard?.mayCall === false) return failFast(flight, policy.breaker, guard.why)
    const status = known?.status ?? 'closed'
    // While it tries, only what was claimed for trying may call.
    const mayCall = status === 'closed' || (status === 'half-open' && guard?.epoch === known?.epoch)
    const why = known?.why ?? ''
    if (!mayCall && policy.breaker.mode === 'fail-fast') return failFast(flight, policy.breaker, why)
    // A forward-only job cannot be given back; it was claimed when the breaker was closed.
    if (!mayCall && !policy.forwardOnly) return release(flight, `held by breaker ${policy.breaker.guards}: ${why}`)
    return null
  }

  /** The epoch in which an attempt that begins now counts as a call; null where its type has no breaker. */
  callEpoch({ handler, lease }: Flight): number | null {
    const { breaker } = handler.policy
    if (breaker === null) return null
    return this.#known.get(breaker.guards)?.epoch ?? lease.guard?.epoch ?? null
  }

  /** An attempt that began in `callEpoch` has ended. */
  ended({ handler }: Flight, callEpoch: number, change: Change, nowMonoMs: number): void {
    const call = callOf(change)
    const { breaker } = handler.policy
    if (call === null || breaker === null) return
    const tally = this.#tallyOf(breaker, callEpoch)
    const atMs = bucketOf(nowMonoMs)
    let bucket = tally.buckets.at(-1)
    if (bucket === undefined || bucket.atMs !== atMs) {
      bucket = { atMs, succeeded: 0, failed: 0, lastMonoMs: nowMonoMs }
      tally.buckets.push(bucket)
    }
    bucket[call]++
    bucket.lastMonoMs = nowMonoMs
    if (this.#isNews(tally, call, nowMonoMs)) this.#isUrgent = true
    // The loop turns at each end of an attempt; this is for the last one.
    this.#timer ??= this.#options.clock.setTimer(REPORT_MS, () => {
      this.#timer = null
      this.#options.toSend()
    })
  }

  #tallyOf(policy: BreakerPolicy, epoch: number): Tally {
    const found = this.#tallies.find((tally) => tally.epoch === epoch && tally.policy.guards === policy.guards)
    if (found !== undefined) return found
    const added: Tally = { policy, epoch, buckets: [] }
    this.#tallies.push(added)
    return added
  }

  /** Whether this call may open or close the breaker. If so, it is reported at once. */
  #isNews({ policy, epoch, buckets }: Tally, call: 'succeeded' | 'failed', nowMonoMs: number): boolean {
    const known = this.#known.get(policy.guards)
    if (known === undefined || known.epoch !== epoch) return false
    if (known.status === 'half-open') return true
    if (call === 'succeeded' || known.status === 'open') return false
    const own = sumWindow(buckets.toReversed(), policy, nowMonoMs)
    return isTooBad(withOlder(own, known.window ?? NO_CALLS, policy), policy)
  }

  /** Called when the loop turns: with the outcomes, so that they share a commit. */
  send(nowMonoMs: number): void {
    if (this.#tallies.length === 0 || this.#isSending || this.#isEnded) return
    if (this.#isUrgent || nowMonoMs - this.#sentMonoMs >= REPORT_MS) void this.#send(nowMonoMs)
  }

  async #send(nowMonoMs: number): Promise<void> {
    const tallies = this.#tallies
    this.#tallies = []
    this.#isSendingNews = this.#isUrgent
    this.#isUrgent = false
    this.#isSending = true
    this.#sentMonoMs = nowMonoMs
    this.#timer?.cancel()
    this.#timer = null
    try {
      const counts = tallies.map((tally) => reportOf(tally, nowMonoMs))
      const { store, clock } = this.#options
      this.update(await answerOrThrow(clock, store.countCalls({ counts })), nowMonoMs)
    } catch (error) {
      this.#options.log.error({ err: error }, 'calls could not be counted; will try again')
      this.#tallies.unshift(...tallies)
    }
    this.#isSending = false
    if (this.#isSendingNews) {
      this.#isSendingNews = false
      this.#options.looked()
    }
    if (this.#tallies.length > 0) this.#options.toSend()
  }

  /** The last counts, when the worker stops. */
  async end(nowMonoMs: number): Promise<void> {
    if (this.#tallies.length > 0 && !this.#isEnded) await this.#send(nowMonoMs)
    this.crash()
  }

  /** Nothing more is sent. */
  crash(): void {
    this.#isEnded = true
    this.#timer?.cancel()
  }
}

function reportOf({ policy, epoch, buckets }: Tally, nowMonoMs: number): CallReport {
  return {
    name: policy.guards,
    epoch,
    buckets: buckets.map(({ succeeded, failed, lastMonoMs }) => ({ agoMs: nowMonoMs - lastMonoMs, succeeded, failed })),
  }
}

/** Final and at once: the dependency was not called, so nothing of the job's budget is spent. */
function failFast({ lease, handler }: Flight, { guards, code }: BreakerPolicy, why: string): Change {
  const { policy, codes } = handler
  const { failures } = unpackSpent(lease.spent)
  const failure = engineFailure({
    code: 'BREAKER_OPEN',
    as: code,
    phase: 'dispatch',
    type: lease.type,
    codes,
    detail: `breaker ${guards}: ${why}`,
    context: { breaker: guards },
  })
  const decision = {
    because: `breaker ${guards} lets no call through (${why}), and under this policy jobs fail fast`,
    rule: 'breaker.mode = fail-fast',
    budget: { name: 'retry.max', before: failures, after: failures, max: policy.retry.max },
  }
  const { deadLetter } = policy
  return { to: 'failed', spent: lease.spent, failure: { ...failure, decision }, deadLetter, isPermanent: false }
}
