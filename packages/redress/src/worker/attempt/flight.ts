import { describe } from '../../core/failure/facts.ts'
import { type Spent, unpackSpent } from '../../core/policy/budget.ts'
import type { Policy } from '../../core/policy/policy.ts'
import type { Lease } from '../../store/contract/store.ts'
import type { AttemptSpan } from '../../tracing/tracing.ts'
import { Attempt } from './attempt.ts'
import type { Handler } from './call-handler.ts'
import { ReportBook } from './report-book.ts'
import type { StageRuntime } from './stage.ts'

/** All times that end in `MonoMs` are the worker's monotonic time; the store's clock is `storeNowMs`. */
export type FlightState =
  /** Leased, waiting for a slot. */
  | { readonly kind: 'buffered' }
  | Running
  | Closing
  /** Recorded, lost, or left behind by a dead worker. */
  | { readonly kind: 'gone' }

/** With its handler. */
export interface Running {
  readonly kind: 'running'
  /** Null while `acquire` runs: nothing has started until then. */
  startedMonoMs: number | null
  deadlineMonoMs: number
  /** From this moment the attempt counts as stuck, and its job is taken back. */
  stuckMonoMs: number
  /** Where the attempt is: this becomes the phase of a failure. */
  phase: 'dispatch' | 'execution' | 'verification'
  /** The epoch of its breaker when it began: the calls of this attempt are counted in that epoch. */
  readonly callEpoch: number | null
  /** Null where nothing records spans. */
  span: AttemptSpan | null
}

/** Its outcome is decided and goes to the store. */
export interface Closing {
  readonly kind: 'closing'
  /** Null when it never began. */
  readonly ran: Running | null
  readonly endedMonoMs: number
  /** Where the record comes first, it also comes before this slot's next job (P66). */
  readonly keepsSlot: boolean
  /**
   * While it is `sent`, no renewal and no start may follow it: they would arrive after the close, and look like writes
   * of a worker that lost its lease. `refused`: the store did not take it, and it will be sent again.
   */
  record: 'unsent' | 'sent' | 'refused'
}

const BUFFERED = { kind: 'buffered' } as const
const GONE = { kind: 'gone' } as const

/** Yielded where another part of the worker goes on with the attempt. Any other value is awaited, if it is a promise. */
export const UNTIL_RESUMED = Symbol('until resumed')
// biome-ignore lint/suspicious/noExplicitAny: each `yield` gets the value that it awaits
export type Steps<Result = void> = Generator<unknown, Result, any>

/** The reason why the worker ended an attempt before its handler did. */
export class Interruption {
  readonly reason: unknown

  constructor(reason: unknown) {
    this.reason = reason
  }
}

/**
 * An attempt on its way through this worker. It runs the steps of the attempt, which are written as a generator: that
 * reads like an async function, but makes no promise where the handler answers at once. And the attempt can go on while
 * its handler still runs: at its time limit.
 */
export class Flight {
  readonly lease: Lease
  readonly handler: Handler
  readonly attempt: Attempt
  readonly runtime: StageRuntime
  /** Its workers died so often that the job may kill them. Two such jobs never run in one worker at once. */
  readonly isSuspect: boolean
  readonly claimedMonoMs: number
  state: FlightState = BUFFERED
  /** Until then no other worker can have the job. */
  trustedUntilMonoMs: number
  renewedMonoMs: number
  /** What its handler reported and the store may not have yet; null if it never reported anything. */
  reports: ReportBook | null = null
  /** Called when its handler reports something. Set when the worker takes it over. */
  onReport: (flight: Flight) => void = () => undefined
  /** Set by `acquire`. */
  #release: (() => unknown) | null = null
  readonly #storeMinusMonoMs: number
  #steps: Steps | null = null
  /** The promise that the attempt waits for; null while its code runs, and where it waits to be resumed. */
  #awaited: unknown = null
  #isAbandoned = false

  constructor(lease: Lease, handler: Handler, runtime: StageRuntime, storeNowMs: number, askedMonoMs: number) {
    this.lease = lease
    this.handler = handler
    this.runtime = runtime
    this.attempt = new Attempt(lease, this)
    this.isSuspect = lease.spent !== null && isSuspect(unpackSpent(lease.spent), handler.policy)
    this.claimedMonoMs = askedMonoMs
    this.renewedMonoMs = askedMonoMs
    // Counted from when we asked, not from the answer: a slow reply must not make the worker trust its lease
    // longer than the store does.
    this.trustedUntilMonoMs = askedMonoMs + handler.policy.lease.ttlMs
    this.#storeMinusMonoMs = storeNowMs - askedMonoMs
  }

  // ---- its steps ----------------------------------------------------------------------------------------------

  /** True once the attempt must not go on, though its handler may still run. */
  get isAbandoned(): boolean {
    return this.#isAbandoned
  }

  /** Runs the attempt up to its first wait. */
  begin(steps: Steps): void {
    this.#steps = steps
    this.#advance(steps, steps.next())
  }

  /** The attempt goes on from UNTIL_RESUMED. */
  resume(value: unknown): void {
    if (this.#steps !== null) this.#advance(this.#steps, this.#steps.next(value))
  }

  /** The attempt goes on with this reason, whatever its handler does later. */
  interrupt(reason: unknown): void {
    if (this.#steps === null || this.#awaited === null) return
    this.#awaited = null
    this.#advance(this.#steps, this.#steps.throw(new Interruption(reason)))
  }

  #advance(steps: Steps, first: IteratorResult<unknown, void>): void {
    let next = first
    while (!next.done) {
      const { value } = next
      if (value === UNTIL_RESUMED) return
      try {
        if (isThenable(value)) {
          this.#wait(steps, value)
          return
        }
      } catch (thrown) {
        next = steps.throw(thrown)
        continue
      }
      if (this.#isAbandoned) break
      next = steps.next(value)
    }
    if (this.#isAbandoned) this.#endedLate()
  }

  #wait(steps: Steps, awaited: PromiseLike<unknown>): void {
    if (!this.#isAbandoned) this.#awaited = awaited
    // A foreign thenable may resolve to another one, or call back twice; a promise never does.
    Promise.resolve(awaited).then(
      (value) => {
        if (this.#isHeard(awaited)) this.#advance(steps, steps.next(value))
      },
      (thrown) => {
        if (this.#isHeard(awaited)) this.#advance(steps, steps.throw(thrown))
      },
    )
  }

  #isHeard(awaited: unknown): boolean {
    const isHeard = this.#awaited === awaited
    if (isHeard) this.#awaited = null
    else this.#endedLate()
    return isHeard
  }

  /** The handler ended after the attempt was interrupted or abandoned. Other attempts want what this one holds. */
  #endedLate(): void {
    void this.release()
  }

  // ---- its state ----------------------------------------------------------------------------------------------

  /** The store's time, without asking it and without this machine's wall clock. */
  storeNowMs(monoMs: number): number {
    return this.#storeMinusMonoMs + monoMs
  }

  run(nowMonoMs: number, callEpoch: number | null): Running {
    const { attemptMs } = this.handler.policy.timeout
    const state: Running = {
      kind: 'running',
      startedMonoMs: null,
      deadlineMonoMs: Math.min(nowMonoMs + (attemptMs ?? Number.POSITIVE_INFINITY), this.totalDeadlineMonoMs()),
      stuckMonoMs: Number.POSITIVE_INFINITY,
      phase: 'dispatch',
      callEpoch,
      span: null,
    }
    this.state = state
    return state
  }

  close(nowMonoMs: number): Closing {
    const ran = this.state.kind === 'running' ? this.state : null
    const keepsSlot = ran !== null && this.handler.policy.audit === 'write-ahead'
    const state: Closing = { kind: 'closing', ran, endedMonoMs: nowMonoMs, keepsSlot, record: 'unsent' }
    this.state = state
    return state
  }

  /** The worker has nothing more to do with it, though its handler may still run. */
  leave(): void {
    // An attempt whose close is with the store goes on: its answer is still reported. That report comes here a second time
    // if the lease was lost meanwhile. The handler may still run, and holds what it acquired.
    if (this.state.kind !== 'closing' && this.state.kind !== 'gone') {
      this.#awaited = null
      this.#isAbandoned = true
    }
    this.state = GONE
  }

  get startedMonoMs(): number | null {
    const { state } = this
    if (state.kind === 'running') return state.startedMonoMs
    return state.kind === 'closing' ? (state.ran?.startedMonoMs ?? null) : null
  }

  get deadlineMonoMs(): number {
    return this.state.kind === 'running' ? this.state.deadlineMonoMs : Number.POSITIVE_INFINITY
  }

  /** When its time limit expires, unless its lease expires first. */
  get endMonoMs(): number {
    const { state } = this
    return state.kind === 'running' ? Math.min(state.deadlineMonoMs, state.stuckMonoMs) : Number.POSITIVE_INFINITY
  }

  /** When `timeout.total` ends. */
  totalDeadlineMonoMs(): number {
    const { totalMs } = this.handler.policy.timeout
    return totalMs === null ? Number.POSITIVE_INFINITY : this.lease.queuedAtMs + totalMs - this.#storeMinusMonoMs
  }

  get isVerifying(): boolean {
    return this.state.kind === 'running' && this.state.phase === 'verification'
  }

  get span(): AttemptSpan | null {
    return this.state.kind === 'running' ? this.state.span : null
  }

  get stopReason(): unknown {
    return Attempt.stopReasonOf(this.attempt)
  }

  /** Tells the handler to stop. */
  stop(reason: Error): void {
    Attempt.stop(this.attempt, reason)
  }

  book(): ReportBook {
    this.reports ??= new ReportBook(this.runtime.clock, () => this.onReport(this))
    return this.reports
  }

  get hasToRelease(): boolean {
    return this.#release !== null
  }

  /** Keeps what `acquire` returned. */
  hold(release: unknown): void {
    if (typeof release === 'function') this.#release = release as () => unknown
  }

  /** Calls what `acquire` returned. Answers with the error, if that fails. */
  async release(): Promise<{ thrown: unknown } | null> {
    const release = this.#release
    this.#release = null
    try {
      await release?.()
      return null
    } catch (thrown) {
      this.attempt.context({ notReleased: describe(thrown) })
      return { thrown }
    }
  }
}

/** Half of its reclaims are spent. A job that only ran beside a poison job does not get that far. */
function isSuspect({ reclaims }: Spent, { orphan }: Policy): boolean {
  return reclaims >= Math.max(1, Math.floor(orphan.maxReclaims / 2))
}

export function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function'
}
