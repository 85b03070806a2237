import type { SubjectEvents } from '../../core/job/events.ts'
import type { Status } from '../../core/job/states.ts'
import type { ScheduleAct, ScheduleDeclaration, ScheduleStore, StoredSchedule } from '../contract/schedules.ts'
import type { ActorAndReason } from '../contract/store.ts'
import type { ScriptContext, Tx } from './tx/context.ts'
import type { Script } from './tx/script.ts'
import { NONE, sql } from './tx/sql.ts'

/** The columns of `StoredSchedule`, and those of its parts. */
type ScheduleRow = Omit<StoredSchedule, 'lastJob' | 'problem' | 'paused'> & {
  last_job: string | null
  last_status: Status | null
  problem: string | null
  problem_at: number
  paused_at: number | null
  paused_by: string
  paused_reason: string
}

const COLUMNS = sql`
  name, revision, schedules.type, schedules.payload, cron, timezone, missed, schedules.owner, schedules.priority,
  next_at AS "nextAtMs", last_at AS "lastAtMs", last_job, runs, skipped, problem, problem_at, paused_at, paused_by,
  paused_reason, resumed_at AS "resumedAtMs", declared_at AS "declaredAtMs", seen_at AS "seenAtMs"`

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

function toSchedule(stored: ScheduleRow): StoredSchedule {
  const { last_job, last_status, problem, problem_at, paused_at, paused_by, paused_reason, ...row } = stored
  return {
    ...row,
    lastJob: last_job === null ? null : { id: last_job, status: last_status },
    problem: problem === null ? null : { message: problem, atMs: problem_at },
    paused: paused_at === null ? null : { atMs: paused_at, actor: paused_by, reason: paused_reason },
  }
}

export function openSchedules({ dialect, history, write, read, submit }: ScriptContext): ScheduleStore {
  const { forUpdate, greatest, inTexts } = dialect

  const addEvent = (
    tx: Tx,
    name: string,
    nowMs: number,
    kind: SubjectEvents['schedule'][number],
    data: object | null,
  ) => history.subjectEvent(tx, `schedule:${name}`, nowMs, kind, data)

  const find = (tx: Tx, name: string) => tx.get<ScheduleRow>`
    SELECT ${COLUMNS} FROM schedules WHERE name = ${name} ${forUpdate}`

  const declare = function* (tx: Tx, one: ScheduleDeclaration, nowMs: number): Script<void> {
    const { name, type, payload, cron, timezone, missed, owner, priority } = one
    const before = yield* find(tx, name)
    if (before !== undefined && isDeclaredSame(before, one)) {
      yield* tx.run`UPDATE schedules SET seen_at = ${nowMs} WHERE name = ${name}`
      return
    }
    const keepsTicks = before !== undefined && before.cron === cron && before.timezone === timezone
    const nextAtMs = keepsTicks ? before.nextAtMs : one.nextAtMs
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
    yield* addEvent(tx, name, nowMs, before === undefined ? 'declared' : 'changed', { type, cron, timezone, missed })
  }

  const submitRun = function* (
    tx: Tx,
    name: string,
    { atMs, job, by }: { atMs: number; job: Parameters<typeof submit>[1][number]; by?: ActorAndReason },
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
  const act = function* (tx: Tx, name: string, by: ActorAndReason, todo: ScheduleAct, nowMs: number): Script<boolean> {
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
          SELECT ${COLUMNS}, jobs.status AS last_status FROM schedules
            LEFT JOIN job_specs ON job_specs.id = schedules.last_job LEFT JOIN jobs ON jobs.key = job_specs.key
          ${names === undefined ? NONE : sql`WHERE name ${inTexts(names)}`}`
        return rows.map(toSchedule).toSorted((a, b) => (a.name < b.name ? -1 : 1))
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
        if (skipped > 0) yield* addEvent(tx, name, nowMs, 'skipped', { skipped, because, ran: runs.length })
        return 'taken'
      }),

    reportSchedule: ({ name, problem }) =>
      write('reporting a schedule', function* (tx, nowMs) {
        const changes = yield* tx.run`
          UPDATE schedules SET problem = ${problem}, problem_at = ${nowMs}
          WHERE name = ${name} AND problem IS DISTINCT FROM ${problem}`
        if (changes === 1) yield* addEvent(tx, name, nowMs, 'failed', { problem })
      }),

    actOnSchedule: ({ name, actor, reason, act: todo }) =>
      write('acting on a schedule', function* (tx, nowMs) {
        const by = { actor, reason }
        if ((yield* find(tx, name)) === undefined) return 'not-found'
        if (!(yield* act(tx, name, by, todo, nowMs))) return 'already'
        yield* addEvent(tx, name, nowMs, SCHEDULE_ACT_EVENTS[todo.kind], by)
        const data = todo.kind === 'trigger' ? { job: todo.job.id } : null
        const entry = { atMs: nowMs, act: `schedules.${todo.kind}`, target: 'schedule', ids: [name], data }
        yield* history.audit(tx, by, entry)
        return 'done'
      }),
  }
}
