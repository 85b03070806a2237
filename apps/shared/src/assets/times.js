/** Shows times in the reader's time zone and format; ages are updated while the page is open. */

const AGES_MS = 30_000
const AGE = new Intl.RelativeTimeFormat('en', { numeric: 'auto' })
const UNITS = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
]
const SAID_AS = {
  clock: (then) => then.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' }),
  date: (then) => then.toLocaleString([], { dateStyle: 'medium', timeStyle: 'short' }),
  moment: (then) => then.toLocaleString([], { dateStyle: 'medium', timeStyle: 'medium' }),
  age(then) {
    const ageMs = Date.now() - then.getTime()
    const [unit, unitMs] = UNITS.find(([, ms]) => ageMs >= ms) ?? []
    return unit === undefined ? 'just now' : AGE.format(-Math.floor(ageMs / unitMs), unit)
  },
}

export function sayTimes(within) {
  for (const time of within.querySelectorAll('time')) {
    const then = new Date(time.dateTime)
    time.title = then.toLocaleString()
    time.textContent = SAID_AS[time.dataset.as](then)
  }
}

sayTimes(document)
setInterval(() => sayTimes(document), AGES_MS)
