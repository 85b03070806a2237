import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from './duration.ts'

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
