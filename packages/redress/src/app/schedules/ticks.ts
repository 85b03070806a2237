import { createHash } from 'node:crypto'
import { everyTicks, type Ticks, ticksWithin } from '../../core/schedule.ts'
import { cronTicks } from '../../runtime/cron.ts'
import type { ScheduleDeclaration } from '../../store/contract/schedules.ts'

type Timed = Pick<ScheduleDeclaration, 'cron' | 'everyMs' | 'timezone' | 'fromMs' | 'untilMs' | 'timedAtMs'>

/** The ticks of a schedule, within its first and last time. */
export function ticksOf({ cron, everyMs, timezone, fromMs, untilMs, timedAtMs }: Timed): Ticks {
  const ticks = everyMs === null ? parsedTicks(cron ?? '', timezone) : everyTicks(fromMs ?? timedAtMs, everyMs)
  return fromMs === null && untilMs === null ? ticks : ticksWithin(ticks, fromMs, untilMs)
}

const parsed = new Map<string, Ticks>()
const PARSED_MAX = 1_000

/** Reading an expression is dear, and the same few are asked for again and again. */
function parsedTicks(cron: string, timezone: string): Ticks {
  const key = JSON.stringify([cron, timezone])
  let ticks = parsed.get(key)
  if (ticks === undefined) {
    ticks = cronTicks(cron, timezone)
    if (parsed.size >= PARSED_MAX) parsed.clear()
    parsed.set(key, ticks)
  }
  return ticks
}

/** The same for the same tick in every process: a job that was submitted before an unknown commit is found again. */
export function tickId(name: string, atMs: number): string {
  const time = atMs.toString(16).padStart(12, '0')
  const hash = createHash('sha256').update(`schedule ${name} ${atMs}`).digest('hex')
  // Version 8: ours to fill. The time comes first, so that ids of later ticks are higher.
  return `${time.slice(0, 8)}-${time.slice(8, 12)}-8${hash.slice(0, 3)}-a${hash.slice(3, 6)}-${hash.slice(6, 18)}`
}

/** In [0, 1): the same for the same tick in every process, and different for schedules that tick together. */
export function tickChance(name: string, atMs: number): number {
  return createHash('sha256').update(`jitter ${name} ${atMs}`).digest().readUIntBE(0, 6) / 2 ** 48
}
