import { clip, read, redactAndClip, redactValue } from './redact.ts'

const DETAIL_CHARS_MAX = 4000
const FRAMES_MAX = 20
const FRAME = '\n    at '
/** Where the engine enters the author's code: frames below it say nothing about the failure. */
const ENGINE_FRAME = '/worker/attempt/call-handler.'

/** The stack, or for things that have none a sentence: what an operator needs to see. Redacted and bounded. */
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

/** What has no frames of its own (`attempt.fail` takes none) is placed by those of its cause. */
function withCause(told: string, thrown: object): string {
  const cause = read(thrown, 'cause')
  const stack = told.includes(FRAME) ? undefined : read(cause, 'stack')
  if (typeof stack !== 'string' || stack === '') return told
  return clip(`${told}\ncaused by ${boundedStack(stack, nameOf(cause), messageOf(cause))}`, DETAIL_CHARS_MAX)
}

function boundedStack(stack: string, name: string, message: string): string {
  const framesAt = stack.indexOf(FRAME)
  const head = framesAt < 0 ? stack : stack.slice(0, framesAt)
  // The engine writes the head when the error is made; a name or message set afterwards is not in it.
  const isCurrent = head.startsWith(name) && head.includes(message)
  const told = redactAndClip(isCurrent ? head : `${name}: ${message}`, DETAIL_CHARS_MAX / 2)
  if (framesAt < 0) return told
  let end = framesAt
  for (let n = 0; n < FRAMES_MAX && end >= 0; n++) end = stack.indexOf('\n', end + 1)
  const engineAt = stack.indexOf(ENGINE_FRAME, framesAt)
  if (engineAt >= 0 && (end < 0 || engineAt < end)) end = stack.lastIndexOf(FRAME, engineAt)
  const frames = stack.slice(framesAt, end < 0 ? undefined : end)
  return told + redactAndClip(frames, DETAIL_CHARS_MAX - told.length)
}

/** A class that forgot to set its name is known by its constructor. */
export function nameOf(value: unknown): string {
  if (typeof value !== 'object' || value === null) return value === null ? 'null' : typeof value
  const name = read(value, 'name')
  const isNamed = typeof name === 'string' && name !== '' && name !== 'Error'
  const known = isNamed ? name : read(read(value, 'constructor'), 'name')
  return typeof known === 'string' && known !== '' ? redactAndClip(known, 100) : 'Object'
}

export function messageOf(value: unknown): string {
  if (typeof value === 'string') return value
  const message = read(value, 'message')
  return typeof message === 'string' ? message : ''
}
