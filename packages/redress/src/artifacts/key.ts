import { createHash } from 'node:crypto'
import { RedressError } from '../core/errors.ts'
import type { ListOptions } from './artifact-store.ts'

/**
 * Keys that mean the same in every store: on any file system (names of 255 bytes), in any bucket (keys of 1,024 bytes
 * with the prefix), in a URL. ASCII only, because file systems disagree about which accented letters are the same.
 * No part begins with a dot: that rules out '.' and '..' and leaves those names for the store's own files.
 */
const KEY_CHARS_MAX = 700
/** Leaves room for the name of the file beside it that holds the checksum. */
const PART_CHARS_MAX = 200

const PART = /^[A-Za-z0-9_!$%'()+,=@~-][A-Za-z0-9_!$%'()+,=@~.-]*$/
const PLAIN_PART = /^[a-z0-9_-][a-z0-9_.-]*$/

export function checkKey(key: string): void {
  const problem = keyProblem(key)
  if (problem !== null) throw keyInvalid(key, problem)
}

/** The beginning of a key: whole parts, and perhaps the beginning of the next one. */
function checkPrefix(prefix: string): void {
  const problem = prefix === '' ? null : keyProblem(/[/.]$/.test(prefix) ? `${prefix}x` : prefix)
  if (problem !== null) throw keyInvalid(prefix, problem)
}

export const isKey = (key: string): boolean => keyProblem(key) === null

function keyProblem(key: unknown): string | null {
  if (typeof key !== 'string') return 'it is not text'
  if (key.length > KEY_CHARS_MAX) return `it has ${key.length} characters, more than ${KEY_CHARS_MAX}`
  for (const part of key.split('/')) {
    if (part === '') return 'a part between slashes is empty'
    if (part.length > PART_CHARS_MAX) return `a part between slashes is longer than ${PART_CHARS_MAX} characters`
    if (part.startsWith('.')) return 'a part begins with a dot'
    if (part.endsWith('.')) return 'a part ends with a dot'
    if (!PART.test(part)) return "it has characters other than ASCII letters, digits and _ - . ! $ % ' ( ) + , = @ ~"
  }
  return null
}

export function keyInvalid(key: unknown, problem: string, cause?: unknown): RedressError {
  // JSON shows what cannot be seen: a line break, a NUL, a right-to-left mark.
  const shown = JSON.stringify(String(key).slice(0, 100))
  return new RedressError('ARTIFACT_KEY_INVALID', `${shown} cannot be the key of an artifact: ${problem}.`, { cause })
}

/**
 * Any text as one part of a key, for names that come from outside. Different texts give different parts, also where
 * capitals do not count; a text that is already plain stays readable.
 */
export function keyPart(text: string): string {
  if (PLAIN_PART.test(text) && !text.endsWith('.') && text.length <= PART_CHARS_MAX) return text
  const encoded = Array.from(Buffer.from(text), (byte) => {
    const char = String.fromCharCode(byte)
    return /[a-z0-9_-]/.test(char) ? char : `%${byte.toString(16).padStart(2, '0')}`
  }).join('')
  // Half of a surrogate pair has no bytes in UTF-8: all of them would be encoded alike.
  if (encoded !== '' && encoded.length <= PART_CHARS_MAX && text.isWellFormed()) return encoded
  // The '~' keeps it apart from every text that stands for itself.
  return `${encoded.slice(0, 100)}~${createHash('sha256').update(text, 'utf16le').digest('hex')}`
}

/** As many as an object store gives at once. */
const PAGE_MAX = 1000

export function pageBounds({ prefix = '', after = '', limit = PAGE_MAX, signal }: ListOptions) {
  checkPrefix(prefix)
  signal?.throwIfAborted()
  if (!Number.isInteger(limit) || limit < 1) {
    throw new RedressError('OPTION_INVALID', `limit must be a whole number from 1 on, not ${limit}.`)
  }
  return { prefix, after, limit: Math.min(limit, PAGE_MAX), signal }
}

/** Compared with NaN nothing is young enough to stay: an age that is no number would remove everything. */
export function checkedAge(olderThanMs: number, minMs = 0): number {
  if (typeof olderThanMs === 'number' && !Number.isNaN(olderThanMs) && olderThanMs >= minMs) return olderThanMs
  throw new RedressError('OPTION_INVALID', `olderThanMs must be a number of milliseconds, not ${olderThanMs}.`)
}
