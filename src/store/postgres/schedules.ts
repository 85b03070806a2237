import type { SubjectEvents } from '../../core/events.ts'
import { isDeclaredSame, SCHEDULE_ACT_EVENTS, type ScheduleRow, scheduleFromRow } from '../schedule-rows.ts'
import type { ScheduleAct, ScheduleDeclaration, ScheduleStore } from '../schedules.ts'
import type { By, NewJob, Submitted } from '../store.ts'
import type { Tx } from './client.ts'
import type { PgContext } from './context.ts'
import { printable } from './text.ts'

type Submit = (tx: Tx, job: NewJob, nowMs: number) => Promise<Submitted>

export function openSchedules({ history, write, read, hintWork }: PgContext, submit: Submit): ScheduleStore {
  const tell = (tx: Tx, name: string, nowMs: number, kind: SubjectEvents['schedule'][number], data: object | null) =>
    history.subjectEvent(tx, `schedule:${name}`, nowMs, kind, data)

  /** Nobody else changes it before this transaction ends. */
  const lock = async (tx: Tx, name: string): Promise<ScheduleRow | undefined> => {
    const [row] = await tx<ScheduleRow[]>`SELECT * FROM schedules WHERE name = ${name} FOR UPDATE`
    return row
  }

  const declare = async (tx: Tx, one: ScheduleDeclaration, nowMs: number): Promise<void> => {
    const { name, type, payload, cron, timezone, missed, owner, priority } = one
    const before = await lock(tx, name)
    if (before !== undefined && isDeclaredSame(before, one)) {
      await tx`UPDATE schedules SET seen_at = ${nowMs} WHERE name = ${name}`
      return
    }
    const keepsTicks = before !== undefined && before.cron === cron && before.timezone === timezone
    const nextAtMs = keepsTicks ? (before.next_at as number | null) : one.nextAtMs
    if (before === undefined) {
      // A revision that no earlier schedule of this name had: theirs were made at earlier times, or counted on from them.
      await tx`
        INSERT INTO schedules (name, revision, type, payload, cron, timezone, missed, owner, priority, next_at,
          declared_at, seen_at)
        VALUES (${name}, ${nowMs}, ${type}, ${payload}, ${cron}, ${timezone}, ${missed}, ${owner}, ${priority}, ${nextAtMs},
          ${nowMs}, ${nowMs})`
    } else {
      await tx`
        UPDATE schedules SET revision = greatest(revision + 1, ${nowMs}), type = ${type}, payload = ${payload},
          cron = ${cron}, timezone = ${timezone}, missed = ${missed}, owner = ${owner}, priority = ${priority},
          next_at = ${nextAtMs}, declared_at = ${nowMs}, seen_at = ${nowMs}
        WHERE name = ${name}`
    }
    await tell(tx, name, nowMs, before === undefined ? 'declared' : 'changed', { type, cron, timezone, missed })
  }

  const ran = (tx: Tx, name: string, atMs: number, job: string) => tx`
    UPDATE schedules SET last_at = ${atMs}, last_job = ${job}, runs = runs + 1, problem = NULL, problem_at = NULL
    WHERE name = ${name}`

  const act = async (tx: Tx, name: string, by: By, todo: ScheduleAct, nowMs: number): Promise<boolean> => {
    switch (todo.kind) {
      case 'pause': {
        const { count } = await tx`
          UPDATE schedules SET paused_at = ${nowMs}, paused_by = ${by.actor}, paused_reason = ${printable(by.reason)},
            revision = greatest(revision + 1, ${nowMs})
          WHERE name = ${name} AND paused_at IS NULL`
        return count === 1
      }
      case 'resume': {
        const { count } = await tx`
          UPDATE schedules SET paused_at = NULL, paused_by = NULL, paused_reason = NULL, resumed_at = ${nowMs},
            revision = greatest(revision + 1, ${nowMs})
          WHERE name = ${name} AND paused_at IS NOT NULL`
        return count === 1
      }
      case 'trigger': {
        const { id } = await submit(tx, { ...todo.job, scheduled: { name, atMs: nowMs, by } }, nowMs)
        await ran(tx, name, nowMs, id)
        hintWork(tx)
        return true
      }
      case 'remove': {
        const { count } = await tx`DELETE FROM schedules WHERE name = ${name}`
        return count === 1
      }
    }
  }

  return {
    declareSchedules: ({ schedules }) =>
      // One at a time: two processes that declare the same new one would otherwise both find that it is not there.
      write(
        'declaring schedules',
        async (tx, nowMs) => {
          for (const one of schedules.toSorted((a, b) => (a.name < b.name ? -1 : 1))) await declare(tx, one, nowMs)
        },
        'schedules',
      ),

    seeSchedules: ({ names }) =>
      write('seeing schedules', async (tx, nowMs) => {
        // Locked by name first, as by all who lock several.
        await tx`
          WITH seen AS (SELECT name FROM schedules WHERE name = ANY(${[...names]}::text[]) ORDER BY name FOR UPDATE)
          UPDATE schedules SET seen_at = ${nowMs} FROM seen WHERE schedules.name = seen.name`
      }),

    schedules: ({ names } = {}) =>
      read('reading schedules', async (sql) => {
        const rows = await sql<ScheduleRow[]>`
          SELECT schedules.*, jobs.status AS last_status FROM schedules
            LEFT JOIN job_specs ON job_specs.id = schedules.last_job LEFT JOIN jobs ON jobs.key = job_specs.key
          WHERE ${names === undefined ? sql`true` : sql`name = ANY(${[...names]}::text[])`}
          ORDER BY name COLLATE "C"`
        return rows.map(scheduleFromRow)
      }),

    tickSchedule: ({ name, expect, runs, skipped, because, nextAtMs }) =>
      write('taking a tick', async (tx, nowMs) => {
        // The comparison is what makes one run of a tick that many processes see at once: the later ones wait for the
        // first, and then compare with what it left.
        const { count } = await tx`
          UPDATE schedules SET next_at = ${nextAtMs}, skipped = skipped + ${skipped}, problem = NULL, problem_at = NULL
          WHERE name = ${name} AND revision = ${expect.revision} AND next_at = ${expect.nextAtMs}`
        if (count === 0) return 'moved-on'
        for (const { atMs, job } of runs) {
          const { id } = await submit(tx, { ...job, scheduled: { name, atMs } }, nowMs)
          await ran(tx, name, atMs, id)
        }
        if (runs.length > 0) hintWork(tx)
        if (skipped > 0) await tell(tx, name, nowMs, 'skipped', { skipped, because, ran: runs.length })
        return 'taken'
      }),

    reportSchedule: ({ name, problem }) =>
      write('reporting a schedule', async (tx, nowMs) => {
        const text = printable(problem)
        const { count } = await tx`
          UPDATE schedules SET problem = ${text}, problem_at = ${nowMs}
          WHERE name = ${name} AND problem IS DISTINCT FROM ${text}`
        if (count === 1) await tell(tx, name, nowMs, 'failed', { problem })
      }),

    actOnSchedule: ({ name, actor, reason, act: todo }) =>
      write('acting on a schedule', async (tx, nowMs) => {
        const by = { actor, reason }
        if ((await lock(tx, name)) === undefined) return 'not-found'
        if (!(await act(tx, name, by, todo, nowMs))) return 'already'
        await tell(tx, name, nowMs, SCHEDULE_ACT_EVENTS[todo.kind], by)
        const data = todo.kind === 'trigger' ? { job: todo.job.id } : null
        await history.audit(tx, by, {
          atMs: nowMs,
          act: `schedules.${todo.kind}`,
          target: 'schedule',
          ids: [name],
          data,
        })
        return 'done'
      }),
  }
}
