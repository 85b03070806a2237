import type { AttemptFailOptions } from '../core/failure/attempt-failed.ts'
import type { ProgressGiven } from '../core/job/reports.ts'
import type { Duration } from '../core/text/duration.ts'

/** An attempt as a handler in a thread or process of its own sees it. */
export interface IsolatedAttempt<Code extends string = string> {
  readonly jobId: string
  readonly type: string
  /** Counts every dispatch of the job, from 1; also the fencing token to hand to whatever you write to. */
  readonly number: number
  readonly owner: string | null
  readonly retriedFrom: string | null
  readonly traceparent: string | null
  /** Aborted when the work no longer counts. A handler that goes on is killed after `graceMs`. */
  readonly signal: AbortSignal
  /** How far the work is. Sent to the worker a few times per second at most. */
  progress(value: ProgressGiven): void
  /** A line that is kept with the attempt. */
  log(message: string, fields?: Record<string, unknown>): void
  /** Facts about this attempt. If it fails, they are part of the failure's context. */
  context(fields: Record<string, unknown>): void
  /** Ends the attempt with a code of the taxonomy. */
  fail(code: Code, options?: AttemptFailOptions): never
  /** Puts the job back for later; spends nothing. */
  snooze(delay: Duration, note?: string): never
}
