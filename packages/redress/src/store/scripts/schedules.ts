import { RedressError } from '../../core/errors.ts'
import type { SubjectEvents } from '../../core/job/events.ts'
import type { Status } from '../../core/job/states.ts'
import { nextAfterChange, type ScheduleOrigin } from '../../core/schedule.ts'
import { DAY_MS, isoTime } from '../../core/text/duration.ts'
import type {
  DueSchedule,
  ScheduleAct,
  ScheduleDeclaration,
  ScheduleFilter,
  ScheduleStore,
  ScheduleTaken,
  ScheduleUpserted,
  StoredSchedule,
} from '../contract/schedules.ts'
import type { ActorAndReason } from '../contract/store.ts'
import type { ScriptContext, Tx } from './tx/context.ts'
import type { Script } from './tx/script.ts'
import { allOf, type Dialect, NONE, type Sql, sql } from './tx/sql.ts'

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
  name, origin, revision, type, payload, nullif(cron, '') AS cron, every_ms AS "everyMs", timezone,
  from_at AS "fromMs", until_at AS "untilMs", jitter_ms AS "jitterMs", count_max AS count, counted, missed,
  owner, priority, timed_at AS "timedAtMs", next_at AS "nextAtMs", last_at AS "lastAtMs", last_job,
  runs, skipped, problem, problem_at, held_until AS "heldUntilMs", hold_ms AS "holdMs", paused_at, paused_by,
  paused_reason, resumed_at AS "resumedAtMs", declared_at AS "declaredAtMs", seen_at AS "seenAtMs"`

/** A tick that was computed by a clock so much ahead is computed again. */
const AHEAD_MS = DAY_MS

/** The event of each act. */
const SCHEDULE_ACT_EVENTS = {
  pause: 'paused',
  resume: 'resumed',
  trigger: 'triggered',
  remove: 'removed',
} as const

const DEFINED = [
  'type',
  'payload',
  'cron',
  'everyMs',
  'timezone',
  'fromMs',
  'untilMs',
  'jitterMs',
  'count',
  'missed',
  'owner',
  'priority',
] as const

const isDefinedSame = (row: ScheduleRow, one: ScheduleDeclaration): boolean =>
  DEFINED.every((field) => row[field] === one[field])

function toSchedule(stored: ScheduleRow): StoredSchedule {
  const { last_job, last_status, problem, problem_at, paused_at, paused_by, paused_reason, ...row } = stored
  return {
    ...row,
    // A program of the version before changes the expression and leaves the period.
    everyMs: row.cron === null ? row.everyMs : null,
    lastJob: last_job === null ? null : { id: last_job, status: last_status },
    problem: problem === null ? null : { message: problem, atMs: problem_at },
    paused: paused_at === null ? null : { atMs: paused_at, actor: paused_by, reason: paused_reason },
  }
}

type DueRow = ScheduleRow & { due: number; part: 'due' | 'next' | 'astray' }

const toDue = ({ due: _due, part: _part, ...row }: DueRow): DueSchedule => {
  const { lastJob: _, ...schedule } = toSchedule({ ...row, last_status: null })
  return schedule as DueSchedule
}

const byName = <T extends { name: string }>(rows: readonly T[]): T[] =>
  rows.toSorted((a, b) => (a.name < b.name ? -1 : 1))

const contains = (q: string): string => `%${q.toLowerCase().replace(/[\\%_]/g, '\\$&')}%`

/**
 * What is due, the first that is not, and what was planned by a clock that ran ahead. Each part is one range of an index
 * and reads only the rows that it answers with, however many schedules there are.
 */
export function dueSql(
  { greatest, inTexts }: Dialect,
  { declared, limit, nowMs }: { declared: readonly string[]; limit: number; nowMs: number },
): Sql {
  const DUE = sql`${greatest}(next_at, held_until)`
  const origins = [
    sql`origin = 'runtime'`,
    ...(declared.length === 0 ? [] : [sql`origin = 'code' AND name ${inTexts(declared)}`]),
  ]
  const parts = origins.flatMap((ours) => [
    sql`SELECT * FROM (SELECT ${COLUMNS}, ${DUE} AS due, 'due' AS part FROM schedules
      WHERE ${ours} AND next_at IS NOT NULL AND ${DUE} <= ${nowMs} ORDER BY ${DUE} LIMIT ${limit}) AS due`,
    sql`SELECT * FROM (SELECT ${COLUMNS}, ${DUE} AS due, 'next' AS part FROM schedules
      WHERE ${ours} AND next_at IS NOT NULL AND ${DUE} > ${nowMs} ORDER BY ${DUE} LIMIT 1) AS next`,
    sql`SELECT * FROM (SELECT ${COLUMNS}, ${DUE} AS due, 'astray' AS part FROM schedules
      WHERE planned_at > ${nowMs + AHEAD_MS} AND next_at > ${nowMs} AND ${ours} LIMIT ${limit}) AS astray`,
  ])
  return parts.reduce((before, part) => sql`${before} UNION ALL ${part}`)
}

export function openSchedules({ dialect, history, write, read, submit }: ScriptContext): ScheduleStore {
  const { forUpdate, skipLocked, greatest, inTexts, bytewise, table } = dialect
  const lockRow = dialect.choose({ sqlite: NONE, postgres: sql`FOR UPDATE OF schedules` })

  const addEvent = (
    tx: Tx,
    name: string,
    nowMs: number,
    kind: SubjectEvents['schedule'][number],
    data: object | null,
  ) => history.subjectEvent(tx, `schedule:${name}`, nowMs, kind, data)

  const find = (tx: Tx, name: string) => tx.get<ScheduleRow>`
    SELECT ${COLUMNS} FROM schedules WHERE name = ${name} ${forUpdate}`

  /** Adds a schedule, or changes the one of this name. */
  const define = function* (
    tx: Tx,
    before: ScheduleRow | undefined,
    one: ScheduleDeclaration,
    origin: ScheduleOrigin,
    by: ActorAndReason | null,
    nowMs: number,
  ): Script<ScheduleUpserted> {
    const { name, type, payload, cron, everyMs, timezone, fromMs, untilMs, jitterMs, count, missed, owner } = one
    const values = sql`${type}, ${payload}, ${cron ?? ''}, ${everyMs}, ${timezone}, ${fromMs}, ${untilMs}, ${jitterMs},
      ${count}, ${missed}, ${owner}, ${one.priority}, ${nowMs}, ${nowMs}, ${nowMs}`
    const said = { ...by, type, cron, everyMs, timezone, missed }
    if (before === undefined) {
      // The revision is one that no removed schedule of this name had: those were made earlier, or count on from that.
      yield* tx.run`
        INSERT INTO schedules (name, origin, revision, next_at, timed_at, type, payload, cron, every_ms, timezone, from_at,
          until_at, jitter_ms, count_max, missed, owner, priority, planned_at, declared_at, seen_at)
        VALUES (${name}, ${origin}, ${nowMs}, ${one.nextAtMs}, ${one.timedAtMs}, ${values})`
      yield* addEvent(tx, name, nowMs, 'declared', said)
      return 'created'
    }
    // What held it up may be repaired: the changed schedule, or the restarted program, tries at once.
    if (isDefinedSame(before, one)) {
      yield* tx.run`
        UPDATE schedules SET seen_at = ${nowMs}, held_until = 0
        WHERE name = ${name} AND (origin = 'code' OR held_until > 0)`
      return 'same'
    }
    const { nextAtMs, isTimedAnew } = nextAfterChange(toSchedule(before), one)
    yield* tx.run`
      UPDATE schedules SET revision = ${greatest}(revision + 1, ${nowMs}), next_at = ${nextAtMs},
        timed_at = ${isTimedAnew ? one.timedAtMs : before.timedAtMs}, held_until = 0, hold_ms = 0, problem = NULL,
        problem_at = NULL,
        (type, payload, cron, every_ms, timezone, from_at, until_at, jitter_ms, count_max, missed, owner, priority,
          planned_at, declared_at, seen_at) = (${values})
      WHERE name = ${name}`
    yield* addEvent(tx, name, nowMs, 'changed', said)
    if (nextAtMs === null && before.nextAtMs !== null) yield* addEvent(tx, name, nowMs, 'ended', null)
    return 'changed'
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
            held_until = 0, revision = ${greatest}(revision + 1, ${nowMs})
          WHERE name = ${name} AND paused_at IS NOT NULL`
        return changes === 1
      }
      case 'trigger': {
        const [submitted] = yield* submit(tx, [{ ...todo.job, scheduled: { name, atMs: nowMs, by } }], nowMs)
        yield* tx.run`
          UPDATE schedules SET last_at = ${nowMs}, last_job = ${submitted?.id ?? null}, runs = runs + 1, problem = NULL,
            problem_at = NULL, held_until = 0
          WHERE name = ${name}`
        tx.wakeWorkers()
        return true
      }
      case 'remove': {
        const changes = yield* tx.run`DELETE FROM schedules WHERE name = ${name}`
        return changes === 1
      }
    }
  }

  const matching = ({ names, owner, q, afterName }: ScheduleFilter): Sql =>
    allOf([
      ...(names === undefined ? [] : [sql`name ${inTexts(names)}`]),
      ...(owner === undefined ? [] : [sql`owner = ${owner}`]),
      ...(q === undefined
        ? []
        : [sql`(lower(name) LIKE ${contains(q)} ESCAPE '\\' OR lower(type) LIKE ${contains(q)} ESCAPE '\\')`]),
      ...(afterName === undefined ? [] : [sql`name ${bytewise} > ${afterName}`]),
    ])

  /** Stores the given ticks, whose rows are locked. */
  const moveOn = (tx: Tx, ticks: readonly ScheduleTaken[], nowMs: number) => {
    const rows = ticks.map(({ name, runs, skipped, nextAtMs }) => {
      const last = runs.at(-1)
      return { name, ran: runs.length, skipped, next: nextAtMs, last: last?.atMs ?? null, job: last?.job.id ?? null }
    })
    const columns = {
      name: 'text',
      ran: 'bigint',
      skipped: 'bigint',
      next: 'bigint',
      last: 'bigint',
      job: 'text',
    } as const
    return tx.run`
      UPDATE schedules SET next_at = given.next, planned_at = ${nowMs}, skipped = schedules.skipped + given.skipped,
        runs = runs + given.ran, counted = counted + given.ran, last_at = coalesce(given.last, last_at),
        last_job = coalesce(given.job, last_job), problem = NULL, problem_at = NULL, held_until = 0, hold_ms = 0
      FROM ${table(columns, rows)} AS given WHERE schedules.name = given.name`
  }

  return {
    declareSchedules: ({ schedules }) =>
      // Alone: two processes that declare the same new schedule would otherwise both find that it is missing.
      write(
        'declaring schedules',
        function* (tx, nowMs) {
          for (const one of byName(schedules)) {
            const before = yield* find(tx, one.name)
            if (before?.origin === 'runtime') throw exists(before)
            yield* define(tx, before, one, 'code', null, nowMs)
          }
        },
        { alone: 'schedules' },
      ),

    upsertSchedule: ({ schedule, actor, reason }) =>
      write(
        'storing a schedule',
        function* (tx, nowMs) {
          const { name } = schedule
          const before = yield* find(tx, name)
          if (before?.origin === 'code') return 'declared'
          const upserted = yield* define(tx, before, schedule, 'runtime', { actor, reason }, nowMs)
          if (upserted === 'same') return upserted
          const data = {
            isNew: upserted === 'created',
            type: schedule.type,
            cron: schedule.cron,
            everyMs: schedule.everyMs,
          }
          const entry = { atMs: nowMs, act: 'schedules.upsert', target: 'schedule', ids: [name], data }
          yield* history.audit(tx, { actor, reason }, entry)
          return upserted
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

    schedules: (filter = {}) =>
      read('reading schedules', function* (tx) {
        const rows = yield* tx.all<ScheduleRow>`
          SELECT ${COLUMNS}, (SELECT jobs.status FROM job_specs JOIN jobs ON jobs.key = job_specs.key
            WHERE job_specs.id = schedules.last_job) AS last_status
          FROM schedules WHERE ${matching(filter)} ORDER BY name ${bytewise}
          ${filter.limit === undefined ? NONE : sql`LIMIT ${filter.limit}`}`
        return rows.map(toSchedule)
      }),

    dueSchedules: ({ declared, limit }) =>
      read('reading due schedules', function* (tx) {
        const nowMs = yield* tx.now()
        const rows = yield* tx.all<DueRow>`${dueSql(dialect, { declared, limit, nowMs })}`
        const of = (wanted: DueRow['part']) =>
          rows.filter(({ part }) => part === wanted).toSorted((a, b) => a.due - b.due)
        const due = of('due').slice(0, limit)
        return {
          nowMs,
          due: due.map(toDue),
          astray: of('astray').map(toDue),
          nextAtMs: due.length === limit ? nowMs : (of('next')[0]?.due ?? null),
        }
      }),

    tickSchedules: ({ ticks }) =>
      write('taking ticks', function* (tx, nowMs) {
        // Many processes see the same ticks. The comparison lets one of them take each: the others find that it moved on.
        // They need not wait for the first, which may have many: a locked row is being changed.
        const expected = ticks.map(({ name, expect }) => ({ name, revision: expect.revision, next: expect.nextAtMs }))
        const found = yield* tx.all<{ name: string }>`
          SELECT schedules.name FROM schedules
          JOIN ${table({ name: 'text', revision: 'bigint', next: 'bigint' }, expected)} AS given
            ON given.name = schedules.name AND given.revision = schedules.revision AND given.next = schedules.next_at
          ORDER BY schedules.name ${lockRow} ${skipLocked}`
        const names = new Set(found.map(({ name }) => name))
        const taken = ticks.filter(({ name }) => names.has(name))
        if (taken.length > 0) yield* moveOn(tx, taken, nowMs)
        const jobs = taken.flatMap(({ name, runs }) =>
          runs.map(({ atMs, job }) => ({ ...job, scheduled: { name, atMs } })),
        )
        if (jobs.length > 0) {
          yield* submit(tx, jobs, nowMs)
          tx.wakeWorkers()
        }
        for (const { name, runs, skipped, because, nextAtMs } of taken) {
          if (skipped > 0) yield* addEvent(tx, name, nowMs, 'skipped', { skipped, because, ran: runs.length })
          if (nextAtMs === null) yield* addEvent(tx, name, nowMs, 'ended', null)
        }
        return ticks.map(({ name }) => (names.has(name) ? 'taken' : 'moved-on'))
      }),

    holdSchedule: ({ name, expect, problem, holdMs }) =>
      write('holding a schedule', function* (tx, nowMs) {
        const before = yield* find(tx, name)
        if (before?.revision !== expect.revision || before.nextAtMs !== expect.nextAtMs) return
        // Another process found the same problem meanwhile: its hold counts.
        if (before.heldUntilMs > nowMs) return
        const isNews = before.problem !== problem
        yield* tx.run`
          UPDATE schedules SET problem = ${problem}, problem_at = ${isNews ? nowMs : before.problem_at},
            held_until = ${nowMs + holdMs}, hold_ms = ${holdMs}
          WHERE name = ${name}`
        if (isNews) yield* addEvent(tx, name, nowMs, 'failed', { problem })
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

const exists = ({ name, declaredAtMs }: ScheduleRow): RedressError =>
  new RedressError(
    'SCHEDULE_EXISTS',
    `This program declares the schedule ${name}, but a runtime schedule has this name since ${isoTime(declaredAtMs)}.`,
  )
