import { durationMs } from '../core/text/duration.ts'
import { type AttemptFailOptions, failWith, Snoozed } from '../worker/attempt/attempt.ts'
import type { PackedThrown } from './thrown.ts'

/** The value that a handler threw on the other side, so that rules and records treat it as one of this thread. */
export function rebuilt(packed: PackedThrown): unknown {
  switch (packed.kind) {
    case 'value':
      return packed.value
    case 'symbol':
      return Symbol(packed.text)
    case 'failed':
      return failed(packed)
    case 'snoozed':
      return snoozed(packed)
    case 'error':
      return error(packed)
  }
}

function failed({ code, options, cause }: PackedThrown & { kind: 'failed' }): unknown {
  const given = { ...options, ...(cause !== null && { cause: rebuilt(cause) }) }
  try {
    return failWith(String(code), given as AttemptFailOptions)
  } catch (invalid) {
    return invalid
  }
}

function snoozed({ delay, note }: PackedThrown & { kind: 'snoozed' }): unknown {
  try {
    return new Snoozed(durationMs(delay as number, 'snooze'), (note ?? null) as string | null)
  } catch (invalid) {
    return invalid
  }
}

function error({ name, message, stack, fields, cause, errors }: PackedThrown & { kind: 'error' }): unknown {
  const own = {
    ...fields,
    ...(cause !== null && { cause: rebuilt(cause) }),
    ...(errors.length > 0 && { errors: errors.map(rebuilt) }),
  }
  // An object that is no error has neither.
  if (stack === null) {
    return { ...own, ...(message !== '' && { message }), ...(name !== 'Object' && { name }) }
  }
  const made = new Error(message)
  for (const [key, value] of Object.entries(own)) setField(made, key, value)
  setField(made, 'name', name)
  setField(made, 'stack', stack)
  return made
}

const setField = (on: object, key: string, value: unknown): void => {
  Object.defineProperty(on, key, { value, writable: true, configurable: true, enumerable: false })
}
