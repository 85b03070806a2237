/** How long the other side asks us to wait: seconds, or the date of an HTTP header. Null when it says neither. */
export function retryAfterHeaderMs(header: string | null | undefined, nowMs: number): number | null {
  const text = header?.trim() ?? ''
  if (/^\d{1,9}$/.test(text)) return Number(text) * 1000
  const atMs = httpDateMs(text, nowMs)
  return atMs === null ? null : Math.max(0, atMs - nowMs)
}

const TIME = String.raw`(?<hour>\d\d):(?<minute>\d\d):(?<second>\d\d)`
/** Today's form, and the two that servers have not given up: `Sunday, 06-Nov-94 08:49:37 GMT`, `Sun Nov  6 08:49:37 1994`. */
const HTTP_DATES = [
  new RegExp(`^[A-Z][a-z]{2}, (?<day>\\d\\d) (?<month>[A-Z][a-z]{2}) (?<year>\\d{4}) ${TIME} GMT$`),
  new RegExp(`^[A-Z][a-z]+day, (?<day>\\d\\d)-(?<month>[A-Z][a-z]{2})-(?<year>\\d\\d) ${TIME} GMT$`),
  new RegExp(`^[A-Z][a-z]{2} (?<month>[A-Z][a-z]{2}) (?<day>[ \\d]\\d) ${TIME} (?<year>\\d{4})$`),
]
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']
const MS_OF_YEAR = 31_556_952_000

/** In epoch milliseconds. By hand: core has no calendar. */
function httpDateMs(date: string, nowMs: number): number | null {
  for (const form of HTTP_DATES) {
    const { day, month, year, hour, minute, second } = form.exec(date)?.groups ?? {}
    const monthIndex = MONTHS.indexOf(month ?? '')
    if (monthIndex < 0) continue
    const days = daysUntil(fullYear(String(year), nowMs), monthIndex, Number(day))
    return (days * 86_400 + Number(hour) * 3600 + Number(minute) * 60 + Number(second)) * 1000
  }
  return null
}

/** Of two figures: the one that is not more than fifty years ahead, as the standard wants it. */
function fullYear(text: string, nowMs: number): number {
  if (text.length === 4) return Number(text)
  const nowYear = 1970 + Math.floor(nowMs / MS_OF_YEAR)
  const year = nowYear - (nowYear % 100) + Number(text)
  return year > nowYear + 50 ? year - 100 : year
}

/** From the first day of 1970. Years begin in March here: the leap day is the last one, and one formula has all months. */
function daysUntil(year: number, month: number, day: number): number {
  const marchYear = month < 2 ? year - 1 : year
  const leapDays = Math.floor(marchYear / 4) - Math.floor(marchYear / 100) + Math.floor(marchYear / 400)
  const dayOfYear = Math.floor((153 * ((month + 10) % 12) + 2) / 5) + day - 1
  return 365 * marchYear + leapDays + dayOfYear - 719_468
}
