import type { Rule } from '../../core/failure/classify.ts'
import type { ENGINE_CODES, Taxonomy } from '../../core/failure/taxonomy.ts'
import type { Policy, PolicyInput } from '../../core/policy/policy.ts'
import type { Duration } from '../../core/text/duration.ts'
import type { Schema } from '../../core/text/schema.ts'
import type { FailedBefore, RetryMode } from '../../operations/jobs/admit-retry.ts'
import type { LastSeenJob } from '../../operations/operation.ts'
import type { DedupeScope, Submitted } from '../../store/contract/store.ts'
import type { Attempt, AttemptFailOptions } from '../../worker/attempt/attempt.ts'
import type { PreparedJob } from './submission.ts'

type EngineCode = keyof typeof ENGINE_CODES & string

/**
 * A job type as its author writes it. Only `run` is needed. `Stored` is what is submitted, `Input` what the schema makes
 * of it; without a schema both are what `run` says it takes.
 */
export interface JobDefinition<Input, Stored, Codes extends string, Output> {
  /** Any Standard Schema (zod, valibot, arktype); checked at submission and again before each run. */
  input?: Schema<Stored, Input>
  codes?: Taxonomy<Codes>
  /**
   * The code from `codes` that owners see for every failure that `codes` does not list: a lost worker, a mark-failed,
   * a time limit of the engine. Operators see the engine's own code. When left out, owners see it too.
   */
  ownersSee?: NoInfer<Codes>
  policy?: Policy | PolicyInput
  /** Ordered: the first rule that matches gives the code. */
  classify?: readonly Rule<NoInfer<Codes> | EngineCode>[]
  /** Named group of types, shown and paused together; 'default' when left out. */
  queue?: string
  /** Runs at submission, after the schema. A throw (or `submission.fail`) refuses the job before any dispatch. */
  admit?(input: Input, submission: Submission<Codes | EngineCode>): unknown
  /**
   * Runs before a person retries or replays a failed job, where this program knows the type: does the source still
   * exist, and can it succeed with the same input? A throw (or `retry.fail`) refuses it with RETRY_REFUSED, and nothing is changed. Also asked when a job is
   * shown, to say whether it can be retried; so it must change nothing itself.
   */
  admitRetry?(input: Input, retry: Retry<Codes | EngineCode>): unknown
  /**
   * Where a job stood when its worker was lost, read from what its attempt left behind. It goes into the record when
   * a person marks the job as failed. Called only if this process declares the type. If it throws, the error is
   * recorded instead.
   */
  lastSeen?(
    input: Input,
    job: LastSeenJob,
  ): Readonly<Record<string, unknown>> | Promise<Readonly<Record<string, unknown>>>
  /** The failure log's (`audit: 'write-ahead'`) name for the state before a dispatch; 'queued' when left out. */
  queuedAs?: string
  /** Of the input, for those who share `concurrency.perKey` or a rate; wins over the one given with the submission. */
  limitKey?(input: Input): string | undefined | Promise<string | undefined>
  /**
   * How many jobs of this type one worker may run at once, called before each claim. Use it for a resource of the
   * machine, or for the current capacity of a service. The other jobs stay queued at no cost. When left out, the
   * number of slots of the worker. `concurrency` in the policy limits all workers together.
   */
  slotsMax?(): number
  /**
   * Runs after the claim and before the attempt begins: gets hold of what it needs, a lock or a machine. A throw is a
   * dispatch failure, of a job that never started. What it gives back is called when the attempt is over, however it
   * ended, and before its outcome is recorded.
   */
  acquire?(input: Input, attempt: Attempt<Codes | EngineCode>): Release | Promise<Release>
  run(input: Input, attempt: Attempt<Codes | EngineCode>): Output
  /** A throw here is a verification failure, never an execution one. */
  verify?(output: Awaited<NoInfer<Output>>, attempt: Attempt<Codes | EngineCode>): unknown
}

/** Lets go of what `acquire` got hold of. */
type Release = () => unknown

interface Submission<Codes extends string> {
  readonly type: string
  readonly owner: string | null
  fail(code: Codes, options?: AttemptFailOptions): never
}

/** A failed job that a person wants to retry. */
interface Retry<Codes extends string> {
  readonly jobId: string
  readonly type: string
  readonly owner: string | null
  /** null when the job is only shown. */
  readonly actor: string | null
  readonly mode: RetryMode
  /**
   * The last failure with the same input, so that a type can refuse a retry that cannot succeed. Null if the input
   * was edited.
   */
  readonly failure: FailedBefore | null
  fail(code: Codes, options?: AttemptFailOptions): never
}

export interface SubmitOptions {
  owner?: string
  /** Higher goes first. */
  priority?: number
  delay?: Duration
  /** One job per key. An array is joined without ambiguity. */
  dedupe?: DedupeKey | { key: DedupeKey; scope: DedupeScope }
  /** Jobs of one type with the same key share `concurrency.perKey` and a rate of scope 'key': a host, a tenant, an owner. */
  limitKey?: string
  /** A UUID of your own, so that you can submit again after an unknown answer without making a second job. */
  id?: string
  /** Id of an open batch to add it to. A job that is there already (see `dedupe`) stays where it is. */
  batch?: string
}

/** A submission that is yet to be made: for batches. */
export interface JobRequest {
  type: string
  input: unknown
  options?: SubmitOptions
}

export type DedupeKey = string | readonly (string | number | null)[]

export interface JobType<Input> {
  readonly name: string
  readonly policy: Policy
  submit(input: Input, options?: SubmitOptions): Promise<Submitted>
  /** All or none: one transaction. */
  submitMany(inputs: readonly Input[], options?: SubmitManyOptions<Input>): Promise<Submitted[]>
  /** Checks it and submits nothing yet: for `app.submitIn`, as part of a transaction of yours. */
  prepare(input: Input, options?: SubmitOptions): Promise<PreparedJob>
  /** Submits nothing yet: what a batch is made of. */
  request(input: Input, options?: SubmitOptions): JobRequest
}

export type SubmitManyOptions<Input> = Omit<SubmitOptions, 'id' | 'dedupe' | 'limitKey'> & {
  dedupe?: (input: Input, index: number) => SubmitOptions['dedupe']
  limitKey?: string | ((input: Input, index: number) => string | undefined)
}
