import { type Duration, durationMs } from '../text/duration.ts'
import { optionNames, unknownOption } from '../text/options.ts'
import { publicLine } from '../text/public-line.ts'

/** The errors a handler or the engine throws on purpose; everything else that is thrown is a surprise to classify. */

export interface FailOptions {
  /** For operators: what really happened. */
  detail?: string | undefined
  context?: Record<string, unknown> | undefined
  cause?: unknown
  /** How long the other side asked us to wait: a lower bound beside the policy's backoff. */
  retryAfterMs?: number | undefined
  /** Appended to the public message, so every reader of the job sees it. One line of at most 200 characters is kept. */
  note?: string | undefined
  /** Trying again is useless this time, whatever the code says of itself: the disk is full, the input is what broke it. */
  final?: boolean | undefined
}

/** Thrown by `attempt.fail(code, ...)`: the handler knows the code, so no rule has to guess it. */
export class AttemptFailed<Code extends string = string> extends Error {
  override readonly name = 'AttemptFailed'
  readonly code: Code
  readonly context: Readonly<Record<string, unknown>>
  readonly retryAfterMs: number | null
  readonly publicNote: string | null
  readonly isFinal: boolean

  constructor(code: Code, options: FailOptions = {}) {
    // No stack: the handler says what happened, so where it stood explains nothing, and a stack is what a failure
    // costs most. That of a cause is kept.
    const message = options.detail ?? `the handler failed with ${code}`
    const cause = 'cause' in options ? { cause: options.cause } : undefined
    const { stackTraceLimit } = Error
    Error.stackTraceLimit = 0
    super(message, cause)
    Error.stackTraceLimit = stackTraceLimit
    this.code = code
    this.context = options.context ?? {}
    this.retryAfterMs = options.retryAfterMs ?? null
    this.publicNote = publicLine(options.note)
    this.isFinal = options.final === true
  }
}

/** The engine stopped one attempt at its time limit. */
export class AttemptTimeout extends Error {
  override readonly name = 'AttemptTimeout'
  readonly limitMs: number

  constructor(limitMs: number) {
    super(`the attempt was stopped at its limit of ${limitMs} ms`)
    this.limitMs = limitMs
  }
}

/** The job as a whole, all attempts and waits together, has used up its time. */
export class TotalTimeout extends Error {
  override readonly name = 'TotalTimeout'
  readonly limitMs: number

  constructor(limitMs: number) {
    super(`the job was stopped at its total limit of ${limitMs} ms`)
    this.limitMs = limitMs
  }
}

/** An attempt still ran after `orphan.stuckAfter`, so its job was taken back and queued again. */
export class AttemptStuck extends Error {
  override readonly name = 'AttemptStuck'
  readonly limitMs: number

  constructor(limitMs: number) {
    super(`the attempt was still running after ${limitMs} ms, and its job was taken back`)
    this.limitMs = limitMs
  }
}

/** One try of a stage took longer than it may. */
export class StageTimeout extends Error {
  override readonly name = 'StageTimeout'
  readonly limitMs: number

  constructor(stage: string, limitMs: number) {
    super(`a try of stage ${stage} was stopped at its limit of ${limitMs} ms`)
    this.limitMs = limitMs
  }
}

/** A handler in a thread or process of its own needed more memory than its limit. */
export class MemoryLimit extends Error {
  override readonly name = 'MemoryLimit'
  readonly limitMb: number | null

  constructor(limitMb: number | null, used: string | null = null) {
    const limit = limitMb === null ? 'the memory that Node gives it' : `its limit of ${limitMb} MB`
    super(`the handler needed more memory than ${limit}${used === null ? '' : ` (${used})`}`)
    this.limitMb = limitMb
  }
}

interface Crash {
  /** How it ended: 'exited with code 3', 'was killed by SIGSEGV'. */
  how: string
  exitCode: number | null
  signal: string | null
  stderrTail: string
  cause?: unknown
}

/** The thread or process of a handler ended before the handler answered. */
export class HandlerCrashed extends Error {
  override readonly name = 'HandlerCrashed'
  readonly exitCode: number | null
  readonly signal: string | null
  readonly stderrTail: string

  constructor({ how, exitCode, signal, stderrTail, ...rest }: Crash) {
    super(`the handler ${how} before it answered`, 'cause' in rest ? { cause: rest.cause } : undefined)
    this.exitCode = exitCode
    this.signal = signal
    this.stderrTail = stderrTail
  }
}

/** The module of a handler cannot be imported, or has no default function. */
export class HandlerNotLoaded extends Error {
  override readonly name = 'HandlerNotLoaded'
  readonly file: string

  constructor(file: string, problem: string, cause?: unknown) {
    super(`the handler ${file} ${problem}`, cause === undefined ? undefined : { cause })
    this.file = file
  }
}

/** What `attempt.fail(code, ...)` takes beside the code. */
export interface AttemptFailOptions extends Omit<FailOptions, 'retryAfterMs'> {
  /** How long the other side asked us to wait: a lower bound beside the policy's backoff. */
  retryAfter?: Duration
}

const FAIL_OPTIONS = optionNames<AttemptFailOptions>({
  detail: true,
  context: true,
  cause: true,
  note: true,
  final: true,
  retryAfter: true,
})

/** An unknown option is named in the detail: an error in its place would hide the code that the handler chose. */
export function failWith(code: string, { retryAfter, ...rest }: AttemptFailOptions = {}): AttemptFailed {
  const wait = retryAfter === undefined ? {} : { retryAfterMs: durationMs(retryAfter, 'retryAfter') }
  const unknown = unknownOption('fail()', rest, FAIL_OPTIONS)
  if (unknown === null) return new AttemptFailed(code, { ...rest, ...wait })
  const detail = `${rest.detail ?? `the handler failed with ${code}`}\n${unknown.problem} ${unknown.action}`
  return new AttemptFailed(code, { ...rest, ...wait, detail })
}

/** The handler's output does not fit the `output` schema of its type. */
export class OutputInvalid extends Error {
  override readonly name = 'OutputInvalid'
  readonly problems: readonly string[]

  constructor(type: string, problems: readonly string[]) {
    super(`the output does not fit ${type}`)
    this.problems = problems
  }
}
