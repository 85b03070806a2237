import { type Progress, progressData } from '../../../core/job/reports.ts'
import type { LogCount, LogFilter, Report, StoredLogLine } from '../../contract/reports.ts'
import type { Store, WorkerKey } from '../../contract/store.ts'
import { history, toEventNumber, toRowNumber } from '../history.ts'
import type { ScriptContext, Tx } from '../tx/context.ts'
import type { Script } from '../tx/script.ts'
import { allOf, sql } from '../tx/sql.ts'
import { parse } from './rows.ts'

/** The fence of a report: see `fence.ts` of each driver. */
const HELD = sql`jobs.key = given.key AND jobs.attempt = given.attempt AND jobs.status = 'processing'`

interface HeldRow {
  key: number
  worker: WorkerKey
  claimed_at: number
  untold_claim: number | null
  lines: number | null
  dropped: number | null
  done: number | null
  total: number | null
  note: string | null
}

const EVENT_COLUMNS = {
  key: 'bigint',
  at: 'bigint',
  kind: 'text',
  attempt: 'bigint',
  worker: 'bigint',
  data: 'text',
} as const

const REPORT_COLUMNS = {
  key: 'bigint',
  attempt: 'bigint',
  lines: 'bigint',
  dropped: 'bigint',
  done: 'float8',
  total: 'float8',
  note: 'text',
} as const

/** One event of a report. */
interface NewEvent {
  key: number
  at: number
  kind: 'log' | 'progress'
  attempt: number
  worker: WorkerKey
  data: string
}

/** The event of each line that is not stored yet, and of the progress. */
function eventsOf({ key, attempt, lines, progress }: Report, row: HeldRow, nowMs: number): NewEvent[] {
  const { worker, claimed_at } = row
  const about = { key, attempt, worker }
  const events: NewEvent[] = lines
    .filter(({ number }) => number > (row.lines ?? 0))
    .map(({ number, agoMs, message, fields }) => ({
      ...about,
      at: Math.max(claimed_at, nowMs - Math.round(agoMs)),
      kind: 'log',
      data: JSON.stringify({ line: number, message, ...(fields !== null && { fields }) }),
    }))
  if (progress?.isEvent) {
    events.push({ ...about, at: nowMs, kind: 'progress', data: JSON.stringify(progressData(progress)) })
  }
  return events
}

const hasDetail = (progress: Progress | null): boolean => progress !== null && progress.done !== null

/** The row of `attempt_reports` after this report; null where none is needed. */
function reportRow({ key, attempt, lines, dropped, progress }: Report, row: HeldRow) {
  if (row.lines === null && lines.length === 0 && dropped === 0 && !hasDetail(progress)) return null
  const { done, total, note } = progress ?? row
  return {
    ...{ key, attempt, done, total, note },
    lines: Math.max(row.lines ?? 0, lines.at(-1)?.number ?? 0),
    dropped: Math.max(row.dropped ?? 0, dropped),
  }
}

export const reports = {
  /** Stores reports, each of another job. Returns those whose attempt is not held any more: they change nothing. */
  *add(tx: Tx, given: readonly Report[], nowMs: number): Script<Report[]> {
    const sorted = given.toSorted((a, b) => a.key - b.key)
    const attempts = sorted.map(({ key, attempt, progress }) => ({
      key,
      attempt,
      progress: progress?.fraction ?? null,
    }))
    const { table } = tx.dialect
    const held = table({ key: 'bigint', attempt: 'bigint', progress: 'float8' }, attempts)
    // Until the end of this transaction no other one can end these attempts.
    yield* tx.lockRows(
      'jobs',
      'key',
      sorted.map(({ key }) => key),
    )
    const found = yield* tx.all<HeldRow>`
      SELECT jobs.key, jobs.worker, jobs.claimed_at, jobs.untold_claim, reported.lines, reported.dropped, reported.done, reported.total,
        reported.note
      FROM ${held} AS given JOIN jobs ON ${HELD}
        LEFT JOIN attempt_reports AS reported ON reported.job = jobs.key AND reported.attempt = jobs.attempt`
    const rowOf = new Map(found.map((row) => [row.key, row]))
    const kept = sorted.flatMap((report) => {
      const row = rowOf.get(report.key)
      return row === undefined ? [] : [{ report, row }]
    })
    const events = kept.flatMap(({ report, row }) => eventsOf(report, row, nowMs))
    if (events.length > 0) {
      const untold = kept.filter(({ row }) => row.untold_claim !== null).map(({ row }) => row.key)
      if (untold.length > 0) yield* history.recordClaims(tx, untold)
      yield* tx.run`
        INSERT INTO events (job, at, kind, attempt, worker, data)
        SELECT key, at, kind, attempt, worker, data FROM ${table(EVENT_COLUMNS, events)} AS added ORDER BY i`
    }
    const rows = kept.flatMap(({ report, row }) => reportRow(report, row) ?? [])
    if (rows.length > 0) {
      yield* tx.run`
        INSERT INTO attempt_reports (job, attempt, lines, dropped, done, total, note)
        SELECT key, attempt, lines, dropped, done, total, note FROM ${table(REPORT_COLUMNS, rows)} AS given WHERE true
        ON CONFLICT (job, attempt) DO UPDATE SET lines = excluded.lines, dropped = excluded.dropped,
          done = excluded.done, total = excluded.total, note = excluded.note`
    }
    if (kept.some(({ report }) => report.progress !== null)) {
      yield* tx.run`
        UPDATE jobs SET progress = given.progress FROM ${held} AS given WHERE ${HELD} AND given.progress IS NOT NULL`
    }
    return sorted.filter(({ key }) => !rowOf.has(key))
  },
}

interface LineRow {
  seq: number
  at: number
  attempt: number
  data: string | null
}

export function openLogs({ read }: Pick<ScriptContext, 'read'>): Pick<Store, 'logs' | 'logCounts'> {
  const linesOf = function* (tx: Tx, { id, attempt, afterSeq, limit }: LogFilter): Script<StoredLogLine[]> {
    const conditions = allOf([
      sql`events.job = (SELECT key FROM job_specs WHERE id = ${id})`,
      sql`kind = 'log'`,
      ...(attempt === undefined ? [] : [sql`attempt = ${attempt}`]),
      ...(afterSeq === undefined ? [] : [sql`seq > ${toRowNumber(afterSeq)}`]),
    ])
    const rows = yield* tx.all<LineRow>`
      SELECT seq, at, attempt, data FROM events WHERE ${conditions}
      ORDER BY seq ${afterSeq === undefined ? sql`DESC` : sql`ASC`} LIMIT ${limit}`
    return rows
      .map(({ seq, at, attempt: of, data }) => {
        const { line, message, fields } = parse(data, { line: 0, message: '', fields: null })
        return { seq: toEventNumber(seq), atMs: at, attempt: of, number: line, message, fields: fields ?? null }
      })
      .sort((a, b) => a.seq - b.seq)
  }
  return {
    logs: (filter) => read('reading log lines', (tx) => linesOf(tx, filter)),
    logCounts: ({ id }) =>
      read('counting log lines', function* (tx) {
        const rows = yield* tx.all<LogCount>`
          SELECT attempt, lines, dropped FROM attempt_reports
          WHERE job = (SELECT key FROM job_specs WHERE id = ${id}) AND lines + dropped > 0 ORDER BY attempt`
        return rows.map(({ attempt, lines, dropped }) => ({ attempt, lines, dropped }))
      }),
  }
}
