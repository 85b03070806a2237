import { z } from 'zod'
import { RedressError } from '../errors.ts'

/** A number is milliseconds; text says its units, largest first: '250ms', '5s', '1m30s', '2h', '7d'. */
export type Duration = number | string

export const SECOND_MS = 1000
export const MINUTE_MS = 60 * SECOND_MS
export const HOUR_MS = 60 * MINUTE_MS
export const DAY_MS = 24 * HOUR_MS

/** Ten years: longer than any job should wait, and small enough that a clock plus this is still an exact integer. */
export const DURATION_MS_MAX = 3650 * DAY_MS

const UNITS = [
  ['d', DAY_MS],
  ['h', HOUR_MS],
  ['m', MINUTE_MS],
  ['s', SECOND_MS],
  ['ms', 1],
] as const

const NUMBER = String.raw`(\d+(?:\.\d+)?)`
const PATTERN = new RegExp(`^(?:${NUMBER}d)?(?:${NUMBER}h)?(?:${NUMBER}m)?(?:${NUMBER}s)?(?:${NUMBER}ms)?$`)
const HOW_TO_WRITE = "write '250ms', '5s', '1m30s', '2h' or '7d'"

/** Milliseconds, or what is wrong with the value in words that can follow a field's name. */
function readDuration(value: unknown, msMin: number): number | { problem: string } {
  const ms = typeof value === 'string' ? textMs(value) : value
  if (typeof ms !== 'number' || Number.isNaN(ms))
    return { problem: `${show(value)} is not a duration; ${HOW_TO_WRITE}` }
  if (ms < 0) return { problem: `${show(value)} is negative; ${HOW_TO_WRITE}` }
  if (ms > DURATION_MS_MAX) return { problem: `${show(value)} is longer than 10 years` }
  if (!Number.isInteger(ms)) return { problem: `${show(value)} is a fraction of a millisecond; ${HOW_TO_WRITE}` }
  if (ms < msMin) return { problem: `${show(value)} is shorter than the least allowed, ${formatMs(msMin)}` }
  return ms
}

function textMs(text: string): number {
  // Spaces are ignored so that what formatMs prints can be pasted back into a policy.
  const found = PATTERN.exec(text.replaceAll(' ', ''))
  if (found === null || found[0] === '') return Number.NaN
  let ms = 0
  for (const [index, [, unitMs]] of UNITS.entries()) ms += Number(found[index + 1] ?? 0) * unitMs
  // '2.01s' is 2009.9999999999998 in floating point.
  return Math.round(ms)
}

const show = (value: unknown): string => (typeof value === 'string' ? JSON.stringify(value) : String(value))

export function durationMs(value: Duration, field: string): number {
  const read = readDuration(value, 0)
  if (typeof read === 'number') return read
  throw new RedressError('OPTION_INVALID', `${field}: ${read.problem}`)
}

/** The same reading for schemas, so that a bad duration is reported together with the other problems. */
export function durationField(msMin = 0) {
  return z.unknown().transform((value, context) => {
    const read = readDuration(value, msMin)
    if (typeof read === 'number') return read
    context.addIssue({ code: 'custom', message: read.problem })
    return z.NEVER
  })
}

/** For people: '250 ms', '7.2 s', '1 m 30 s', '2 h 5 m', '30 d'. The two largest units; the rest is dropped. */
export function formatMs(ms: number): string {
  if (ms < 0) return `-${formatMs(-ms)}`
  if (ms < SECOND_MS) return `${Math.round(ms)} ms`
  // 59.95 s and more would be rounded to '60 s', which is not the usual form.
  if (ms < MINUTE_MS - 50) return `${Number((ms / SECOND_MS).toFixed(1))} s`

  let restMs = Math.round(ms / SECOND_MS) * SECOND_MS
  const parts = UNITS.map(([unit, unitMs]) => {
    const count = Math.floor(restMs / unitMs)
    restMs -= count * unitMs
    return { unit, count }
  })
  const first = parts.findIndex((part) => part.count > 0)
  const largestTwo = parts.slice(first, first + 2).filter((part) => part.count > 0)
  return largestTwo.map((part) => `${part.count} ${part.unit}`).join(' ')
}

/** As people write it in an option, and nothing is dropped: '90s' is '1m30s'. */
export function exactMs(ms: number): string {
  let rest = ms
  const parts = UNITS.map(([unit, unitMs]) => {
    const count = Math.floor(rest / unitMs)
    rest -= count * unitMs
    return count === 0 ? '' : `${count}${unit}`
  })
  return parts.join('') || '0ms'
}

/** ISO 8601 in UTC with milliseconds: what `Date` prints, without reaching for a `Date`. */
export function isoTime(ms: number): string {
  const days = Math.floor(ms / DAY_MS)
  const inDayMs = ms - days * DAY_MS
  const { year, month, day } = civilFromDays(days)
  const hours = Math.floor(inDayMs / HOUR_MS)
  const minutes = Math.floor((inDayMs % HOUR_MS) / MINUTE_MS)
  const seconds = Math.floor((inDayMs % MINUTE_MS) / SECOND_MS)
  const time = `${pad(hours)}:${pad(minutes)}:${pad(seconds)}.${pad(inDayMs % SECOND_MS, 3)}`
  return `${yearOf(year)}-${pad(month)}-${pad(day)}T${time}Z`
}

export function isoTimeOrNull(ms: number | null): string | null {
  return ms === null ? null : isoTime(ms)
}

const pad = (value: number, length = 2): string => String(value).padStart(length, '0')

function yearOf(year: number): string {
  if (year >= 0 && year <= 9999) return pad(year, 4)
  return `${year < 0 ? '-' : '+'}${pad(Math.abs(year), 6)}`
}

const DAYS_PER_ERA = 146_097

/**
 * Howard Hinnant's `civil_from_days`. Years begin in March, so that the leap day comes last and the months before it
 * have one pattern of lengths; an era is 400 years, after which the calendar repeats.
 */
function civilFromDays(sinceEpoch: number): { year: number; month: number; day: number } {
  const days = sinceEpoch + 719_468
  const era = Math.floor(days / DAYS_PER_ERA)
  const dayOfEra = days - era * DAYS_PER_ERA
  const yearOfEra = Math.floor(
    (dayOfEra - Math.floor(dayOfEra / 1460) + Math.floor(dayOfEra / 36_524) - Math.floor(dayOfEra / 146_096)) / 365,
  )
  const dayOfYear = dayOfEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100))
  const monthFromMarch = Math.floor((5 * dayOfYear + 2) / 153)
  const day = dayOfYear - Math.floor((153 * monthFromMarch + 2) / 5) + 1
  const month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
  return { year: yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, day }
}
