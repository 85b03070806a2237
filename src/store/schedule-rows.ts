import type { MissedRule } from '../core/schedule.ts'
import type { Status } from '../core/states.ts'
import type { ScheduleDeclaration, StoredSchedule } from './schedules.ts'

/** A row as every driver has it. */
export type ScheduleRow = Record<string, number | string | null>

/** What is told of each act. */
export const SCHEDULE_ACT_EVENTS = {
  pause: 'paused',
  resume: 'resumed',
  trigger: 'triggered',
  remove: 'removed',
} as const

export const isDeclaredSame = (row: ScheduleRow, one: ScheduleDeclaration): boolean =>
  (['type', 'payload', 'cron', 'timezone', 'missed', 'owner', 'priority'] as const).every(
    (field) => row[field] === one[field],
  )

export function scheduleFromRow(row: ScheduleRow): StoredSchedule {
  return {
    name: row.name as string,
    revision: row.revision as number,
    type: row.type as string,
    payload: row.payload as string | null,
    cron: row.cron as string,
    timezone: row.timezone as string,
    missed: row.missed as MissedRule,
    owner: row.owner as string | null,
    priority: row.priority as number,
    nextAtMs: row.next_at as number | null,
    lastAtMs: row.last_at as number | null,
    lastJob: row.last_job === null ? null : { id: row.last_job as string, status: row.last_status as Status | null },
    runs: row.runs as number,
    skipped: row.skipped as number,
    problem: row.problem === null ? null : { message: row.problem as string, atMs: row.problem_at as number },
    paused:
      row.paused_at === null
        ? null
        : {
            atMs: row.paused_at as number,
            actor: row.paused_by as string,
            reason: row.paused_reason as string,
          },
    resumedAtMs: row.resumed_at as number | null,
    declaredAtMs: row.declared_at as number,
    seenAtMs: row.seen_at as number,
  }
}
