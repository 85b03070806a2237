import type { SubjectEvents } from '../../core/job/events.ts'
import type { Status } from '../../core/job/states.ts'
import type { MissedRule } from '../../core/schedule.ts'
import type { ScheduleAct, ScheduleDeclaration, ScheduleStore, StoredSchedule } from '../contract/schedules.ts'
import type { By } from '../contract/store.ts'
import type { ScriptContext, Tx } from './tx/context.ts'
import type { Script } from './tx/script.ts'
import { NONE, sql } from './tx/sql.ts'

/** A row as both drivers have it. */
type ScheduleRow = Record<string, number | string | null>

/** The event of each act. */
const SCHEDULE_ACT_EVENTS = {
  pause: 'paused',
  resume: 'resumed',
  trigger: 'triggered',
  remove: 'removed',
} as const

const isDeclaredSame = (row: ScheduleRow, one: ScheduleDeclaration): boolean =>
  (['type', 'payload', 'cron', 'timezone', 'missed', 'owner', 'priority'] as const).every(
    (field) => row[field] === one[field],
  )

function scheduleFromRow(row: ScheduleRow): StoredSchedule {
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

export function openSchedules({ dialect, history, write, read, submit }: ScriptContext): ScheduleStore {
  const { forUpdate, greatest, inTexts } = dialect

  const tell = (tx: Tx, name: string, nowMs: number, kind: SubjectEvents['schedule'][number], data: object | null) =>
    history.subjectEvent(tx, `schedule:${name}`, nowMs, kind, data)

  const find = (tx: Tx, name: string) => tx.get<ScheduleRow>`SELECT * FROM schedules WHERE name = ${name} ${forUpdate}`

  const declare = function* (tx: Tx, one: ScheduleDeclaration, nowMs: number): Script<void> {
    const { name, type, payload, cron, timezone, missed, owner, priority } = one
    const before = yield* find(tx, name)
    if (before !== undefined && isDeclaredSame(before, one)) {
      yield* tx.run`UPDATE schedules SET seen_at = ${nowMs} WHERE name = ${name}`
      return
    }
    const keepsTicks = before !== undefined && before.cron === cron && before.timezone === timezone
    const nextAtMs = keepsTicks ? (before.next_at as number | null) : one.nextAtMs
    if (before === undefined) {
      // The revision is one that no removed schedule of this name had: those were made earlier, or count on from that.
      yield* tx.run`
        INSERT INTO schedules (name, revision, type, payload, cron, timezone, missed, owner, priority, next_at,
          declared_at, seen_at)
        VALUES (${name}, ${nowMs}, ${type}, ${payload}, ${cron}, ${timezone}, ${missed}, ${owner}, ${priority},
          ${nextAtMs}, ${nowMs}, ${nowMs})`
    } else {
      yield* tx.run`
        UPDATE schedules SET revision = ${greatest}(revision + 1, ${nowMs}), type = ${type}, payload = ${payload},
          cron = ${cron}, timezone = ${timezone}, missed = ${missed}, owner = ${owner}, priority = ${priority},
          next_at = ${nextAtMs}, declared_at = ${nowMs}, seen_at = ${nowMs}
        WHERE name = ${name}`
    }
    yield* tell(tx, name, nowMs, before === undefined ? 'declared' : 'changed', { type, cron, timezone, missed })
  }

  const submitRun = function* (
    tx: Tx,
    name: string,
    { atMs, job, by }: { atMs: number; job: Parameters<typeof submit>[1][number]; by?: By },
    nowMs: number,
  ): Script<void> {
    const scheduled = by === undefined ? { name, atMs } : { name, atMs, by }
    const [submitted] = yield* submit(tx, [{ ...job, scheduled }], nowMs)
    yield* tx.run`
      UPDATE schedules SET last_at = ${atMs}, last_job = ${submitted?.id ?? null}, runs = runs + 1, problem = NULL,
        problem_at = NULL
      WHERE name = ${name}`
    tx.wakeWorkers()
  }

  /** False if the schedule is in that state already. */
  const act = function* (tx: Tx, name: string, by: By, todo: ScheduleAct, nowMs: number): Script<boolean> {
    switch (todo.kind) {
      case 'pause': {
        const changes = yield* tx.run`
          UPDATE schedules SET paused_at = ${nowMs}, paused_by = ${by.actor}, paused_reason = ${by.reason},
            revision = ${greatest}(revision + 1, ${nowMs})
          WHERE name = ${name} AND paused_at IS NULL`
        return changes === 1
      }
      case 'resume': {
        const changes = yield* tx.run`
          UPDATE schedules SET paused_at = NULL, paused_by = NULL, paused_reason = NULL, resumed_at = ${nowMs},
            revision = ${greatest}(revision + 1, ${nowMs})
          WHERE name = ${name} AND paused_at IS NOT NULL`
        return changes === 1
      }
      case 'trigger':
        yield* submitRun(tx, name, { atMs: nowMs, job: todo.job, by }, nowMs)
        return true
      case 'remove': {
        const changes = yield* tx.run`DELETE FROM schedules WHERE name = ${name}`
        return changes === 1
      }
    }
  }

  return {
    declareSchedules: ({ schedules }) =>
      // Alone: two processes that declare the same new schedule would otherwise both find that it is missing.
      write(
        'declaring schedules',
        function* (tx, nowMs) {
          for (const one of schedules.toSorted((a, b) => (a.name < b.name ? -1 : 1))) yield* declare(tx, one, nowMs)
        },
        { alone: 'schedules' },
      ),

    seeSchedules: ({ names }) =>
      write('seeing schedules', function* (tx, nowMs) {
        // Locked in the order of names, like every lock of several.
        yield* tx.run`
          WITH seen AS (SELECT name FROM schedules WHERE name ${inTexts(names)} ORDER BY name ${forUpdate})
          UPDATE schedules SET seen_at = ${nowMs} FROM seen WHERE schedules.name = seen.name`
      }),

    schedules: ({ names } = {}) =>
      read('reading schedules', function* (tx) {
        const rows = yield* tx.all<ScheduleRow>`
          SELECT schedules.*, jobs.status AS last_status FROM schedules
            LEFT JOIN job_specs ON job_specs.id = schedules.last_job LEFT JOIN jobs ON jobs.key = job_specs.key
          ${names === undefined ? NONE : sql`WHERE name ${inTexts(names)}`}`
        return rows.map(scheduleFromRow).toSorted((a, b) => (a.name < b.name ? -1 : 1))
      }),

    tickSchedule: ({ name, expect, runs, skipped, because, nextAtMs }) =>
      write('taking a tick', function* (tx, nowMs) {
        // Many processes see the same tick. The comparison lets one of them run it: the later ones wait for the first
        // and then compare with what it left.
        const taken = yield* tx.run`
          UPDATE schedules SET next_at = ${nextAtMs}, skipped = skipped + ${skipped}, problem = NULL, problem_at = NULL
          WHERE name = ${name} AND revision = ${expect.revision} AND next_at = ${expect.nextAtMs}`
        if (taken === 0) return 'moved-on'
        for (const run of runs) yield* submitRun(tx, name, run, nowMs)
        if (skipped > 0) yield* tell(tx, name, nowMs, 'skipped', { skipped, because, ran: runs.length })
        return 'taken'
      }),

    reportSchedule: ({ name, problem }) =>
      write('reporting a schedule', function* (tx, nowMs) {
        const changes = yield* tx.run`
          UPDATE schedules SET problem = ${problem}, problem_at = ${nowMs}
          WHERE name = ${name} AND problem IS DISTINCT FROM ${problem}`
        if (changes === 1) yield* tell(tx, name, nowMs, 'failed', { problem })
      }),

    actOnSchedule: ({ name, actor, reason, act: todo }) =>
      write('acting on a schedule', function* (tx, nowMs) {
        const by = { actor, reason }
        if ((yield* find(tx, name)) === undefined) return 'not-found'
        if (!(yield* act(tx, name, by, todo, nowMs))) return 'already'
        yield* tell(tx, name, nowMs, SCHEDULE_ACT_EVENTS[todo.kind], by)
        const data = todo.kind === 'trigger' ? { job: todo.job.id } : null
        const entry = { atMs: nowMs, act: `schedules.${todo.kind}`, target: 'schedule', ids: [name], data }
        yield* history.audit(tx, by, entry)
        return 'done'
      }),
  }
}
