import { Cron } from 'croner'
import { RedressError } from '../core/errors.ts'

/** The moments that an expression means in a time zone. */
interface CronTicks {
  /** The first one after a moment; null when there will be none. */
  nextMs(afterMs: number): number | null
  /** The last ones up to and with a moment, oldest first. */
  newestMs(untilMs: number, count: number): number[]
}

const NICKNAMES = new Set(['@hourly', '@daily', '@midnight', '@weekly', '@monthly', '@yearly', '@annually'])
const HOW_TO_WRITE =
  "Write five fields (minute hour day month weekday), or six with seconds first: '0 3 * * *' is every day at 03:00."
const ZONE_HOW_TO_WRITE = "Use a name of the IANA list, such as 'Europe/Berlin', 'America/New_York' or 'UTC'."
/** Longer than any offset of a zone and any change of it. */
const ZONE_MS_MAX = 2 * 24 * 3_600_000

/**
 * An expression for every hour is read by elapsed time: it goes on through both passes of an hour that the clocks
 * repeat, and does not know an hour that they leave out. Any other names times of the day, and each of those comes
 * once a day: a repeated one at its first pass, one that is left out at the first moment after the gap.
 */
export function cronTicks(expression: string, timezone: string): CronTicks {
  const zone = openZone(timezone)
  const ticks = isForEveryHour(expression)
    ? ticksByElapsedTime(parse(expression, timezone))
    : ticksByWallClock(parse(expression, 'UTC'), zone)
  return ticks
}

function parse(expression: string, timezone: string): Cron {
  const trimmed = typeof expression === 'string' ? expression.trim() : ''
  const fields = trimmed.split(/\s+/)
  // The parser would also take a date for a schedule that comes once, and a year as seventh field.
  const isKnownForm = fields.length === 5 || fields.length === 6 || NICKNAMES.has(trimmed.toLowerCase())
  if (!isKnownForm) throw invalid(expression, trimmed === '' ? 'it is empty' : `it has ${counted(fields.length)}`)
  try {
    return new Cron(trimmed, { timezone, paused: true, mode: 'auto' })
  } catch (error) {
    throw invalid(expression, error instanceof Error ? error.message.replace(/^CronPattern: /, '') : String(error))
  }
}

const counted = (fields: number): string => (fields === 1 ? 'one field' : `${fields} fields`)

const invalid = (expression: string, problem: string): RedressError =>
  new RedressError('SCHEDULE_INVALID', `cron: ${JSON.stringify(expression)} cannot be read: ${problem}.`, {
    action: HOW_TO_WRITE,
  })

function isForEveryHour(expression: string): boolean {
  const fields = String(expression).trim().toLowerCase().split(/\s+/)
  return fields[0] === '@hourly' || ['*', '*/1', '?'].includes(fields.at(-4) ?? '')
}

function ticksByElapsedTime(cron: Cron): CronTicks {
  return {
    nextMs: (afterMs) => cron.nextRun(new Date(afterMs))?.getTime() ?? null,
    // The parser answers with what is before a moment, in whole seconds.
    newestMs: (untilMs, count) =>
      cron
        .previousRuns(count, new Date(secondAfter(untilMs)))
        .map((date) => date.getTime())
        .reverse(),
  }
}

/** The parser counts on a clock that is never changed; here it is laid on the clock of the zone. */
function ticksByWallClock(cron: Cron, zone: Zone): CronTicks {
  return {
    nextMs(afterMs) {
      for (let wall = new Date(afterMs + zone.offsetMs(afterMs)); ; ) {
        const next = cron.nextRun(wall)
        if (next === null) return null
        const tickMs = zone.instantMs(next.getTime())
        // In the second pass of a repeated hour the clock shows times that have come already.
        if (tickMs > afterMs) return tickMs
        wall = next
      }
    },

    newestMs(untilMs, count) {
      const found = new Set<number>()
      // Before the clocks were set back they showed later times than now.
      const latest = Math.max(zone.offsetMs(untilMs), zone.offsetMs(untilMs - ZONE_MS_MAX / 2))
      let wall: Date | undefined = new Date(secondAfter(untilMs + latest))
      while (found.size < count) {
        ;[wall] = cron.previousRuns(1, wall)
        if (wall === undefined) break
        const tickMs = zone.instantMs(wall.getTime())
        if (tickMs <= untilMs) found.add(tickMs)
      }
      return [...found].reverse()
    },
  }
}

const secondAfter = (ms: number): number => (Math.floor(ms / 1_000) + 1) * 1_000

interface Zone {
  /** How much later its clocks are than UTC. */
  offsetMs(instantMs: number): number
  /** When its clocks show this (the first time they do), or the end of the gap they leave it out in. */
  instantMs(wallMs: number): number
}

/** There are only some hundred zones, and each is dear to open. They can be written in many ways, hence the limit. */
const zones = new Map<string, Zone>()
const ZONES_MAX = 1_000

function openZone(timezone: string): Zone {
  const known = zones.get(timezone)
  if (known !== undefined) return known
  const zone = zoneOf(formatOf(timezone))
  if (zones.size >= ZONES_MAX) zones.clear()
  zones.set(timezone, zone)
  return zone
}

function zoneOf(format: Intl.DateTimeFormat): Zone {
  const offsetMs = (instantMs: number): number => {
    const parts: Partial<Record<Intl.DateTimeFormatPartTypes, number>> = {}
    for (const { type, value } of format.formatToParts(instantMs)) parts[type] = Number(value)
    const { year = 0, month = 1, day, hour, minute, second } = parts
    return Date.UTC(year, month - 1, day, hour, minute, second) - Math.floor(instantMs / 1_000) * 1_000
  }

  return {
    offsetMs,
    instantMs(wallMs) {
      const before = offsetMs(wallMs - ZONE_MS_MAX)
      const after = offsetMs(wallMs + ZONE_MS_MAX)
      const fitting = [wallMs - before, wallMs - after].filter((ms) => ms + offsetMs(ms) === wallMs)
      if (fitting.length > 0) return Math.min(...fitting)
      let [low, high] = [wallMs - ZONE_MS_MAX, wallMs + ZONE_MS_MAX]
      while (high - low > 1) {
        const middle = Math.floor((low + high) / 2)
        if (offsetMs(middle) === before) low = middle
        else high = middle
      }
      return high
    },
  }
}

function formatOf(timezone: string): Intl.DateTimeFormat {
  try {
    if (typeof timezone !== 'string' || timezone === '') throw new RangeError()
    return new Intl.DateTimeFormat('en-US', {
      timeZone: timezone,
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    })
  } catch {
    throw new RedressError('SCHEDULE_INVALID', `timezone: ${JSON.stringify(timezone)} is not a time zone.`, {
      action: ZONE_HOW_TO_WRITE,
    })
  }
}
