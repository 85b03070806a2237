import { AttemptFailed, type FailOptions } from '../core/attempt-failed.ts'
import { type Duration, durationMs } from '../core/duration.ts'
import type { Lease } from '../store/store.ts'
import { Snoozed } from './signals.ts'

export interface AttemptFailOptions extends Omit<FailOptions, 'retryAfterMs'> {
  /** How long the other side asked us to wait; it wins over the policy's backoff. */
  retryAfter?: Duration
}

/** One numbered dispatch of a job, as its handler sees it. `Code` narrows `fail` to the type's own taxonomy. */
export class Attempt<Code extends string = string> {
  readonly #lease: Lease
  #controller: AbortController | null = null
  #stopReason: unknown
  #progress: number | null = null
  #isProgressNew = false

  constructor(lease: Lease) {
    this.#lease = lease
  }

  get jobId(): string {
    return this.#lease.id
  }

  get type(): string {
    return this.#lease.type
  }

  /** Counts every dispatch of the job, from 1; also the fencing token to hand to whatever you write to. */
  get number(): number {
    return this.#lease.attempt
  }

  get owner(): string | null {
    return this.#lease.owner
  }

  get retriedFrom(): string | null {
    return this.#lease.retriedFrom
  }

  /** Aborted when the work no longer counts: lease lost, time over, cancelled, or the worker stops. */
  get signal(): AbortSignal {
    // Made when first asked for: most handlers of short jobs never do, and it is dear.
    if (this.#controller === null) {
      this.#controller = new AbortController()
      if (this.#stopReason !== undefined) this.#controller.abort(this.#stopReason)
    }
    return this.#controller.signal
  }

  /** How far the work is, from 0 to 1. Written with the next renewal, not at once. */
  progress(fraction: number): void {
    if (!Number.isFinite(fraction))
      throw new TypeError(`progress must be a number from 0 to 1, not ${String(fraction)}`)
    this.#progress = Math.min(1, Math.max(0, fraction))
    this.#isProgressNew = true
  }

  /** Ends the attempt with a code of the taxonomy. */
  fail(code: Code, options?: AttemptFailOptions): never {
    throw failWith(code, options)
  }

  /** Puts the job back for later; spends nothing. Refused where the policy has no way back. */
  snooze(delay: Duration, note?: string): never {
    throw new Snoozed(durationMs(delay, 'snooze'), note ?? null)
  }

  /** For the worker. */
  static stop(attempt: Attempt, reason: unknown): void {
    attempt.#stopReason ??= reason
    attempt.#controller?.abort(reason)
  }

  /** For the worker: progress not told to the store yet. */
  static takeProgress(attempt: Attempt): number | null {
    if (!attempt.#isProgressNew) return null
    attempt.#isProgressNew = false
    return attempt.#progress
  }
}

export function failWith(code: string, { retryAfter, ...rest }: AttemptFailOptions = {}): AttemptFailed {
  const wait = retryAfter === undefined ? {} : { retryAfterMs: durationMs(retryAfter, 'retryAfter') }
  return new AttemptFailed(code, { ...rest, ...wait })
}
