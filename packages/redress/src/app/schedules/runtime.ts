import { RedressError } from '../../core/errors.ts'
import { isoTime } from '../../core/text/duration.ts'
import { refuseUnknownOptions } from '../../core/text/options.ts'
import type { SchedulePlan } from '../../operations/operation.ts'
import type { OutputOf } from '../../operations/table.ts'
import type { ScheduleDeclaration } from '../../store/contract/schedules.ts'
import type { ActorAndReason } from '../../store/contract/store.ts'
import type { AppHost } from '../host.ts'
import type { JobType } from '../jobs/job-type.ts'
import { operationsOf } from '../subjects.ts'
import { declarationOf } from './declared.ts'
import {
  checkScheduleName,
  checkTiming,
  naming,
  SCHEDULE_FIELDS,
  type ScheduleTiming,
  typeNameOf,
} from './definition.ts'

/** What `app.schedules.upsert(name, ...)` takes: a schedule, who stores it, and why. */
export interface RuntimeSchedule<Input> extends ScheduleTiming, ActorAndReason {
  /** A job type, or its name. */
  job: JobType<Input> | string
  /** The input of every run, stored as JSON; `{}` when left out. */
  input?: NoInfer<Input>
  owner?: string
  priority?: number
  /** Only say what would be done. */
  dryRun?: boolean
}

/** The schedules of an app: `app.schedules`. */
export type Schedules = ReturnType<typeof schedulesOf>

export function schedulesOf(host: AppHost) {
  return {
    ...operationsOf('schedules', host),

    /**
     * Stores a schedule, or changes the one of this name. The same definition again changes nothing. Any worker of any
     * process takes its ticks.
     */
    // biome-ignore lint/suspicious/noExplicitAny: a job type that is given by name says nothing of its input
    async upsert<Input = any>(name: string, schedule: RuntimeSchedule<Input>): Promise<OutputOf<'schedules.upsert'>> {
      refuseUnknownOptions('schedules.upsert()', schedule, [...SCHEDULE_FIELDS, 'actor', 'reason', 'dryRun'])
      const { job, from, until, ...rest } = schedule
      return host.perform('schedules.upsert', {
        ...rest,
        name,
        job: typeNameOf(job),
        ...(from !== undefined && { from: textOf(from) }),
        ...(until !== undefined && { until: textOf(until) }),
      } as never)
    },
  }
}

const textOf = (time: Date | string): string =>
  time instanceof Date && !Number.isNaN(time.getTime()) ? isoTime(time.getTime()) : String(time)

/** Checks a runtime schedule in every way that this program can, and computes its first tick. */
export function planUpsert(host: AppHost, name: string, asked: SchedulePlan): Promise<ScheduleDeclaration> {
  return naming(name, async () => {
    checkScheduleName(name)
    const { job, input = {}, owner, priority, ...timing } = asked
    const store = await host.store()
    const nowMs = await store.nowMs()
    const checked = checkTiming(timing as ScheduleTiming, nowMs)
    const type = typeNameOf(job)
    const options = { ...(owner !== undefined && { owner }), ...(priority !== undefined && { priority }) }
    const made = await host.prepare(type, input, options)
    if (made.rejected !== null) throw new RedressError('INPUT_INVALID', made.rejected.detail)
    if (!(await store.types()).some((known) => known.name === type)) {
      throw new RedressError('TYPE_UNKNOWN', `No program has declared the job type ${type}.`)
    }
    const { payload, owner: of, priority: with_ } = made
    return declarationOf(name, { ...checked, type, payload, owner: of, priority: with_ }, nowMs)
  })
}
