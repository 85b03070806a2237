import { type Duration, durationMs } from '../text/duration.ts'

/** The errors a handler or the engine throws on purpose; everything else that is thrown is a surprise to classify. */

const NOTE_CHARS_MAX = 200

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

/** 'at run (/srv/app/convert.ts:12:7)' or 'at Array.map (<anonymous>)', on its own line or after others. */
const STACK_FRAME =
  /\s+at (?:[^\n()]{1,200} )?(?:\(?(?:file:|node:|\/|[A-Za-z]:\\)[^\s()]*:\d+:\d+\)?|\(<anonymous>\)|(?<=Promise\.\w+ )\(index \d+\))/g
/** The last frame where the limit cut it off: in its location, or already in the name of its function. */
const CUT_FRAME =
  /\s+at (?:[^\n()]{1,200} )?\(?(?:file:|node:|\/|[A-Za-z]:\\)[^\s()]*$|\s+at [^\n()]{0,200}\(?$|\s+at?$/
const READ_CHARS_MAX = 4 * NOTE_CHARS_MAX

/** A handler's message to the owner of its job, as one line. Code locations are removed. */
export function publicLine(note: unknown): string | null {
  if (typeof note !== 'string') return null
  // Control characters must reach neither a page nor a terminal.
  const line = note
    .slice(0, READ_CHARS_MAX)
    .replace(STACK_FRAME, '')
    .replace(note.length > READ_CHARS_MAX ? CUT_FRAME : '', '')
    .replace(/[\s\p{Cc}]+/gu, ' ')
    .trim()
  if (line === '') return null
  return line.length <= NOTE_CHARS_MAX ? line : `${line.slice(0, NOTE_CHARS_MAX - 1)}…`
}

export interface AttemptFailOptions extends Omit<FailOptions, 'retryAfterMs'> {
  /** How long the other side asked us to wait: a lower bound beside the policy's backoff. */
  retryAfter?: Duration
}

export function failWith(code: string, { retryAfter, ...rest }: AttemptFailOptions = {}): AttemptFailed {
  const wait = retryAfter === undefined ? {} : { retryAfterMs: durationMs(retryAfter, 'retryAfter') }
  return new AttemptFailed(code, { ...rest, ...wait })
}
