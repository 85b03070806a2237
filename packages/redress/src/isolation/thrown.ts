import { clip, read } from '../core/text/redact.ts'

/** Fields of an error that classification reads, also where they are getters of a class. */
const READ_FIELDS = [
  'code',
  'errno',
  'syscall',
  'status',
  'statusCode',
  'exitCode',
  'signal',
  'killed',
  'timedOut',
  'subject',
  'path',
  'retryAfter',
  'retryAfterMs',
  '$fault',
  '$metadata',
  'Code',
  'limitMs',
]
const LINKS_MAX = 8
const MESSAGE_CHARS_MAX = 10_000
const STACK_CHARS_MAX = 20_000
const FIELDS_CHARS_MAX = 20_000
const STDERR_CHARS_MAX = 16_000

/** A thrown value on its way from one thread or process to another. */
export type PackedThrown =
  | { kind: 'value'; value: unknown }
  | { kind: 'symbol'; text: string }
  | {
      kind: 'error'
      name: string
      message: string
      stack: string | null
      fields: Record<string, unknown>
      cause: PackedThrown | null
      errors: PackedThrown[]
    }
  /** `attempt.fail` and `attempt.snooze`. */
  | { kind: 'failed'; code: unknown; options: Record<string, unknown> | undefined; cause: PackedThrown | null }
  | { kind: 'snoozed'; delay: unknown; note: unknown }

/** Thrown by `attempt.fail` on the handler's side; the worker makes its own error of it. */
export class Failing extends Error {
  override readonly name = 'AttemptFailed'
  readonly code: unknown
  readonly options: Record<string, unknown> | undefined

  constructor(code: unknown, options: Record<string, unknown> | undefined) {
    super(typeof options?.detail === 'string' ? options.detail : `the handler failed with ${String(code)}`)
    this.code = code
    this.options = options
  }
}

/** Thrown by `attempt.snooze` on the handler's side. */
export class Snoozing extends Error {
  override readonly name = 'Snoozed'
  readonly delay: unknown
  readonly note: unknown

  constructor(delay: unknown, note: unknown) {
    super('the handler put the job back for later')
    this.delay = delay
    this.note = note
  }
}

/** Never throws: anything can be thrown, also a proxy whose every trap throws. `isOwn` says where our own frames begin. */
export function packThrown(thrown: unknown, isOwn: (frame: string) => boolean, linksLeft = LINKS_MAX): PackedThrown {
  if (typeof thrown === 'symbol') return { kind: 'symbol', text: thrown.description ?? '' }
  if (typeof thrown === 'function') return { kind: 'value', value: 'a function' }
  if (typeof thrown !== 'object' || thrown === null) return { kind: 'value', value: clipped(thrown) }
  try {
    const cause = read(thrown, 'cause')
    const packedCause =
      cause === undefined || cause === null || linksLeft <= 1 ? null : packThrown(cause, isOwn, linksLeft - 1)
    if (thrown instanceof Failing) {
      const { code, options } = thrown
      const given = options?.cause
      const packed = given === undefined || given === null ? null : packThrown(given, isOwn, linksLeft - 1)
      const { cause: _, ...rest } = options ?? {}
      return { kind: 'failed', code: clipped(code), options: options && plainFields(rest), cause: packed }
    }
    if (thrown instanceof Snoozing) return { kind: 'snoozed', delay: plain(thrown.delay), note: plain(thrown.note) }
    return {
      kind: 'error',
      name: nameOf(thrown),
      message: clip(textOf(read(thrown, 'message')), MESSAGE_CHARS_MAX),
      stack: stackOf(read(thrown, 'stack'), isOwn),
      fields: fieldsOf(thrown),
      cause: packedCause,
      errors: errorsOf(thrown, isOwn, linksLeft - 1),
    }
  } catch {
    return { kind: 'value', value: 'an object that cannot be read' }
  }
}

function errorsOf(thrown: object, isOwn: (frame: string) => boolean, linksLeft: number): PackedThrown[] {
  const errors = read(thrown, 'errors')
  const packed: PackedThrown[] = []
  for (let n = 0; errors !== undefined && n < linksLeft; n++) {
    const error = read(errors, n)
    if (error !== undefined && error !== null) packed.push(packThrown(error, isOwn, linksLeft - 1))
  }
  return packed
}

function fieldsOf(thrown: object): Record<string, unknown> {
  const given: Record<string, unknown> = {}
  for (const name of READ_FIELDS) given[name] = read(thrown, name)
  for (const name of Object.keys(thrown)) given[name] ??= read(thrown, name)
  const { cause: _cause, errors: _errors, name: _name, message: _message, stack: _stack, ...own } = given
  const stderr = read(thrown, 'stderrTail') ?? read(thrown, 'stderr')
  const response = read(thrown, 'response')
  const headers = read(response, 'headers') ?? read(thrown, 'headers')
  const status = read(response, 'status') ?? read(response, 'statusCode')
  delete own.stderr
  delete own.response
  delete own.headers
  return {
    ...plainFields(own),
    ...(stderr !== undefined && { stderrTail: stderrText(stderr) }),
    ...(response !== undefined && response !== null && { response: { status: plain(status) } }),
    ...(headers !== undefined && headers !== null && { headers: { 'retry-after': retryAfterIn(headers) } }),
  }
}

function retryAfterIn(headers: unknown): unknown {
  const get = read(headers, 'get')
  try {
    if (typeof get === 'function') return plain(get.call(headers, 'retry-after')) ?? undefined
  } catch {
    return undefined
  }
  return plain(read(headers, 'retry-after') ?? read(headers, 'Retry-After'))
}

function stderrText(stderr: unknown): string {
  const text = ArrayBuffer.isView(stderr) ? new TextDecoder().decode(stderr as Uint8Array) : textOf(stderr)
  return text.slice(-STDERR_CHARS_MAX)
}

/** Each field as JSON keeps it, as far as it can and they are not too large. */
export function plainFields(fields: object): Record<string, unknown> {
  const kept: Record<string, unknown> = {}
  let charsLeft = FIELDS_CHARS_MAX
  for (const name of Object.keys(fields)) {
    const text = jsonOf(read(fields, name))
    if (text === undefined || text.length > charsLeft) continue
    charsLeft -= text.length
    kept[name] = JSON.parse(text)
  }
  return kept
}

function plain(value: unknown): unknown {
  const text = jsonOf(value)
  return text === undefined ? undefined : JSON.parse(text)
}

function jsonOf(value: unknown): string | undefined {
  try {
    return JSON.stringify(value, (_, part) => (typeof part === 'bigint' ? String(part) : part))
  } catch {
    // A cycle, or a toJSON that throws.
    return undefined
  }
}

/** The frames of the author's code; those that called it explain nothing. */
function stackOf(stack: unknown, isOwn: (frame: string) => boolean): string | null {
  if (typeof stack !== 'string') return null
  const lines = stack.split('\n')
  const end = lines.findIndex((line) => line.startsWith('    at ') && isOwn(line))
  return clip((end < 0 ? lines : lines.slice(0, end)).join('\n'), STACK_CHARS_MAX)
}

/** A class that forgot to set its name is known by its constructor. */
function nameOf(thrown: object): string {
  const name = read(thrown, 'name')
  const known =
    typeof name === 'string' && name !== '' && name !== 'Error' ? name : read(read(thrown, 'constructor'), 'name')
  return typeof known === 'string' && known !== '' ? clip(known, 200) : 'Object'
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '')
const clipped = (value: unknown): unknown => (typeof value === 'string' ? clip(value, MESSAGE_CHARS_MAX) : value)
