import type { EventData, EventKind, SubjectEvents, SubjectThing } from '../../core/events.ts'
import type { By, JobKey, WorkerKey } from '../store.ts'
import type { AuditEntry, FailedAttempt } from '../written.ts'
import type { Connection } from './connection.ts'
import { openOutbox } from './notices.ts'

export type History = ReturnType<typeof openHistory>

/** The append-only tables. Whoever changes a row adds its event in the same transaction. */
export function openHistory(connection: Connection) {
  const { tell } = openOutbox(connection)
  const addEvent = connection.prepare(
    'INSERT INTO events (job, at, kind, attempt, worker, duration_ms, data) VALUES (?, ?, ?, ?, ?, ?, ?)',
  )
  const addSubjectEvent = connection.prepare(
    'INSERT INTO events (job, at, kind, attempt, data, subject) VALUES (0, ?, ?, 0, ?, ?)',
  )
  const addAudit = connection.prepare(
    'INSERT INTO audit (at, actor, act, reason, target, ids, data) VALUES (?, ?, ?, ?, ?, ?, ?)',
  )
  const addFailure = connection.prepare(`
    INSERT INTO failures (job, at, attempt, worker, stage, owner, code, fault, message, waiting, detail,
      context, causes, rule, fingerprint, from_status, to_status, decision, permanent)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)

  return {
    /** Leaves in the outbox what is to be told; part of the transaction that it tells of. */
    tell,

    event(
      key: JobKey,
      atMs: number,
      kind: EventKind,
      attempt: number,
      worker: WorkerKey | null,
      durationMs: number | null,
      data: EventData | null,
    ): void {
      addEvent.run(key, atMs, kind, attempt, worker, durationMs, data === null ? null : JSON.stringify(data))
    },

    /** Something happened to anything but a job: a batch, a breaker, a queue. `subject` is 'batch:ID' and so on. */
    subjectEvent<Thing extends SubjectThing>(
      subject: `${Thing}:${string}`,
      atMs: number,
      kind: SubjectEvents[Thing][number],
      data: object | null,
    ): void {
      addSubjectEvent.run(atMs, kind, data === null ? null : JSON.stringify(data), subject)
    },

    /** Who did what, why, and to which ids; part of the transaction that does it. */
    audit({ actor, reason }: By, { atMs, act, target, ids, data = null }: AuditEntry): void {
      addAudit.run(atMs, actor, act, reason, target, JSON.stringify(ids), data === null ? null : JSON.stringify(data))
    },

    /** Stores a failure with its decision and answers with its number. */
    failure({ key, atMs, attempt, worker, failure, from, to, isPermanent }: FailedAttempt): number {
      const added = addFailure.run(
        key,
        atMs,
        attempt,
        worker,
        failure.stage,
        failure.owner,
        failure.code,
        failure.fault,
        failure.message,
        failure.waiting,
        failure.detail,
        jsonOrNull(failure.context),
        failure.causes.length === 0 ? null : JSON.stringify(failure.causes),
        failure.rule,
        failure.fingerprint,
        from,
        to,
        JSON.stringify(failure.decision),
        isPermanent === undefined ? null : Number(isPermanent),
      )
      return Number(added.lastInsertRowid)
    },
  }
}

function jsonOrNull(value: Record<string, unknown>): string | null {
  for (const _ in value) return JSON.stringify(value)
  return null
}
