import { clip, read, redactAndClip, redactText, redactValue } from '../text/redact.ts'
import { AttemptFailed } from './attempt-failed.ts'
import type { CauseLink, Phase } from './failure.ts'
import { retryAfterHeaderMs } from './retry-after.ts'

/**
 * What can be said for certain about a thrown value, whatever it is: rules match on these, never on the value itself.
 * Each fact comes from the outermost link of the cause chain that has it. Texts are redacted and bounded.
 */
export interface Facts {
  phase: Phase
  name: string
  message: string
  /** The platform's own code: ENOSPC, ECONNREFUSED, UND_ERR_HEADERS_TIMEOUT, an SQLSTATE. */
  errno: string | null
  syscall: string | null
  exitCode: number | null
  signal: string | null
  httpStatus: number | null
  s3Code: string | null
  /** What the failure is about, if the thrower said so: 'input', 'output', ... */
  subject: string | null
  isTimeout: boolean
  /** Which of the engine's own limits stopped the work. */
  engineLimit: 'attempt' | 'total' | 'stage' | null
  stderrTail: string | null
  retryAfterMs: number | null
  /** A Retry-After that is a date: turning it into a delay needs a clock; see retryAfterMs(). */
  retryAfterText: string | null
  /** The code the handler failed with on purpose. */
  code: string | null
}

const LINKS_MAX = 8
const MESSAGE_CHARS_MAX = 2000
const CAUSE_CHARS_MAX = 500
const STDERR_CHARS_MAX = 4000

const PLATFORM_CODE = /^[A-Z0-9][A-Z0-9_]{2,63}$/
const CLOUD_CODE = /^[A-Z][a-z]+[A-Za-z0-9]*$/
const TIMEOUT_CODE = /TIMEDOUT$|_TIMEOUT$/
const SIGNAL_NAME = /^SIG[A-Z0-9]{2,10}$/

/** Anything can be thrown, also a proxy whose every trap throws: then `instanceof` itself would throw. */
export function isInstance<T>(thrown: unknown, type: abstract new (...args: never[]) => T): thrown is T {
  try {
    return thrown instanceof type
  } catch {
    return false
  }
}

/** The thrown value and what caused it, outermost first; cycles are cut. */
export function chainOf(thrown: unknown): unknown[] {
  const chain = [thrown]
  for (let i = 0; i < chain.length && chain.length < LINKS_MAX; i++) {
    const cause = read(chain[i], 'cause')
    if (cause !== undefined && cause !== null && !chain.includes(cause)) chain.push(cause)
    // AggregateError: one connection attempt per address, for example.
    const errors = read(chain[i], 'errors')
    for (let n = 0; errors !== undefined && n < LINKS_MAX && chain.length < LINKS_MAX; n++) {
      const error = read(errors, n)
      if (error !== undefined && error !== null && !chain.includes(error)) chain.push(error)
    }
  }
  return chain
}

export function factsOf(thrown: unknown, phase: Phase, chain = chainOf(thrown)): Facts {
  const facts: Facts = {
    phase,
    name: nameOf(thrown),
    message: redactAndClip(chain.map(messageOf).find((message) => message !== '') ?? '', MESSAGE_CHARS_MAX),
    errno: null,
    syscall: null,
    exitCode: null,
    signal: null,
    httpStatus: null,
    s3Code: null,
    subject: null,
    isTimeout: false,
    engineLimit: null,
    stderrTail: null,
    retryAfterMs: null,
    retryAfterText: null,
    code: null,
  }
  for (const link of chain) {
    const declared = asAttemptFailed(link)
    if (declared === null) gather(facts, link)
    else {
      facts.code ??= text(read(declared, 'code'))
      facts.retryAfterMs ??= milliseconds(read(declared, 'retryAfterMs'))
    }
  }
  return facts
}

export function asAttemptFailed(value: unknown): AttemptFailed | null {
  try {
    return value instanceof AttemptFailed ? value : null
  } catch {
    return null
  }
}

function gather(facts: Facts, link: unknown): void {
  if (typeof link !== 'object' || link === null) return
  const name = nameOf(link)
  const code = read(link, 'code')
  if (typeof code === 'string') {
    if (PLATFORM_CODE.test(code)) facts.errno ??= code
    else if (CLOUD_CODE.test(code)) facts.s3Code ??= code
  }
  facts.syscall ??= text(read(link, 'syscall'))
  facts.subject ??= text(read(link, 'subject'))
  if (name === 'AttemptTimeout') facts.engineLimit ??= 'attempt'
  if (name === 'TotalTimeout') facts.engineLimit ??= 'total'
  if (name === 'StageTimeout') facts.engineLimit ??= 'stage'
  facts.isTimeout ||= name === 'TimeoutError' || name === 'AttemptTimeout' || name === 'StageTimeout'
  facts.isTimeout ||= read(link, 'timedOut') === true
  facts.isTimeout ||= typeof code === 'string' && TIMEOUT_CODE.test(code)
  // A RedressError has an exit code and a status too, but they are those of our own doors.
  if (name === 'RedressError') return
  const isProcess = gatherProcess(facts, link, code)
  gatherHttp(facts, link, name, isProcess)
}

/** Says whether this is the error of a program that was run. */
function gatherProcess(facts: Facts, link: object, code: unknown): boolean {
  const signal = read(link, 'signal')
  const stderr = read(link, 'stderrTail') ?? read(link, 'stderr')
  facts.exitCode ??= integer(read(link, 'exitCode'))
  // A number called `code` or `status` is an exit code only on something that looks like a process: on a DOMException,
  // a gRPC or a MongoDB error it means something else.
  const isProcess = typeof signal === 'string' || stderr !== undefined || typeof read(link, 'killed') === 'boolean'
  if (isProcess) facts.exitCode ??= integer(code) ?? integer(read(link, 'status'))
  if (typeof signal === 'string' && SIGNAL_NAME.test(signal)) facts.signal ??= signal
  if (stderr !== undefined) facts.stderrTail ??= stderrTail(stderr)
  return isProcess
}

function gatherHttp(facts: Facts, link: object, name: string, isProcess: boolean): void {
  const metadata = read(link, '$metadata')
  const response = read(link, 'response')
  const awsStatus = httpStatus(read(metadata, 'httpStatusCode'))
  const status = isProcess ? null : httpStatus(read(link, 'status'))
  facts.httpStatus ??=
    status ??
    httpStatus(read(link, 'statusCode')) ??
    awsStatus ??
    httpStatus(read(response, 'status')) ??
    httpStatus(read(response, 'statusCode'))
  // The AWS SDK puts $metadata on its network errors too; only an answer of the service has a fault or a status.
  if (metadata !== undefined && (awsStatus !== null || typeof read(link, '$fault') === 'string')) {
    facts.s3Code ??= text(read(link, 'Code')) ?? name
  }
  const headers = read(response, 'headers') ?? read(link, 'headers') ?? read(read(link, '$response'), 'headers')
  const after = read(link, 'retryAfter') ?? (headers === undefined ? undefined : retryAfterHeader(headers))
  facts.retryAfterMs ??= milliseconds(read(link, 'retryAfterMs')) ?? seconds(after)
  if (typeof after === 'string' && facts.retryAfterMs === null) facts.retryAfterText ??= clip(after, 100)
}

function retryAfterHeader(headers: unknown): unknown {
  const get = read(headers, 'get')
  try {
    if (typeof get === 'function') return get.call(headers, 'retry-after')
  } catch {
    return undefined
  }
  return read(headers, 'retry-after') ?? read(headers, 'Retry-After')
}

function stderrTail(stderr: unknown): string | null {
  const tail = typeof stderr === 'string' ? stderr.slice(-4 * STDERR_CHARS_MAX) : decodedTail(stderr)
  // Redacted before the final cut, for the reason given at redactAndClip.
  const safe = redactText(tail).trimEnd()
  return safe === '' ? null : clip(safe.slice(-STDERR_CHARS_MAX), STDERR_CHARS_MAX)
}

function decodedTail(bytes: unknown): string {
  if (!ArrayBuffer.isView(bytes)) return ''
  try {
    const lengthKept = Math.min(bytes.byteLength, 4 * STDERR_CHARS_MAX)
    const offset = bytes.byteOffset + bytes.byteLength - lengthKept
    return new TextDecoder().decode(new Uint8Array(bytes.buffer, offset, lengthKept))
  } catch {
    // Memory that is shared or was given away cannot be decoded.
    return ''
  }
}

/** The delay the other side asked for, if it did. */
export function retryAfterMs(facts: Facts, nowMs: number): number | null {
  if (facts.retryAfterMs !== null || facts.retryAfterText === null) return facts.retryAfterMs
  return retryAfterHeaderMs(facts.retryAfterText, nowMs)
}

/** What lies below the thrown value, outermost first. */
export function causesOf(thrown: unknown, chain = chainOf(thrown)): CauseLink[] {
  return chain.slice(1).map((link) => {
    const cause = { name: nameOf(link), message: redactAndClip(messageOf(link), CAUSE_CHARS_MAX) }
    const code = read(link, 'code')
    return typeof code === 'string' || typeof code === 'number'
      ? { ...cause, code: redactAndClip(`${code}`, 100) }
      : cause
  })
}

function text(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? redactAndClip(value, 200) : null
}

function integer(value: unknown): number | null {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 ? value : null
}

function httpStatus(value: unknown): number | null {
  const status = integer(value)
  return status !== null && status >= 100 && status <= 599 ? status : null
}

function milliseconds(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? Math.ceil(value) : null
}

function seconds(value: unknown): number | null {
  if (typeof value === 'string' && /^\d{1,9}$/.test(value.trim())) return Number(value) * 1000
  return typeof value === 'number' ? milliseconds(value * 1000) : null
}

const DETAIL_CHARS_MAX = 4000
const FRAMES_MAX = 20
const FRAME = '\n    at '
/** Where the engine enters the author's code: frames below it say nothing about the failure. */
const ENGINE_FRAME = '/worker/attempt/call-handler.'

/** The stack, or a sentence for a value without one, for operators. Redacted and bounded. */
export function describe(thrown: unknown): string {
  if (typeof thrown === 'string') {
    return clip(
      `the handler threw a string: ${JSON.stringify(redactAndClip(thrown, DETAIL_CHARS_MAX))}`,
      DETAIL_CHARS_MAX,
    )
  }
  if (thrown === null || thrown === undefined) return `the handler threw ${thrown}`
  if (typeof thrown === 'function') return 'the handler threw a function'
  if (typeof thrown !== 'object') {
    return redactAndClip(`the handler threw a ${typeof thrown}: ${String(thrown)}`, DETAIL_CHARS_MAX)
  }
  const stack = read(thrown, 'stack')
  const message = messageOf(thrown)
  if (typeof stack === 'string' && stack !== '') return withCause(boundedStack(stack, nameOf(thrown), message), thrown)
  if (message !== '') return redactAndClip(`${nameOf(thrown)}: ${message}`, DETAIL_CHARS_MAX)
  const copied = redactValue(thrown)
  if (copied === '[unreadable]') return 'the handler threw an object that cannot be read'
  return clip(`the handler threw an object: ${JSON.stringify(copied)}`, DETAIL_CHARS_MAX)
}

/** An error without stack frames (`attempt.fail` takes none) is shown with those of its cause. */
function withCause(text: string, thrown: object): string {
  const cause = read(thrown, 'cause')
  const stack = text.includes(FRAME) ? undefined : read(cause, 'stack')
  if (typeof stack !== 'string' || stack === '') return text
  return clip(`${text}\ncaused by ${boundedStack(stack, nameOf(cause), messageOf(cause))}`, DETAIL_CHARS_MAX)
}

function boundedStack(stack: string, name: string, message: string): string {
  const framesAt = stack.indexOf(FRAME)
  const head = framesAt < 0 ? stack : stack.slice(0, framesAt)
  // The engine writes the head when the error is made; a name or message set afterwards is not in it.
  const isCurrent = head.startsWith(name) && head.includes(message)
  const text = redactAndClip(isCurrent ? head : `${name}: ${message}`, DETAIL_CHARS_MAX / 2)
  if (framesAt < 0) return text
  let end = framesAt
  for (let n = 0; n < FRAMES_MAX && end >= 0; n++) end = stack.indexOf('\n', end + 1)
  const engineAt = stack.indexOf(ENGINE_FRAME, framesAt)
  if (engineAt >= 0 && (end < 0 || engineAt < end)) end = stack.lastIndexOf(FRAME, engineAt)
  const frames = stack.slice(framesAt, end < 0 ? undefined : end)
  return text + redactAndClip(frames, DETAIL_CHARS_MAX - text.length)
}

/** A class that forgot to set its name is known by its constructor. */
function nameOf(value: unknown): string {
  if (typeof value !== 'object' || value === null) return value === null ? 'null' : typeof value
  const name = read(value, 'name')
  const isNamed = typeof name === 'string' && name !== '' && name !== 'Error'
  const known = isNamed ? name : read(read(value, 'constructor'), 'name')
  return typeof known === 'string' && known !== '' ? redactAndClip(known, 100) : 'Object'
}

function messageOf(value: unknown): string {
  if (typeof value === 'string') return value
  const message = read(value, 'message')
  return typeof message === 'string' ? message : ''
}
