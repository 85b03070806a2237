import type { SubjectEvents } from '../../core/events.ts'
import { isDeclaredSame, SCHEDULE_ACT_EVENTS, type ScheduleRow, scheduleFromRow } from '../schedule-rows.ts'
import type { ScheduleDeclaration, ScheduleStore } from '../schedules.ts'
import type { By, NewJob, Submitted } from '../store.ts'
import type { SqliteContext } from './context.ts'

type Submit = (job: NewJob, nowMs: number) => Submitted

export function openSchedules({ connection, history, nowMs, write, read, hintWork }: SqliteContext, submit: Submit) {
  const find = connection.prepare('SELECT * FROM schedules WHERE name = ?')
  // A number that no earlier schedule of this name had: its revisions were made at earlier times, or counted on from them.
  const add = connection.prepare(`
    INSERT INTO schedules (name, revision, type, payload, cron, timezone, missed, owner, priority, next_at,
      declared_at, seen_at) VALUES (?1, ?10, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?10)`)
  const change = connection.prepare(`
    UPDATE schedules SET revision = max(revision + 1, ?10), type = ?2, payload = ?3, cron = ?4, timezone = ?5,
      missed = ?6, owner = ?7, priority = ?8, next_at = ?9, declared_at = ?10, seen_at = ?10 WHERE name = ?1`)
  const see = connection.prepare('UPDATE schedules SET seen_at = ?2 WHERE name = ?1')
  const list = connection.prepare(`
    SELECT schedules.*, jobs.status AS last_status FROM schedules
      LEFT JOIN job_specs ON job_specs.id = schedules.last_job LEFT JOIN jobs ON jobs.key = job_specs.key
    WHERE ?1 IS NULL OR name IN (SELECT value FROM json_each(?1)) ORDER BY name`)
  // The comparison is what makes one run of a tick that many processes see at once.
  const take = connection.prepare(`
    UPDATE schedules SET next_at = ?4, skipped = skipped + ?5, problem = NULL, problem_at = NULL
    WHERE name = ?1 AND revision = ?2 AND next_at = ?3`)
  const ran = connection.prepare(
    'UPDATE schedules SET last_at = ?2, last_job = ?3, runs = runs + ?4, problem = NULL, problem_at = NULL WHERE name = ?1',
  )
  const report = connection.prepare(
    'UPDATE schedules SET problem = ?2, problem_at = ?3 WHERE name = ?1 AND problem IS NOT ?2',
  )
  const pause = connection.prepare(`
    UPDATE schedules SET paused_at = ?2, paused_by = ?3, paused_reason = ?4, revision = max(revision + 1, ?2)
    WHERE name = ?1 AND paused_at IS NULL`)
  const resume = connection.prepare(`
    UPDATE schedules SET paused_at = NULL, paused_by = NULL, paused_reason = NULL, resumed_at = ?2,
      revision = max(revision + 1, ?2)
    WHERE name = ?1 AND paused_at IS NOT NULL`)
  const remove = connection.prepare('DELETE FROM schedules WHERE name = ?')

  const tell = (name: string, kind: SubjectEvents['schedule'][number], data: object | null) =>
    history.subjectEvent(`schedule:${name}`, nowMs(), kind, data)

  const declare = (one: ScheduleDeclaration): void => {
    const { name, type, payload, cron, timezone, missed, owner, priority } = one
    const before = find.get(name) as ScheduleRow | undefined
    const atMs = nowMs()
    if (before !== undefined && isDeclaredSame(before, one)) {
      see.run(name, atMs)
      return
    }
    const keepsTicks = before !== undefined && before.cron === cron && before.timezone === timezone
    const nextAtMs = keepsTicks ? (before.next_at as number | null) : one.nextAtMs
    const statement = before === undefined ? add : change
    statement.run(name, type, payload, cron, timezone, missed, owner, priority, nextAtMs, atMs)
    tell(name, before === undefined ? 'declared' : 'changed', { type, cron, timezone, missed })
  }

  const act = (name: string, by: By, todo: Parameters<ScheduleStore['actOnSchedule']>[0]['act']): boolean => {
    const atMs = nowMs()
    switch (todo.kind) {
      case 'pause':
        return pause.run(name, atMs, by.actor, by.reason).changes === 1
      case 'resume':
        return resume.run(name, atMs).changes === 1
      case 'trigger': {
        const job = { ...todo.job, scheduled: { name, atMs, by } }
        ran.run(name, atMs, submit(job, atMs).id, 1)
        hintWork()
        return true
      }
      case 'remove':
        return remove.run(name).changes === 1
    }
  }

  return {
    declareSchedules: ({ schedules }) => write('declaring schedules', () => schedules.forEach(declare)),
    seeSchedules: ({ names }) =>
      write('seeing schedules', () => {
        for (const name of names) see.run(name, nowMs())
      }),
    schedules: ({ names } = {}) =>
      read('reading schedules', () =>
        (list.all(names === undefined ? null : JSON.stringify(names)) as ScheduleRow[]).map(scheduleFromRow),
      ),

    tickSchedule: ({ name, expect, runs, skipped, because, nextAtMs }) =>
      write('taking a tick', () => {
        const taken = take.run(name, expect.revision, expect.nextAtMs, nextAtMs, skipped)
        if (taken.changes === 0) return 'moved-on'
        for (const { atMs, job } of runs) {
          const { id } = submit({ ...job, scheduled: { name, atMs } }, nowMs())
          ran.run(name, atMs, id, 1)
        }
        if (runs.length > 0) hintWork()
        if (skipped > 0) tell(name, 'skipped', { skipped, because, ran: runs.length })
        return 'taken'
      }),

    reportSchedule: ({ name, problem }) =>
      write('reporting a schedule', () => {
        if (report.run(name, problem, nowMs()).changes === 1) tell(name, 'failed', { problem })
      }),

    actOnSchedule: ({ name, actor, reason, act: todo }) =>
      write('acting on a schedule', () => {
        if (find.get(name) === undefined) return 'not-found'
        if (!act(name, { actor, reason }, todo)) return 'already'
        tell(name, SCHEDULE_ACT_EVENTS[todo.kind], { actor, reason })
        const data = todo.kind === 'trigger' ? { job: todo.job.id } : null
        history.audit(
          { actor, reason },
          { atMs: nowMs(), act: `schedules.${todo.kind}`, target: 'schedule', ids: [name], data },
        )
        return 'done'
      }),
  } satisfies ScheduleStore
}
