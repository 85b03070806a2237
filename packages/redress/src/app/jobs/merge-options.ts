import { RedressError } from '../../core/errors.ts'
import type { Merge } from '../../core/job/merging.ts'
import { isSingletonKey, singletonLimitKey } from '../../core/limits/singleton.ts'
import { type Duration, durationMs } from '../../core/text/duration.ts'
import { optionNames, refuseUnknownOptions } from '../../core/text/options.ts'
import { timeMs } from '../../runtime/moment.ts'
import type { DedupeScope, NewJob } from '../../store/contract/store.ts'
import type { DedupeKey, SingletonOf, SubmitOptions } from './job-type.ts'

/** The options by which a submission meets other jobs of its type, and those that say when it may run. */

const DEDUPE_CHARS_MAX = 1_000
/** These keys are part of indexes with other columns, whose entries PostgreSQL bounds. */
const KEY_CHARS_MAX = 500
const LIMIT_KEY_CHARS_MAX = 200
const DEDUPE_SCOPES: readonly DedupeScope[] = ['live', 'always']
const SINGLETONS: readonly SingletonOf[] = ['queued', 'running', 'both']

const DEDUPE_FIELDS = optionNames<{ key: unknown; scope: unknown; for: unknown }>({ key: true, scope: true, for: true })
const DEBOUNCE_FIELDS = optionNames<NonNullable<SubmitOptions['debounce']>>({ key: true, wait: true, maxWait: true })
const THROTTLE_FIELDS = optionNames<NonNullable<SubmitOptions['throttle']>>({ key: true, every: true })
const SINGLETON_FIELDS = optionNames<{ key: unknown; of: unknown }>({ key: true, of: true })

/** Options that contradict each other. */
const CONTRADICTIONS: readonly (readonly [keyof SubmitOptions, keyof SubmitOptions, string])[] = [
  ['delay', 'runAt', 'both say when it may start'],
  ['debounce', 'delay', 'debounce says when it may start'],
  ['debounce', 'runAt', 'debounce says when it may start'],
  ['throttle', 'delay', 'throttle says when it may start'],
  ['throttle', 'runAt', 'throttle says when it may start'],
  ['dedupe', 'debounce', 'one keeps the input of the first submission, the other the newest'],
  ['dedupe', 'throttle', 'one keeps the input of the first submission, the other the newest'],
  ['debounce', 'throttle', 'each replaces the input of a waiting job at another time'],
]

/** What these options say, in the store's words. */
export function mergeOf(options: SubmitOptions): Pick<NewJob, 'runAtMs' | 'ttlMs' | 'merge' | 'dedupe' | 'limitKey'> {
  for (const [one, other, why] of CONTRADICTIONS) {
    if (options[one] !== undefined && options[other] !== undefined) throw contradiction(one, other, why)
  }
  const { runAt, ttl, dedupe, debounce, throttle, singleton, limitKey } = options
  checkLimitKey(limitKey)
  const alone = singleton === undefined ? null : toSingleton(singleton)
  if (alone?.isQueued) {
    const why = 'it finds a waiting job and keeps its input'
    if (debounce !== undefined) throw contradiction('debounce', `singleton: '${alone.of}'`, why)
    if (throttle !== undefined) throw contradiction('throttle', `singleton: '${alone.of}'`, why)
  }
  if (alone?.isRunning && limitKey !== undefined) {
    const why = 'each is a key by which jobs are kept from running, and a job has one'
    throw contradiction('limitKey', `singleton: '${alone.of}'`, why)
  }
  const merge: Merge | null = alone?.isQueued
    ? { kind: 'singleton', key: alone.key ?? '' }
    : debounce !== undefined
      ? toDebounce(debounce)
      : throttle !== undefined
        ? toThrottle(throttle)
        : null
  return {
    ...(runAt !== undefined && { runAtMs: runAtMsOf(runAt) }),
    ...(ttl !== undefined && { ttlMs: positiveMs(ttl, 'ttl') }),
    ...(merge !== null && { merge }),
    dedupe: dedupe === undefined ? null : toDedupe(dedupe),
    limitKey: alone?.isRunning ? singletonLimitKey(alone.key) : (limitKey ?? null),
  }
}

const contradiction = (one: string, other: string, why: string): RedressError =>
  new RedressError('OPTION_INVALID', `${one} and ${other} cannot be used together: ${why}.`, {
    action: 'Leave one of them out.',
  })

/** A time in the past means now; the store compares. */
const runAtMsOf = (runAt: Date | string): number => Math.max(1, timeMs(runAt, 'runAt'))

function positiveMs(value: Duration, field: string): number {
  const ms = durationMs(value, field)
  if (ms === 0) throw invalid(`${field} must be longer than zero`)
  return ms
}

function toDebounce(debounce: NonNullable<SubmitOptions['debounce']>): Merge {
  refuseUnknownOptions('debounce', debounce, DEBOUNCE_FIELDS)
  const { key, wait, maxWait } = debounce
  const waitMs = positiveMs(wait, 'debounce.wait')
  const maxWaitMs = maxWait === undefined ? null : positiveMs(maxWait, 'debounce.maxWait')
  if (maxWaitMs !== null && maxWaitMs < waitMs) {
    throw invalid(`debounce.maxWait must be at least debounce.wait: ${maxWait} is shorter than ${wait}`)
  }
  return { kind: 'debounce', key: packKey(key, 'debounce', KEY_CHARS_MAX), waitMs, maxWaitMs }
}

function toThrottle(throttle: NonNullable<SubmitOptions['throttle']>): Merge {
  refuseUnknownOptions('throttle', throttle, THROTTLE_FIELDS)
  const { key, every } = throttle
  const everyMs = positiveMs(every, 'throttle.every')
  return { kind: 'throttle', key: packKey(key, 'throttle', KEY_CHARS_MAX), everyMs }
}

interface Singleton {
  key: string | null
  of: SingletonOf
  isQueued: boolean
  isRunning: boolean
}

function toSingleton(singleton: NonNullable<SubmitOptions['singleton']>): Singleton {
  const isObject = typeof singleton === 'object' && singleton !== null
  if (isObject) refuseUnknownOptions('singleton', singleton, SINGLETON_FIELDS)
  const of = isObject ? singleton.of : singleton
  if (!SINGLETONS.includes(of)) {
    throw invalid(`singleton must be one of ${SINGLETONS.join(', ')}, not ${JSON.stringify(of) ?? String(of)}`)
  }
  const key = isObject ? packKey(singleton.key, 'singleton', KEY_CHARS_MAX) : null
  return { key, of, isQueued: of !== 'running', isRunning: of !== 'queued' }
}

function checkLimitKey(limitKey: unknown): void {
  if (limitKey === undefined) return
  const isKey = typeof limitKey === 'string' && limitKey !== '' && limitKey.length <= LIMIT_KEY_CHARS_MAX
  if (!isKey) throw invalid(`limitKey must be a text of 1 to ${LIMIT_KEY_CHARS_MAX} characters`)
  refuseNul(limitKey, 'limitKey')
  if (isSingletonKey(limitKey)) throw invalid('limitKey must not begin with the control character U+0001')
}

function toDedupe(dedupe: NonNullable<SubmitOptions['dedupe']>): NewJob['dedupe'] {
  if (typeof dedupe !== 'object' || dedupe === null || isKeyParts(dedupe))
    return { key: packKey(dedupe, 'dedupe', DEDUPE_CHARS_MAX), scope: 'live' }
  refuseUnknownOptions('dedupe', dedupe, DEDUPE_FIELDS)
  const { scope, for: heldFor } = dedupe as { scope?: DedupeScope; for?: Duration }
  const key = packKey(dedupe.key, 'dedupe', DEDUPE_CHARS_MAX)
  if (heldFor !== undefined) {
    if (scope !== undefined) throw contradiction('dedupe.scope', 'dedupe.for', 'both say how long the key is held')
    return { key, scope: 'always', forMs: positiveMs(heldFor, 'dedupe.for') }
  }
  if (scope === undefined || !DEDUPE_SCOPES.includes(scope)) {
    throw invalid(`the scope of a dedupe key must be one of ${DEDUPE_SCOPES.join(', ')}, not ${String(scope)}`)
  }
  return { key, scope }
}

const isKeyParts = (dedupe: object): dedupe is Exclude<DedupeKey, string> => Array.isArray(dedupe)

/** ['a', 'b,c'] and ['a,b', 'c'] must not be one key. */
function packKey(key: DedupeKey, of: string, charsMax: number): string {
  // Checked although it is typed: null and NaN are the same in JSON, and a key that says nothing joins all jobs in one.
  const isKey = typeof key === 'string' || (Array.isArray(key) && key.length > 0 && key.every(isKeyPart))
  if (!isKey) throw invalid(`a ${of} key must be a text, or a list of texts, numbers and nulls`)
  const packed = typeof key === 'string' ? key : JSON.stringify(key)
  if (packed === '' || packed.length > charsMax) {
    throw invalid(`a ${of} key must have 1 to ${charsMax} characters, not ${packed.length}`)
  }
  refuseNul(packed, `a ${of} key`)
  return packed
}

/** PostgreSQL cannot hold this character in a text: the text would be changed there, and another one could meet it. */
export function refuseNul(text: string, what: string): void {
  if (text.includes('\0')) throw invalid(`${what} must not contain a NUL character`)
}

const isKeyPart = (part: unknown): boolean => typeof part === 'string' || part === null || Number.isFinite(part)

const invalid = (message: string) => new RedressError('OPTION_INVALID', `${message}.`)
