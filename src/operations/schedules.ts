import { z } from 'zod'
import { RedressError } from '../core/errors.ts'
import { isoTime, isoTimeOrNull } from '../core/iso-time.ts'
import type { MissedRule } from '../core/schedule.ts'
import type { Status } from '../core/states.ts'
import type { StoredSchedule } from '../store/schedules.ts'
import type { Store } from '../store/store.ts'
import { operation } from './operation.ts'
import { scheduleListSchema, scheduleSchema } from './outputs/schedule.ts'

/** A working program says every minute which schedules it declares; after three silences, none does. */
const SEEN_MS_MAX = 180_000

export interface ScheduleView {
  name: string
  /** `undeclared`: no working program declares it any more (or none is working), so nothing takes its ticks. */
  state: 'active' | 'paused' | 'undeclared' | 'ended'
  cron: string
  timezone: string
  type: string
  /** null when the program makes it for each run. */
  input: unknown
  missed: MissedRule
  owner: string | null
  priority: number
  nextAt: string | null
  lastAt: string | null
  /** `status` is null when the job was removed after its retention. */
  lastJob: { id: string; status: Status | null } | null
  runs: number
  skipped: number
  /** Why the tick that is due cannot be taken. */
  problem: { message: string; at: string } | null
  paused: { at: string; actor: string; reason: string } | null
  declaredAt: string
  /** When a working program last declared it. */
  seenAt: string
}

export const nameField = z.string().min(1).describe('name of the schedule')

export const listSchedules = operation('schedules.list', {
  input: z.strictObject({}),
  output: scheduleListSchema,
  run: async ({ store }) => {
    const nowMs = await store.nowMs()
    return { schedules: (await store.schedules()).map((schedule) => viewSchedule(schedule, nowMs)) }
  },
})

export const showSchedule = operation('schedules.show', {
  input: z.strictObject({ name: nameField }),
  output: scheduleSchema,
  run: async ({ store }, { name }) => viewSchedule(await neededSchedule(store, name), await store.nowMs()),
})

export async function neededSchedule(store: Store, name: string): Promise<StoredSchedule> {
  const [schedule] = await store.schedules({ names: [name] })
  if (schedule !== undefined) return schedule
  const known = (await store.schedules()).map((one) => one.name).join(', ') || 'none'
  throw new RedressError('SCHEDULE_NOT_FOUND', `There is no schedule ${name}; there are: ${known}.`)
}

export function viewSchedule(schedule: StoredSchedule, nowMs: number): ScheduleView {
  const { name, cron, timezone, type, payload, missed, owner, priority, lastJob, runs, skipped } = schedule
  const { problem, paused } = schedule
  return {
    name,
    state: stateOf(schedule, nowMs),
    cron,
    timezone,
    type,
    input: payload === null ? null : JSON.parse(payload),
    missed,
    owner,
    priority,
    nextAt: isoTimeOrNull(schedule.nextAtMs),
    lastAt: isoTimeOrNull(schedule.lastAtMs),
    lastJob,
    runs,
    skipped,
    problem: problem && { message: problem.message, at: isoTime(problem.atMs) },
    paused: paused && { at: isoTime(paused.atMs), actor: paused.actor, reason: paused.reason },
    declaredAt: isoTime(schedule.declaredAtMs),
    seenAt: isoTime(schedule.seenAtMs),
  }
}

function stateOf({ paused, nextAtMs, seenAtMs }: StoredSchedule, nowMs: number): ScheduleView['state'] {
  if (nextAtMs === null) return 'ended'
  if (nowMs - seenAtMs > SEEN_MS_MAX) return 'undeclared'
  return paused === null ? 'active' : 'paused'
}
