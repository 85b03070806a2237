import { RedressError } from '../../core/errors.ts'
import { EVERY_MS_MIN, MISSED_RULES, type MissedRule } from '../../core/schedule.ts'
import { type Duration, durationMs, formatMs } from '../../core/text/duration.ts'
import { isName } from '../../core/text/names.ts'
import { optionNames } from '../../core/text/options.ts'
import { timeMs } from '../../runtime/moment.ts'
import type { ScheduleDeclaration } from '../../store/contract/schedules.ts'
import type { JobType } from '../jobs/job-type.ts'
import { ticksOf } from './ticks.ts'

/** When a schedule is due: an expression (`cron`) or a period (`every`). */
export interface ScheduleTiming {
  /** Five fields (minute hour day month weekday), six with seconds first, or a nickname such as `@daily`. */
  cron?: string
  /** Elapsed time between two ticks, at least one second: `'90s'`. Counted from `from`, or else from when it was set. */
  every?: Duration
  /** Of `cron`: a name of the IANA list; 'UTC' when left out, and never the machine's own. */
  timezone?: string
  /** No tick before this time. ISO 8601 texts need a zone: `'2026-12-31T18:00:00Z'`. */
  from?: Date | string
  /** No tick after this time. */
  until?: Date | string
  /** Each run begins up to this much after its tick, and before the next tick. The delay differs by schedule and tick. */
  jitter?: Duration
  /** The schedule ends after this number of runs. Runs that a person triggers do not count. */
  count?: number
  /** Which ticks run after an outage: none, one for all of them, or each (at most 100). */
  missed?: MissedRule
}

/** What `app.schedule(name, ...)` takes. */
export interface ScheduleDefinition<Input> extends ScheduleTiming {
  /** A job type, or its name. */
  job: JobType<Input> | string
  /** The input of every run, or a function that makes it for each; `{}` when left out. */
  input?: NoInfer<Input> | ((tick: ScheduleTick) => NoInfer<Input> | Promise<NoInfer<Input>>)
  owner?: string
  priority?: number
}

/** What an input is made for. */
export interface ScheduleTick {
  schedule: string
  /** ISO 8601 in UTC: when the run was due, which may be some time ago. */
  scheduledFor: string
  /** A person asked for it, beside the schedule. */
  isTriggered: boolean
}

// biome-ignore lint/suspicious/noExplicitAny: whether the input fits the job type is checked where a schedule is given
export const SCHEDULE_FIELDS = optionNames<ScheduleDefinition<any>>({
  cron: true,
  every: true,
  timezone: true,
  from: true,
  until: true,
  jitter: true,
  count: true,
  missed: true,
  job: true,
  input: true,
  owner: true,
  priority: true,
})

export type CheckedTiming = Pick<
  ScheduleDeclaration,
  'cron' | 'everyMs' | 'timezone' | 'fromMs' | 'untilMs' | 'jitterMs' | 'count' | 'missed'
>

/** Throws SCHEDULE_INVALID for what cannot be, with the field. */
export function checkTiming(timing: ScheduleTiming, nowMs: number): CheckedTiming {
  const { cron, every, timezone, from, until, jitter, count, missed = 'once' } = timing
  if ((cron === undefined) === (every === undefined)) {
    throw invalid(`a schedule needs either cron or every${cron === undefined ? '' : ', not both'}`)
  }
  if (every !== undefined && timezone !== undefined) {
    throw invalid('timezone: only cron has a time zone; every counts elapsed time')
  }
  if (!MISSED_RULES.includes(missed)) {
    throw invalid(`missed: it must be one of ${MISSED_RULES.join(', ')}, not ${JSON.stringify(missed)}`)
  }
  if (count !== undefined && (!Number.isSafeInteger(count) || count < 1)) {
    throw invalid(`count: it must be a whole number from 1, not ${String(count)}`)
  }
  const checked: CheckedTiming = {
    cron: cron === undefined ? null : String(cron).trim(),
    everyMs: every === undefined ? null : everyMs(every),
    timezone: timezone ?? 'UTC',
    fromMs: from === undefined ? null : timeMs(from, 'from'),
    untilMs: until === undefined ? null : timeMs(until, 'until'),
    jitterMs: jitter === undefined ? 0 : durationMs(jitter, 'jitter'),
    count: count ?? null,
    missed,
  }
  const { fromMs, untilMs } = checked
  if (fromMs !== null && untilMs !== null && untilMs < fromMs) throw invalid('until: it must not be before from')
  // Without its limits: one whose last time is over has ended, which is no mistake when a program starts again.
  if (ticksOf({ ...checked, fromMs: null, untilMs: null, timedAtMs: nowMs }).nextMs(nowMs) === null) {
    throw invalid(`cron: ${JSON.stringify(cron)} never comes`)
  }
  return checked
}

function everyMs(every: Duration): number {
  const ms = durationMs(every, 'every')
  if (ms >= EVERY_MS_MIN) return ms
  throw invalid(`every: it must be at least ${formatMs(EVERY_MS_MIN)}, not ${JSON.stringify(every)}`)
}

export function checkScheduleName(name: unknown): void {
  if (isName(name)) return
  throw invalid(
    `${JSON.stringify(name)} is not a name for a schedule: begin with a letter, then letters, digits and . _ : - (at most 100 characters)`,
  )
}

/** The name of a job type, given as such or with the type. */
export function typeNameOf(job: unknown): string {
  const type = typeof job === 'object' && job !== null ? (job as { name?: unknown }).name : job
  if (!isName(type)) throw invalid('job: it must be a job type, or the name of one')
  return type
}

export const invalid = (message: string, action?: string): RedressError =>
  new RedressError('SCHEDULE_INVALID', `${message}.`, action === undefined ? {} : { action })

/** Every error names its schedule. */
export async function naming<T>(name: string, check: () => T | Promise<T>): Promise<T> {
  try {
    return await check()
  } catch (error) {
    throw named(name, error, 'stored')
  }
}

export function named(name: string, error: unknown, doing: 'declared' | 'stored'): unknown {
  if (!(error instanceof RedressError)) return error
  // An unknown type or a broken store is not a mistake in the definition.
  if (doing === 'stored' && !['SCHEDULE_INVALID', 'OPTION_INVALID'].includes(error.code)) return error
  return new RedressError('SCHEDULE_INVALID', `The schedule ${name} cannot be ${doing}: ${error.message}`, {
    action: error.action,
    problems: error.problems,
    cause: error,
  })
}
