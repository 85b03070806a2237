import type { EventData, EventKind, SubjectEvents, SubjectThing } from '../../core/events.ts'
import type { By, JobKey, WorkerKey } from '../store.ts'
import type { AuditEntry, FailedAttempt } from '../written.ts'
import type { Tx } from './client.ts'
import type { PgContext } from './context.ts'
import { openOutbox } from './outbox.ts'
import { printable, textOf } from './text.ts'

export { printable, textOf } from './text.ts'

export type History = ReturnType<typeof openHistory>

/** The append-only tables. Whoever changes a row adds its event in the same transaction. */
export function openHistory(now: PgContext['now']) {
  const { tell, tellAll } = openOutbox(now)

  return {
    /** Leaves in the outbox what is to be told; part of the transaction that it tells of. */
    tell,
    /** The same for all that one transaction changes, in few statements. */
    tellAll,

    async event(
      tx: Tx,
      key: JobKey,
      atMs: number,
      kind: EventKind,
      attempt: number,
      worker: WorkerKey | null,
      durationMs: number | null,
      data: EventData | null,
    ): Promise<void> {
      await tx`
        INSERT INTO events (job, at, kind, attempt, worker, duration_ms, data)
        VALUES (${key}, ${atMs}, ${kind}, ${attempt}, ${worker}, ${durationMs}, ${textOf(data)})`
    },

    /** Something happened to anything but a job: a batch, a breaker, a queue. `subject` is 'batch:ID' and so on. */
    async subjectEvent<Thing extends SubjectThing>(
      tx: Tx,
      subject: `${Thing}:${string}`,
      atMs: number,
      kind: SubjectEvents[Thing][number],
      data: object | null,
    ): Promise<void> {
      await tx`
        INSERT INTO events (job, at, kind, attempt, data, subject) VALUES (0, ${atMs}, ${kind}, 0, ${textOf(data)}, ${subject})`
    },

    /** Who did what, why, and to which ids; part of the transaction that does it. */
    async audit(tx: Tx, { actor, reason }: By, { atMs, act, target, ids, data = null }: AuditEntry): Promise<void> {
      await tx`
        INSERT INTO audit (at, actor, act, reason, target, ids, data)
        VALUES (${atMs}, ${printable(actor)}, ${act}, ${printable(reason)}, ${target}, ${JSON.stringify(ids)},
          ${textOf(data)})`
    },

    /** Stores a failure with its decision and answers with its number. */
    async failure(
      tx: Tx,
      { key, atMs, attempt, worker, failure, from, to, isPermanent }: FailedAttempt,
    ): Promise<number> {
      const [added] = await tx<{ seq: number }[]>`
        INSERT INTO failures (job, at, attempt, worker, stage, owner, code, fault, message, waiting, detail,
          context, causes, rule, fingerprint, from_status, to_status, decision, permanent)
        VALUES (${key}, ${atMs}, ${attempt}, ${worker}, ${failure.stage}, ${failure.owner}, ${failure.code}, ${failure.fault},
          ${printable(failure.message)}, ${printable(failure.waiting)}, ${printable(failure.detail)},
          ${hasAny(failure.context) ? JSON.stringify(failure.context) : null},
          ${failure.causes.length === 0 ? null : JSON.stringify(failure.causes)}, ${printable(failure.rule)}, ${failure.fingerprint},
          ${from}, ${to}, ${JSON.stringify(failure.decision)}, ${isPermanent === undefined ? null : Number(isPermanent)})
        RETURNING seq`
      return (added as { seq: number }).seq
    },
  }
}

const hasAny = (value: object): boolean => Object.keys(value).length > 0
