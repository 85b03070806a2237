import { z } from 'zod'
import { MISSED_RULES } from '../../core/schedule.ts'
import type { ScheduleActed } from '../schedule-acts.ts'
import type { ScheduleView } from '../schedules.ts'
import { statusSchema } from './job.ts'
import { anything, count, done, exactly, id, name, number, text, time, timeOrNull } from './schema.ts'

export const scheduleSchema = exactly<ScheduleView>()(
  z.strictObject({
    name,
    state: z.enum(['active', 'paused', 'undeclared', 'ended']),
    cron: text,
    timezone: text,
    type: name,
    input: anything,
    missed: z.enum(MISSED_RULES),
    owner: name.nullable(),
    priority: number,
    nextAt: timeOrNull,
    lastAt: timeOrNull,
    lastJob: z.strictObject({ id, status: statusSchema.nullable() }).nullable(),
    runs: count,
    skipped: count,
    problem: z.strictObject({ message: text, at: time }).nullable(),
    paused: z.strictObject({ at: time, actor: name, reason: text }).nullable(),
    declaredAt: time,
    seenAt: time,
  }),
)

export const scheduleListSchema = z.strictObject({ schedules: z.array(scheduleSchema) })

export const scheduleActedSchema = exactly<ScheduleActed>()(
  z.strictObject({
    ...done,
    schedule: scheduleSchema.nullable(),
    jobId: id.nullable().describe('the job that a trigger made'),
  }),
)
