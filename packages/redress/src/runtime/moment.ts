import { RedressError } from '../core/errors.ts'

const ISO_8601 = /^(\d{4}-\d{2}-\d{2})(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?$/

/** The last moment that ISO 8601 writes with four digits for the year. */
const TIME_MS_MAX = Date.UTC(10_000, 0) - 1

/**
 * A text in ISO 8601 as milliseconds. A date alone is UTC, and so is a time without a zone. NaN for every other text:
 * `Date.parse` takes '2026-02-01junk' for the first of June, and '2026-02-30' for the second of March.
 */
export function isoMs(text: string): number {
  const [whole, date] = ISO_8601.exec(text) ?? []
  if (whole === undefined || date === undefined) return Number.NaN
  const dayMs = Date.parse(date)
  if (Number.isNaN(dayMs) || !new Date(dayMs).toISOString().startsWith(date)) return Number.NaN
  return Date.parse(hasZone(text) ? text : `${text}Z`)
}

/** A date alone is UTC everywhere. */
const hasZone = (text: string): boolean => !text.includes('T') || ISO_8601.exec(text)?.[2] !== undefined

/**
 * The time at which something will happen: a `Date`, or a text in ISO 8601. A time of the day needs a zone, because people mean
 * their own. Throws OPTION_INVALID, with the name of the field.
 */
export function timeMs(time: unknown, field: string): number {
  const ms = typeof time === 'string' ? isoMs(time) : time instanceof Date ? time.getTime() : Number.NaN
  if (Number.isNaN(ms)) throw invalid(`${field}: ${shown(time)} is not a time in ISO 8601`)
  if (typeof time === 'string' && !hasZone(time)) throw invalid(`${field}: ${shown(time)} has no time zone`)
  if (ms > TIME_MS_MAX) throw invalid(`${field}: ${shown(time)} is after the year 9999`)
  return ms
}

function shown(time: unknown): string {
  if (time instanceof Date) return Number.isNaN(time.getTime()) ? 'an invalid Date' : time.toISOString()
  return typeof time === 'string' ? JSON.stringify(time) : time === null ? 'null' : `a ${typeof time}`
}

const invalid = (message: string): RedressError =>
  new RedressError('OPTION_INVALID', `${message}.`, {
    action: "Write it with its time zone: '2026-12-31T18:00Z' or '2026-12-31T18:00+01:00'.",
  })
