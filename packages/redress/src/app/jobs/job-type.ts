import type { EngineCode } from '../../core/failure/taxonomy.ts'
import type { Status } from '../../core/job/states.ts'
import type { Policy } from '../../core/policy/policy.ts'
import type { Duration } from '../../core/text/duration.ts'
import { optionNames } from '../../core/text/options.ts'
import type { JobView } from '../../core/views/job.ts'
import type { DedupeScope, Submitted } from '../../store/contract/store.ts'
import type { JobFailed, Outcome } from './outcome.ts'
import type { PreparedJob } from './submission.ts'

/** The options of a submission. All are optional. */
export interface SubmitOptions {
  owner?: string
  /** Higher goes first. */
  priority?: number
  /** Earliest start, from now. */
  delay?: Duration
  /** Earliest start, as a time: a `Date`, or ISO 8601 with a time zone. A time in the past means now. Not with `delay`. */
  runAt?: Date | string
  /**
   * One job per key. An array is joined without ambiguity. With `for`, a submission finds the job of the key for this long
   * after that job was submitted, whatever became of it. Afterwards a new job is made.
   */
  dedupe?: DedupeKey | { key: DedupeKey; scope: DedupeScope } | { key: DedupeKey; for: Duration }
  /**
   * Runs once submissions with the key have stopped for `wait`, with the newest input. A waiting job that no worker has had
   * gets the new input, and its time moves to now + `wait`, at most to its submission + `maxWait`.
   */
  debounce?: { key: DedupeKey; wait: Duration; maxWait?: Duration }
  /**
   * At most one job per period and key. The first is due at once. Later ones in the period become one job, due when the
   * period ends, with the newest input.
   */
  throttle?: { key: DedupeKey; every: Duration }
  /**
   * Fails with TTL_EXPIRED if no attempt has begun this long after the job was due. Once an attempt has begun, the time
   * no longer counts.
   */
  ttl?: Duration
  /**
   * Of the type, or of the type and key: at most one `queued` (a further submission finds the one that waits), at most one
   * `running` (others wait), or `both`.
   */
  singleton?: SingletonOf | { key: DedupeKey; of: SingletonOf }
  /** Jobs of one type with the same key share `concurrency.perKey` and a rate of scope 'key': a host, a tenant, an owner. */
  limitKey?: string
  /** A UUID of your own, so that you can submit again after an unknown answer without making a second job. */
  id?: string
  /** Id of an open batch to add it to. A job that is there already (see `dedupe`) stays where it is. */
  batch?: string
}

export const SUBMIT_OPTIONS = optionNames<SubmitOptions>({
  owner: true,
  priority: true,
  delay: true,
  runAt: true,
  dedupe: true,
  debounce: true,
  throttle: true,
  ttl: true,
  singleton: true,
  limitKey: true,
  id: true,
  batch: true,
})

/** A submission that is yet to be made: for batches. */
export interface JobRequest {
  type: string
  input: unknown
  options?: SubmitOptions
}

export const REQUEST_FIELDS = optionNames<JobRequest>({ type: true, input: true, options: true })

/** The jobs among which there is at most one. */
export type SingletonOf = 'queued' | 'running' | 'both'

export type DedupeKey = string | readonly (string | number | null)[]

/**
 * A job type that is bound to an app. `Input` is what is submitted, `Output` what its jobs complete with, as JSON keeps
 * it, and `Codes` are its failure codes.
 */
export interface JobType<Input, Output = unknown, Codes extends string = string> {
  /** The name of the type. */
  readonly name: string
  /** Its policy, with all defaults filled in. */
  readonly policy: Policy
  /** Checks the input and submits a job. The answer comes when the job is durable. */
  submit(input: Input, options?: SubmitOptions): Promise<Submitted>
  /** All or none: one transaction. */
  submitMany(inputs: readonly Input[], options?: SubmitManyOptions<Input>): Promise<Submitted[]>
  /** Checks it and submits nothing yet: for `app.submitIn`, as part of a transaction of yours. */
  prepare(input: Input, options?: SubmitOptions): Promise<PreparedJob>
  /** Submits nothing yet: what a batch is made of. */
  request(input: Input, options?: SubmitOptions): JobRequest
  /**
   * Waits until the job has ended, in whichever process, and returns how. The job's own failure is an outcome, not an
   * error. Throws WAIT_TIMEOUT when the time is over and JOB_NOT_FOUND when there is no such job.
   */
  result(id: string, options?: WaitOptions): Promise<Outcome<Output, Codes>>
  /**
   * Submits a job, waits until it has ended and returns its output. Throws `JobFailed` or `JobCancelled` where it has
   * none, and WAIT_TIMEOUT when the time is over; the job goes on then.
   */
  submitAndWait(input: Input, options?: SubmitOptions & WaitOptions): Promise<Output>
  /** A job of this type, with its input; null when there is none with this id. */
  find(id: string): Promise<TypedJobDetail<Input, Output, Codes> | null>
  /** Jobs of this type, newest first. */
  list(filter?: ListFilter<Codes>): Promise<TypedJobs<Output, Codes>>
  /** Whether this is the failure of a job of this type. */
  isFailure(error: unknown): error is JobFailed<Codes>
}

/** How long to wait for a job. */
export interface WaitOptions {
  /** As long as it takes when left out. */
  timeout?: Duration
  /** Ends the wait, not the job. */
  signal?: AbortSignal
}

export const WAIT_OPTIONS = optionNames<WaitOptions>({ timeout: true, signal: true })

/** A job as `app.jobs.list()` shows it, with the types of its job type. */
export type TypedJob<Output = unknown, Codes extends string = string> = Omit<JobView, 'result' | 'errorCode'> & {
  /** null until it is complete. */
  result: Output | null
  errorCode: Codes | EngineCode | null
}

type TypedJobDetail<Input, Output, Codes extends string> = TypedJob<Output, Codes> & { input: Input }

interface TypedJobs<Output, Codes extends string> {
  jobs: TypedJob<Output, Codes>[]
  /** Give it as `cursor` to go on; null when nothing is left. */
  nextCursor: string | null
}

export interface ListFilter<Codes extends string> {
  status?: Status
  owner?: string
  /** Only failed jobs that ended with this code. */
  code?: Codes | EngineCode
  /** Only jobs created since then: a time, or how long ago (`'2h'`). */
  since?: Date | string
  /** 50 when left out, at most 1,000. */
  limit?: number
  cursor?: string
}

/** Options with a key are functions, because each input has its own key. */
export type SubmitManyOptions<Input> = Omit<SubmitOptions, 'id' | OptionPerInput> & {
  dedupe?: (input: Input, index: number) => SubmitOptions['dedupe']
  debounce?: (input: Input, index: number) => SubmitOptions['debounce']
  throttle?: (input: Input, index: number) => SubmitOptions['throttle']
  singleton?: SingletonOf | ((input: Input, index: number) => SubmitOptions['singleton'])
  limitKey?: string | ((input: Input, index: number) => string | undefined)
}

export type OptionPerInput = 'dedupe' | 'debounce' | 'throttle' | 'singleton' | 'limitKey'

export const SUBMIT_MANY_OPTIONS = optionNames<SubmitManyOptions<unknown>>({
  owner: true,
  priority: true,
  delay: true,
  runAt: true,
  dedupe: true,
  debounce: true,
  throttle: true,
  ttl: true,
  singleton: true,
  limitKey: true,
  batch: true,
})
