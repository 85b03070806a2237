import { type Spent, unpackSpent } from '../core/budget.ts'
import type { Policy } from '../core/policy.ts'
import type { AttemptSpan } from '../runtime/tracing.ts'
import type { Lease } from '../store/store.ts'
import { Attempt } from './attempt.ts'
import type { Handler } from './handler.ts'
import type { StageWorld } from './stage-book.ts'

/** What became of an attempt, before the policy is asked. */
export type Outcome =
  | { kind: 'succeeded'; result: string | null }
  | { kind: 'failed'; stage: 'dispatch' | 'execution' | 'verification'; thrown: unknown }

/** `buffered`: leased, not begun. `running`: with its handler. `closing`: on its way to the store. `gone`: not ours. */
export type FlightState = 'buffered' | 'running' | 'closing' | 'gone'

/** An attempt on its way through this worker. */
export class Flight {
  readonly lease: Lease
  readonly handler: Handler
  readonly attempt: Attempt
  /** It lost so many workers that it may be what kills them; two such jobs never run in one worker at once. */
  readonly isSuspect: boolean
  state: FlightState = 'buffered'
  /** All of these are the worker's monotonic time; the store's clock is `storeNowMs`. */
  readonly claimedMonoMs: number
  /** Null also while it gets hold of what it needs: until then nothing has begun. */
  startedMonoMs: number | null = null
  deadlineMonoMs = Number.POSITIVE_INFINITY
  /** From this moment the attempt counts as stuck, and its job is taken back. */
  stuckMonoMs = Number.POSITIVE_INFINITY
  /** Until then nobody else can have the job, whatever the store says by then. */
  trustedUntilMonoMs: number
  renewedMonoMs: number
  isStartTold = false
  /** Its slot is free only when its outcome is recorded. */
  keepsSlot = false
  /** Its outcome is with the store. A renewal sent now would come after the close, and look like a zombie's. */
  isBeingRecorded = false
  /** Its outcome could not be recorded at the first try. */
  isRecordLate = false
  isWorking = false
  isLossTold = false
  /** Of its breaker, where it has one, since it began: what it calls belongs to that epoch. */
  callEpoch: number | null = null
  /** `run` has ended, and `verify` has the attempt. */
  isVerifying = false
  /** Lets go of what `acquire` got hold of. */
  release: (() => unknown) | null = null
  /** Given when it begins. */
  world: StageWorld | null = null
  /** While it runs, where somebody traces. */
  span: AttemptSpan | null = null
  /** Of its span, or of its submission: what its outcome belongs to. */
  traceparent: string | null
  /** Why the handler was told to stop, if it was. */
  stopReason: Error | null = null
  readonly #storeMinusMonoMs: number

  constructor(lease: Lease, handler: Handler, storeNowMs: number, askedMonoMs: number) {
    this.lease = lease
    this.handler = handler
    this.traceparent = lease.trace
    this.attempt = new Attempt(lease, this)
    this.isSuspect = lease.spent !== null && isSuspect(unpackSpent(lease.spent), handler.policy)
    this.claimedMonoMs = askedMonoMs
    this.renewedMonoMs = askedMonoMs
    // Counted from when we asked, not from the answer: a slow reply must not make the worker trust its lease
    // longer than the store does.
    this.trustedUntilMonoMs = askedMonoMs + handler.policy.lease.ttlMs
    this.#storeMinusMonoMs = storeNowMs - askedMonoMs
  }

  /** The store's time, without asking it and without this machine's wall clock. */
  storeNowMs(monoMs: number): number {
    return this.#storeMinusMonoMs + monoMs
  }

  /** The moment at which `timeout.total` ends, in monotonic time. */
  totalDeadlineMonoMs(): number {
    const { totalMs } = this.handler.policy.timeout
    return totalMs === null ? Number.POSITIVE_INFINITY : this.lease.queuedAtMs + totalMs - this.#storeMinusMonoMs
  }

  /** When its time limit expires, unless its lease expires first. */
  get endMonoMs(): number {
    return Math.min(this.deadlineMonoMs, this.stuckMonoMs)
  }

  /** Once: whoever is heard of later has not changed the outcome. */
  endSpan(outcome: string, errorCode: string | null = null): void {
    if (this.span === null) return
    this.span.end(outcome, errorCode)
    this.traceparent = this.span.traceparent
    this.span = null
  }

  stop(reason: Error): void {
    this.stopReason ??= reason
    Attempt.stop(this.attempt, reason)
  }
}

/** Half of what it may lose is spent. Jobs that merely ran beside a poisonous one get no further than that. */
function isSuspect({ reclaims }: Spent, { orphan }: Policy): boolean {
  return reclaims >= Math.max(1, Math.floor(orphan.maxReclaims / 2))
}
