import type { DecidedFailure } from '../../core/job/change.ts'
import type { EventData, EventKind, SubjectEvents, SubjectThing } from '../../core/job/events.ts'
import type { Status } from '../../core/job/states.ts'
import type { NewNotice } from '../../core/notice/notice.ts'
import type { AddedNotice } from '../contract/notices.ts'
import type { ActorAndReason, BatchKey, JobKey, WorkerKey } from '../contract/store.ts'
import { notifyAll } from './notices.ts'
import type { Tx } from './tx/context.ts'
import type { Script } from './tx/script.ts'
import { Sql, sql } from './tx/sql.ts'

export interface FailedAttempt {
  key: JobKey
  atMs: number
  attempt: number
  worker: WorkerKey | null
  failure: DecidedFailure
  from: Status | null
  to: Status
  /** null if the failure does not end its job. */
  isPermanent: boolean | null
}

/** An act of a person, or of a rule in a person's name. */
export interface AuditEntry {
  atMs: number
  /** The name of the operation. */
  act: string
  /** What it was done to: 'job', 'batch', 'queue', ... */
  target: string
  ids: readonly string[]
  data?: object | null
}

export type History = typeof history

/** The append-only tables. A script that changes a row adds its event in the same transaction. */
export const history = {
  /** Leaves notices in the outbox, as part of the transaction that they tell of. */
  notifyAll,
  *notify(
    tx: Tx,
    notices: readonly NewNotice[] | undefined,
    batch: BatchKey | null,
    nowMs: number,
  ): Script<AddedNotice[]> {
    return notices === undefined ? [] : yield* notifyAll(tx, [{ notices, batch }], nowMs)
  },

  *event(tx: Tx, ...event: Parameters<typeof eventValues>): Script<void> {
    yield* tx.run`${new Sql(EVENT_INSERT, eventValues(...event))}`
  },

  /**
   * Gives the claim of each attempt under way a row of its own, unless an event has told of it. It comes before any event of the
   * attempt that is neither its start nor its end: those two carry the claim themselves. The jobs must be locked.
   */
  *recordClaims(tx: Tx, keys: readonly JobKey[]): Script<void> {
    const untold = sql`key ${tx.dialect.inNumbers(keys)} AND status = 'processing' AND untold_claim = claimed_at`
    yield* tx.run`
      INSERT INTO events (job, at, kind, attempt, worker)
      SELECT key, untold_claim, 'processing', attempt, worker FROM jobs WHERE ${untold}`
    yield* tx.run`UPDATE jobs SET untold_claim = NULL WHERE ${untold}`
  },

  /** An event of anything but a job: a batch, a breaker, a queue. `subject` is 'batch:ID' and so on. */
  *subjectEvent<Thing extends SubjectThing>(
    tx: Tx,
    subject: `${Thing}:${string}`,
    atMs: number,
    kind: SubjectEvents[Thing][number],
    data: object | null,
  ): Script<void> {
    yield* tx.run`
      INSERT INTO events (job, at, kind, attempt, data, subject)
      VALUES (0, ${atMs}, ${kind}, 0, ${jsonOf(data)}, ${subject})`
  },

  /** The last event of a job, which a person deleted: the job cannot be read any more, so `data` says what it was. */
  *deletedEvent(tx: Tx, id: string, atMs: number, data: object): Script<void> {
    yield* tx.run`
      INSERT INTO events (job, at, kind, attempt, data, subject)
      VALUES (0, ${atMs}, 'deleted', 0, ${jsonOf(data)}, ${`job:${id}`})`
  },

  /** The actor, the act, the reason and the ids; part of the transaction that does it. */
  *audit(tx: Tx, { actor, reason }: ActorAndReason, { atMs, act, target, ids, data = null }: AuditEntry): Script<void> {
    yield* tx.run`
      INSERT INTO audit (at, actor, act, reason, target, ids, data)
      VALUES (${atMs}, ${actor}, ${act}, ${reason}, ${target}, ${JSON.stringify(ids)}, ${jsonOf(data)})`
  },

  /** Stores a failure with its decision and answers with its number. */
  *failure(tx: Tx, failed: FailedAttempt): Script<number> {
    const added = yield* tx.get<{ seq: number }>`${new Sql(FAILURE_INSERT, failureValues(failed))} RETURNING seq`
    return (added as { seq: number }).seq
  },
}

/** The texts between the values. SQLite prepares them once and binds the values itself, because nearly every change comes here. */
const insertInto = (table: string, columns: string): readonly string[] => {
  const commas = columns.split(',').slice(1)
  return [`INSERT INTO ${table} (${columns}) VALUES (`, ...commas.map(() => ', '), ')']
}

export const EVENT_INSERT = insertInto('events', 'job, at, kind, attempt, worker, duration_ms, data, claimed_at')

export const eventValues = (
  key: JobKey,
  atMs: number,
  kind: EventKind,
  attempt: number,
  worker: WorkerKey | null,
  durationMs: number | null,
  data: EventData | null,
  /** Of an attempt whose claim no event has told of. */
  claimedAtMs: number | null = null,
): (string | number | null)[] => [key, atMs, kind, attempt, worker, durationMs, jsonOf(data), claimedAtMs]

/**
 * Readers count in steps of two. The number before that of a row belongs to the claim that the row tells of, so that every
 * event of a job has a number of its own, in order.
 */
export const toEventNumber = (seq: number): number => seq * 2

/** The last row of which a reader that has come to this number has everything. */
export const toRowNumber = (eventNumber: number): number => Math.floor(eventNumber / 2)

export const FAILURE_INSERT = insertInto(
  'failures',
  `job, at, attempt, worker, stage, owner, code, fault, message, waiting, detail, context, causes, rule, fingerprint,
    from_status, to_status, decision, permanent`,
)

export const failureValues = (failed: FailedAttempt): (string | number | null)[] => {
  const { failure, isPermanent } = failed
  return [
    failed.key,
    failed.atMs,
    failed.attempt,
    failed.worker,
    failure.phase,
    failure.layer,
    failure.code,
    failure.fault,
    failure.message,
    failure.waiting,
    failure.detail,
    isEmpty(failure.context) ? null : JSON.stringify(failure.context),
    failure.causes.length === 0 ? null : JSON.stringify(failure.causes),
    failure.rule,
    failure.fingerprint,
    failed.from,
    failed.to,
    JSON.stringify(failure.decision),
    isPermanent === null ? null : Number(isPermanent),
  ]
}

const jsonOf = (data: object | null): string | null => (data === null ? null : JSON.stringify(data))

function isEmpty(value: object): boolean {
  for (const _ in value) return false
  return true
}
