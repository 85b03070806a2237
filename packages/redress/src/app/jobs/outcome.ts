import type { EngineCode } from '../../core/failure/taxonomy.ts'
import type { FailureView } from '../../core/views/job.ts'

/** A job has failed for good. `message` is the public text of its code. */
export class JobFailed<Codes extends string = string> extends Error {
  override readonly name = 'JobFailed'
  readonly jobId: string
  readonly type: string
  readonly code: Codes | EngineCode
  /** The failure that ended it, with the decision about it. */
  readonly failure: FailureView
  /** Why it failed, as `redress jobs explain` prints it. */
  readonly explanation: string

  constructor(job: { id: string; type: string }, failure: FailureView, explanation: string) {
    super(failure.message)
    this.jobId = job.id
    this.type = job.type
    this.code = failure.code as Codes | EngineCode
    this.failure = failure
    this.explanation = explanation
  }
}

/** A person cancelled the job. */
export class JobCancelled extends Error {
  override readonly name = 'JobCancelled'
  readonly jobId: string
  readonly type: string
  /** Who cancelled it, and why, as the audit trail keeps them. */
  readonly actor: string | null
  readonly reason: string | null

  constructor(job: { id: string; type: string }, actor: string | null, reason: string | null) {
    super(`Job ${job.id} was cancelled${actor === null ? '' : ` by ${actor}`}${reason === null ? '' : `: ${reason}`}`)
    this.jobId = job.id
    this.type = job.type
    this.actor = actor
    this.reason = reason
  }
}

/** How a job ended. */
export type Outcome<Output = unknown, Codes extends string = string> =
  | { kind: 'complete'; jobId: string; output: Output }
  | { kind: 'failed'; jobId: string; error: JobFailed<Codes> }
  | { kind: 'cancelled'; jobId: string; error: JobCancelled }

/** A job of a batch, with its input and how it ended, or where it stands. */
export interface BatchChild<Input = unknown, Output = unknown, Codes extends string = string> {
  jobId: string
  input: Input
  outcome: Outcome<Output, Codes> | { kind: 'unfinished'; jobId: string; status: 'queued' | 'processing' }
}

/** A value as JSON gives it back: a Date is a text, methods are gone. */
export type Jsonified<T> = unknown extends T
  ? T
  : T extends string | number | boolean | null | undefined
    ? T
    : T extends { toJSON(): infer Json }
      ? Jsonified<Json>
      : T extends Unkept
        ? never
        : T extends readonly unknown[]
          ? { [Index in keyof T]: Jsonified<T[Index]> }
          : { [Name in keyof T as T[Name] extends Unkept ? never : Name]: Jsonified<T[Name]> }

// biome-ignore lint/suspicious/noExplicitAny: every function, whatever it takes
type Unkept = ((...given: any[]) => unknown) | symbol | bigint

/** The output of a job as it is stored. A handler that returns nothing leaves null. */
export type ResultOf<T> = unknown extends T ? T : T extends void ? null : Jsonified<T>
