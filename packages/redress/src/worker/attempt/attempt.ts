import { type AttemptFailOptions, failWith } from '../../core/failure/attempt-failed.ts'
import type { StageOptions, StageSummary } from '../../core/failure/stage.ts'
import { logEntryOf, type ProgressGiven, progressOf } from '../../core/job/reports.ts'
import { type Duration, durationMs } from '../../core/text/duration.ts'
import { publicLine } from '../../core/text/public-line.ts'
import type { Lease } from '../../store/contract/store.ts'
import type { ReportBook } from './report-book.ts'
import { type GivenUp, runStage, StageBook, type StageHost, type StageWork } from './stage.ts'

export { type AttemptFailOptions, failWith }

/** The facts that an attempt needs. A flight is one. */
export interface AttemptHost extends StageHost {
  readonly span: { readonly traceparent: string } | null
  /** What the handler reports. Made when it is first asked for. */
  book(): ReportBook
}

const NO_LOCALS = Object.freeze({})

/**
 * One numbered dispatch of a job, as its handler sees it. `Code` narrows `fail` to the type's own taxonomy; `Locals` is
 * what the middleware of the app adds.
 */
export class Attempt<Code extends string = string, Locals extends object = object> {
  readonly #lease: Lease
  #controller: AbortController | null = null
  #stopReason: unknown
  /** Most attempts have neither. */
  #context: Record<string, unknown> | null = null
  #stages: StageBook | null = null
  #locals: object | null = null
  readonly #host: AttemptHost

  constructor(lease: Lease, host: AttemptHost) {
    this.#lease = lease
    this.#host = host
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

  /**
   * The `traceparent` to send with the attempt's own calls, where no instrumentation does it: the attempt's span, or the
   * trace of its submission where nothing is traced here.
   */
  get traceparent(): string | null {
    return this.#host.span?.traceparent ?? this.#lease.trace
  }

  /** Aborted when the work no longer counts: lease lost, time over, cancelled, or the worker stops. */
  get signal(): AbortSignal {
    // Made when it is first read: it is expensive, and most handlers of short jobs never read it.
    if (this.#controller === null) {
      this.#controller = new AbortController()
      if (this.#stopReason !== undefined) this.#controller.abort(this.#stopReason)
    }
    return this.#controller.signal
  }

  /**
   * How far the work is: a fraction from 0 to 1, or how much of how much is done, with a note for people. It is an event
   * `job.progress`, at most once a second, and the job shows it. The owner of the job sees the note.
   */
  progress(progress: ProgressGiven): void {
    this.#host.book().progress(progressOf(progress))
  }

  /**
   * Keeps a line with the attempt, for operators: `redress jobs logs`, the page of the job, the event `job.log`. Secrets are
   * removed. An attempt keeps 1,000 lines of 2,000 characters; later ones are counted and dropped.
   */
  log(message: string, fields?: Readonly<Record<string, unknown>>): void {
    this.#host.book().log(logEntryOf(message, fields))
  }

  /** What the middleware of the app passed to `next`. Empty without middleware. */
  get locals(): Readonly<Locals> {
    return (this.#locals ?? NO_LOCALS) as Readonly<Locals>
  }

  /** Ends the attempt with a code of the taxonomy. */
  fail(code: Code, options?: AttemptFailOptions): never {
    throw failWith(code, options)
  }

  /** Facts about this attempt. If it fails, they are part of the failure's context. */
  context(fields: Record<string, unknown>): void {
    this.#context = { ...this.#context, ...fields }
  }

  /**
   * A part of the work with tries of its own: it is tried again, within this attempt, while the taxonomy calls its
   * error transient. Rejects with its last error when it gives up; what was tried is kept with the attempt.
   */
  stage<T>(name: string, options: StageOptions<Code>, work: StageWork<T, Code>): Promise<Awaited<T>> {
    this.#stages ??= new StageBook(this.#host)
    return runStage({ book: this.#stages, path: '', signal: () => this.signal }, name, options, work)
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

  /** For the worker: why the handler was told to stop, if it was. */
  static stopReasonOf(attempt: Attempt): unknown {
    return attempt.#stopReason
  }

  /** For the worker: what a middleware passed to `next`. Wins over locals of the same name. */
  static addLocals(attempt: Attempt, added: unknown): void {
    if (typeof added !== 'object' || added === null || Array.isArray(added)) {
      const kind = added === null ? 'null' : Array.isArray(added) ? 'an array' : typeof added
      throw new TypeError(`next() takes an object, such as next({ db }); got ${kind}`)
    }
    attempt.#locals = { ...attempt.#locals, ...added }
  }

  /** For the worker: the context that the handler added. */
  static contextOf(attempt: Attempt): Readonly<Record<string, unknown>> | null {
    return attempt.#context
  }

  /** For the worker: the stage that gave up with this error, or was cut short by this time limit. */
  static givenUpWith(attempt: Attempt, thrown: unknown, isTimeLimit: boolean): GivenUp | null {
    if (attempt.#stages === null) return null
    return isTimeLimit ? attempt.#stages.cutShort() : attempt.#stages.givenUpWith(thrown)
  }

  /** For a handler in a thread or process: the largest result that the worker keeps. */
  static resultBytesMaxOf(attempt: Attempt): number {
    return attempt.#host.runtime.resultBytesMax
  }

  /** For the worker: the stages with failed tries, if there are any. */
  static stagesOf(attempt: Attempt): readonly StageSummary[] | null {
    return attempt.#stages?.summary() ?? null
  }
}

/** Why the signal of an attempt fired: the lease is lost, and another worker may run the job now. */
export class LeaseLost extends Error {
  override readonly name = 'LeaseLost'
  constructor() {
    super('the lease of this attempt was lost: another worker may have the job, and nothing written here will count')
  }
}

/** Why the signal of an attempt fired: a person cancelled the job. */
export class Cancelled extends Error {
  override readonly name = 'Cancelled'
  readonly actor: string
  readonly reason: string
  constructor(actor: string, reason: string) {
    super(`${actor || 'somebody'} cancelled the job: ${reason || 'no reason given'}`)
    this.actor = actor
    this.reason = reason
  }
}

/** Why the signal of an attempt fired: the worker stops, and its time to finish is over. */
export class ShuttingDown extends Error {
  override readonly name = 'ShuttingDown'
  constructor() {
    super('the worker is stopping and its time to finish is over')
  }
}

/** Thrown by `attempt.snooze`: the job goes back to the queue and nothing is spent. */
export class Snoozed extends Error {
  override readonly name = 'Snoozed'
  readonly delayMs: number
  readonly note: string | null
  constructor(delayMs: number, note: string | null) {
    super('the handler put the job back for later')
    this.delayMs = delayMs
    this.note = publicLine(note)
  }
}
