import { type BatchEventKind, newsOf, outcomeOf, settledPayload } from '../../../core/batch.ts'
import { RedressError } from '../../../core/errors.ts'
import type { Status } from '../../../core/job/states.ts'
import { noticesOfSettlement } from '../../../core/notice/notice.ts'
import type { Rollup } from '../../../core/policy/flow.ts'
import type { Policy } from '../../../core/policy/policy.ts'
import {
  type BatchCounts,
  type BatchStanding,
  type BatchState,
  countsOfMove,
  isReopenedByRetry,
  isTaking,
  statesEntered,
} from '../../../core/rollup.ts'
import type { NewBatch } from '../../contract/batches.ts'
import type { BatchKey, By, NewJob, Submitted } from '../../contract/store.ts'
import { settledJobId } from '../derived-id.ts'
import { history } from '../history.ts'
import type { ScriptContext, Tx } from '../tx/context.ts'
import type { Script } from '../tx/script.ts'
/** A row of `batches`, as both drivers have it. */
export interface StoredBatch {
  key: number
  id: string
  name: string
  owner: string | null
  rollup: Rollup | null
  state: BatchState
  sealed: number
  total: number
  unfinished: number
  complete: number
  failed: number
  permanent: number
  cancelled: number
  data: string
  on_settled: string | null
  notify: string | null
  created_at: number
  settled_at: number | null
  settlements: number
  expires_at: number | null
}

const ROLLUP_WITHOUT_JOBS: Rollup = 'partial'

export const standingOf = (row: StoredBatch): BatchStanding => ({
  state: row.state,
  isSealed: row.sealed === 1,
  rollup: row.rollup ?? ROLLUP_WITHOUT_JOBS,
  expiresAtMs: row.expires_at,
  total: row.total,
  unfinished: row.unfinished,
  complete: row.complete,
  failed: row.failed,
  permanent: row.permanent,
  cancelled: row.cancelled,
})

const closedError = ({ id, name, state, sealed }: StoredBatch): RedressError => {
  const why = state === 'expired' ? 'it has expired' : sealed === 1 ? 'it is sealed' : 'its time is over'
  return new RedressError('BATCH_CLOSED', `Batch ${id} (${name}) takes no more jobs: ${why}.`)
}

/** The write-ahead line must be on disk before the transaction that settles the batch, which cannot be foreseen. */
function refuseWriteAheadOnSettled(type: string, { audit }: Policy): void {
  if (audit !== 'write-ahead') return
  throw new RedressError('OPTION_INVALID', `onSettled: ${type} has audit 'write-ahead', and cannot be submitted so.`, {
    action: 'Let onSettled submit a job of another type, which submits that one.',
  })
}

export type Batches = ReturnType<typeof openBatches>

/**
 * Counts and states of batches. The counters change in one UPDATE that answers with the new counts: of two jobs that end
 * at the same moment, the second one's transaction counts on from the first one's commit, and only it finds nothing
 * unfinished.
 */
export function openBatches({ types, submit }: Pick<ScriptContext, 'types' | 'submit'>) {
  const announce = function* (tx: Tx, batch: StoredBatch, kind: BatchEventKind, nowMs: number): Script<void> {
    yield* history.subjectEvent(tx, `batch:${batch.id}`, nowMs, kind, newsOf(batch))
    if (kind !== 'settled' || batch.notify === null) return
    yield* history.tell(tx, noticesOfSettlement(batch, JSON.parse(batch.notify) as string[]), null, nowMs)
  }

  /** One job per settlement, in its transaction; the id is derived from the settlement. */
  const submitOnSettled = function* (tx: Tx, batch: StoredBatch, nowMs: number): Script<void> {
    if (batch.on_settled === null) return
    const { type, input } = JSON.parse(batch.on_settled) as NonNullable<NewBatch['onSettled']>
    const id = settledJobId(batch.id, batch.settlements)
    const { owner } = batch
    const job = { id, type, payload: settledPayload(input, outcomeOf(batch)), owner, priority: 0, delayMs: 0 }
    tx.hintWork()
    const rest = { dedupe: null, retriedFrom: null, rejected: null, batch: null, limitKey: null }
    yield* submit(tx, [{ ...job, ...rest }], nowMs)
  }

  // Each compares the state that it leaves: a second transaction changes nothing and announces nothing.
  const settle = (tx: Tx, key: BatchKey, state: BatchState, nowMs: number) => tx.get<StoredBatch>`
    UPDATE batches SET state = ${state}, sealed = 1, settled_at = ${nowMs}, settlements = settlements + 1
    WHERE key = ${key} AND state = 'open' AND unfinished = 0 RETURNING *`
  const expire = (tx: Tx, key: BatchKey) => tx.get<StoredBatch>`
    UPDATE batches SET state = 'expired' WHERE key = ${key} AND state NOT IN ('open', 'expired') RETURNING *`

  /** Lets a batch enter the states that it has reached and answers with its new row. The row is locked. */
  const enterStates = function* (tx: Tx, batch: StoredBatch, nowMs: number): Script<StoredBatch> {
    let standing = batch
    for (const state of statesEntered(standingOf(batch), nowMs)) {
      const isExpiry = state === 'expired'
      const entered = yield* isExpiry ? expire(tx, batch.key) : settle(tx, batch.key, state, nowMs)
      if (entered === undefined) break
      standing = entered
      yield* announce(tx, standing, isExpiry ? 'expired' : 'settled', nowMs)
      if (!isExpiry) yield* submitOnSettled(tx, standing, nowMs)
    }
    return standing
  }

  /** Called before a job of the batch is unfinished again. A batch whose time is over expires first, and stays so. */
  const reopenFor = function* (tx: Tx, key: BatchKey, nowMs: number): Script<void> {
    const before = yield* tx.get<StoredBatch>`SELECT * FROM batches WHERE key = ${key} ${tx.dialect.forUpdate}`
    if (before === undefined || !isReopenedByRetry(before)) return
    const standing = yield* enterStates(tx, before, nowMs)
    if (!isReopenedByRetry(standing)) return
    const reopened = yield* tx.get<StoredBatch>`
      UPDATE batches SET state = 'open', settled_at = NULL
      WHERE key = ${key} AND state NOT IN ('open', 'expired') RETURNING *`
    if (reopened !== undefined) yield* announce(tx, reopened, 'reopened', nowMs)
  }

  const count = function* (tx: Tx, key: BatchKey, counts: BatchCounts, jobs: number, nowMs: number): Script<void> {
    const { total, unfinished, complete, failed, permanent, cancelled } = counts
    if (unfinished > 0) yield* reopenFor(tx, key, nowMs)
    const row = yield* tx.get<StoredBatch>`
      UPDATE batches SET total = total + ${total * jobs}, unfinished = unfinished + ${unfinished * jobs},
        complete = complete + ${complete * jobs}, failed = failed + ${failed * jobs},
        permanent = permanent + ${permanent * jobs}, cancelled = cancelled + ${cancelled * jobs}
      WHERE key = ${key} RETURNING *`
    if (row !== undefined) yield* enterStates(tx, row, nowMs)
  }

  const keyOf = function* (tx: Tx, id: string): Script<BatchKey | null> {
    const row = yield* tx.get<{ key: BatchKey }>`SELECT key FROM batches WHERE id = ${id}`
    return row?.key ?? null
  }

  const sealOne = function* (tx: Tx, key: BatchKey, nowMs: number): Script<'sealed' | 'was-sealed'> {
    const sealed = yield* tx.get<StoredBatch>`
      UPDATE batches SET sealed = 1 WHERE key = ${key} AND sealed = 0 RETURNING *`
    if (sealed === undefined) return 'was-sealed'
    yield* enterStates(tx, sealed, nowMs)
    return 'sealed'
  }

  return {
    keyOf,

    /** So many jobs of the batch went from one state to another. Called in the transaction that moves them. */
    moved: (tx: Tx, batch: BatchKey, from: Status, to: Status, isPermanent: boolean, nowMs: number, jobs = 1) =>
      count(tx, batch, countsOfMove(from, to, isPermanent), jobs, nowMs),

    /** So many new jobs enter, all in the same state; the first one brings the batch options of its type. */
    *entered(
      tx: Tx,
      id: string,
      policy: Policy,
      status: Status,
      isPermanent: boolean,
      nowMs: number,
      jobs = 1,
    ): Script<void> {
      // Locked: it must not be sealed, or expire, between this look and the count.
      const batch = yield* tx.get<StoredBatch>`SELECT * FROM batches WHERE id = ${id} ${tx.dialect.forUpdate}`
      if (batch === undefined) throw new RedressError('BATCH_NOT_FOUND', `There is no batch ${id}.`)
      if (!isTaking(standingOf(batch), nowMs)) throw closedError(batch)
      if (batch.rollup === null || batch.notify === null) {
        yield* tx.run`
          UPDATE batches SET rollup = coalesce(rollup, ${policy.rollup}),
            notify = coalesce(notify, ${JSON.stringify(policy.notify.settled)})
          WHERE key = ${batch.key}`
      }
      yield* count(tx, batch.key, countsOfMove(null, status, isPermanent), jobs, nowMs)
    },

    *open(
      tx: Tx,
      batch: NewBatch,
      jobs: readonly NewJob[],
      nowMs: number,
    ): Script<{ isNew: boolean; jobs: Submitted[] }> {
      const { id, name, owner, rollup, data, onSettled, notify, expiresInMs } = batch
      if (onSettled !== null) {
        const { policy } = yield* types.needed(tx, onSettled.type)
        refuseWriteAheadOnSettled(onSettled.type, policy)
      }
      const settled = onSettled === null ? null : JSON.stringify(onSettled)
      const channels = notify === null ? null : JSON.stringify(notify)
      const expiresAtMs = expiresInMs === null ? null : nowMs + expiresInMs
      const added = yield* tx.get<{ key: BatchKey }>`
        INSERT INTO batches (id, name, owner, rollup, state, sealed, data, on_settled, notify, created_at, expires_at)
        VALUES (${id}, ${name}, ${owner}, ${rollup}, 'open', 0, ${data}, ${settled}, ${channels}, ${nowMs},
          ${expiresAtMs})
        ON CONFLICT DO NOTHING RETURNING key`
      if (added === undefined) return { isNew: false, jobs: [] }
      const ofBatch = jobs.map((job) => ({ ...job, batch: id }))
      const submitted = yield* submit(tx, ofBatch, nowMs)
      if (batch.isSealed) yield* sealOne(tx, added.key, nowMs)
      return { isNew: true, jobs: submitted }
    },

    *seal(
      tx: Tx,
      id: string,
      by: (By & { act: string }) | undefined,
      nowMs: number,
    ): Script<'sealed' | 'was-sealed' | 'not-found'> {
      const key = yield* keyOf(tx, id)
      if (key === null) return 'not-found'
      if (by !== undefined) yield* history.audit(tx, by, { atMs: nowMs, act: by.act, target: 'batch', ids: [id] })
      return yield* sealOne(tx, key, nowMs)
    },

    /** Looks again, in this transaction: another process may have been quicker, or a retry. */
    *expire(tx: Tx, keys: readonly BatchKey[], nowMs: number): Script<number> {
      const rows = yield* tx.all<StoredBatch>`
        SELECT * FROM batches WHERE key ${tx.dialect.inNumbers(keys)} AND state <> 'expired'
        ORDER BY key ${tx.dialect.forUpdate}`
      let expired = 0
      for (const batch of rows) {
        const { state } = yield* enterStates(tx, batch, nowMs)
        if (state === 'expired') expired++
      }
      return expired
    },
  }
}
