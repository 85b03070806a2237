import { RedressError } from '../../core/errors.ts'
import { noticesOfSettlement } from '../../core/notices.ts'
import type { Policy } from '../../core/policy.ts'
import { type BatchCounts, countsOfMove, isReopenedByRetry, isTaking, statesEntered } from '../../core/rollup.ts'
import type { Status } from '../../core/states.ts'
import { type BatchEventKind, newsOf, outcomeOf, settledPayload } from '../../core/view-batch.ts'
import { closedError, refuseWriteAheadOnSettled, type StoredBatch, standingOf } from '../batch-rows.ts'
import type { BatchStore, NewBatch } from '../batches.ts'
import { settledJobId } from '../derived-id.ts'
import type { BatchKey, By, NewJob, Submitted } from '../store.ts'
import type { Sql, Tx } from './client.ts'
import type { PgContext } from './context.ts'
import { printable } from './history.ts'

export type Batches = ReturnType<typeof openBatches>

/**
 * Counts and states of batches. The counters change in one UPDATE that answers with what they came to: of two jobs that
 * end at the same moment, the second waits for the first one's commit and counts on from there, and only it finds
 * nothing unfinished.
 */
export function openBatches(
  { types, history, hintWork }: PgContext,
  submitMany: (tx: Tx, jobs: readonly NewJob[], nowMs: number) => Promise<Submitted[]>,
) {
  /** The one place where the world learns what became of a batch: its history, and whoever wants a notice. */
  const announce = async (tx: Tx, batch: StoredBatch, kind: BatchEventKind, nowMs: number): Promise<void> => {
    await history.subjectEvent(tx, `batch:${batch.id}`, nowMs, kind, newsOf(batch))
    if (kind !== 'settled' || batch.notify === null) return
    await history.tell(tx, noticesOfSettlement(batch, JSON.parse(batch.notify) as string[]), null, nowMs)
  }

  /** One job per settlement, in its transaction; the derived id is that of this settlement and of no other. */
  const submitOnSettled = async (tx: Tx, batch: StoredBatch, nowMs: number): Promise<void> => {
    if (batch.on_settled === null) return
    const { type, input } = JSON.parse(batch.on_settled) as NonNullable<NewBatch['onSettled']>
    const id = settledJobId(batch.id, batch.settlements)
    const { owner } = batch
    const job = { id, type, payload: settledPayload(input, outcomeOf(batch)), owner, priority: 0, delayMs: 0 }
    hintWork(tx)
    const rest = { dedupe: null, retriedFrom: null, rejected: null, batch: null, limitKey: null }
    await submitMany(tx, [{ ...job, ...rest }], nowMs)
  }

  // Each compares the state it leads from: whoever comes second changes nothing, and announces nothing.
  const settle = (tx: Tx, key: BatchKey, state: string, nowMs: number) => tx<StoredBatch[]>`
    UPDATE batches SET state = ${state}, sealed = 1, settled_at = ${nowMs}, settlements = settlements + 1
    WHERE key = ${key} AND state = 'open' AND unfinished = 0 RETURNING *`
  const expire = (tx: Tx, key: BatchKey) => tx<StoredBatch[]>`
    UPDATE batches SET state = 'expired' WHERE key = ${key} AND state NOT IN ('open', 'expired') RETURNING *`

  /** Lets a batch enter what it has come to, and answers with how it stands then. Its row is locked by now. */
  const enterStates = async (tx: Tx, batch: StoredBatch, nowMs: number): Promise<StoredBatch> => {
    let standing = batch
    for (const state of statesEntered(standingOf(batch), nowMs)) {
      const isExpiry = state === 'expired'
      const [entered] = await (isExpiry ? expire(tx, batch.key) : settle(tx, batch.key, state, nowMs))
      if (entered === undefined) break
      standing = entered
      await announce(tx, standing, isExpiry ? 'expired' : 'settled', nowMs)
      if (!isExpiry) await submitOnSettled(tx, standing, nowMs)
    }
    return standing
  }

  const count = async (tx: Tx, key: BatchKey, counts: BatchCounts, nowMs: number): Promise<void> => {
    const { total, unfinished, complete, failed, permanent, cancelled } = counts
    if (unfinished > 0) await reopenFor(tx, key, nowMs)
    const [row] = await tx<StoredBatch[]>`
      UPDATE batches SET total = total + ${total}, unfinished = unfinished + ${unfinished},
        complete = complete + ${complete}, failed = failed + ${failed}, permanent = permanent + ${permanent},
        cancelled = cancelled + ${cancelled}
      WHERE key = ${key} RETURNING *`
    if (row !== undefined) await enterStates(tx, row, nowMs)
  }

  /** Before a job of it is unfinished again. An expiry that nobody wrote down yet comes first, and is final. */
  const reopenFor = async (tx: Tx, key: BatchKey, nowMs: number): Promise<void> => {
    const [before] = await tx<StoredBatch[]>`SELECT * FROM batches WHERE key = ${key} FOR UPDATE`
    if (before === undefined || !isReopenedByRetry(before)) return
    if (!isReopenedByRetry(await enterStates(tx, before, nowMs))) return
    const [reopened] = await tx<StoredBatch[]>`
      UPDATE batches SET state = 'open', settled_at = NULL
      WHERE key = ${key} AND state NOT IN ('open', 'expired') RETURNING *`
    if (reopened !== undefined) await announce(tx, reopened, 'reopened', nowMs)
  }

  const sealOne = async (tx: Tx, key: BatchKey, nowMs: number): Promise<'sealed' | 'was-sealed'> => {
    const [sealed] = await tx<
      StoredBatch[]
    >`UPDATE batches SET sealed = 1 WHERE key = ${key} AND sealed = 0 RETURNING *`
    if (sealed === undefined) return 'was-sealed'
    await enterStates(tx, sealed, nowMs)
    return 'sealed'
  }

  const keyOf = async (tx: Tx, id: string): Promise<BatchKey | null> => {
    const [row] = await tx<{ key: BatchKey }[]>`SELECT key FROM batches WHERE id = ${id}`
    return row?.key ?? null
  }

  return {
    /** So many jobs of the batch went from one state to another. Called in the transaction that moves them. */
    moved: (
      tx: Tx,
      batch: BatchKey,
      from: Status,
      to: Status,
      isPermanent: boolean,
      nowMs: number,
      jobs = 1,
    ): Promise<void> => count(tx, batch, timesOf(countsOfMove(from, to, isPermanent), jobs), nowMs),

    keyOf,

    /** So many new jobs enter, all in the same state; the first one brings what its type says of batches. */
    async entered(
      tx: Tx,
      id: string,
      policy: Policy,
      status: Status,
      isPermanent: boolean,
      nowMs: number,
      jobs = 1,
    ): Promise<void> {
      // Locked: it must not be sealed, or expire, between this look and the count.
      const [batch] = await tx<StoredBatch[]>`SELECT * FROM batches WHERE id = ${id} FOR UPDATE`
      if (batch === undefined) throw new RedressError('BATCH_NOT_FOUND', `There is no batch ${id}.`)
      if (!isTaking(standingOf(batch), nowMs)) throw closedError(batch)
      if (batch.rollup === null || batch.notify === null) {
        await tx`
          UPDATE batches SET rollup = coalesce(rollup, ${policy.rollup}),
            notify = coalesce(notify, ${JSON.stringify(policy.notify.settled)})
          WHERE key = ${batch.key}`
      }
      await count(tx, batch.key, timesOf(countsOfMove(null, status, isPermanent), jobs), nowMs)
    },

    async open(
      tx: Tx,
      batch: NewBatch,
      jobs: readonly NewJob[],
      nowMs: number,
    ): Promise<Awaited<ReturnType<BatchStore['openBatch']>>> {
      const { id, name, owner, rollup, data, onSettled, notify, expiresInMs } = batch
      if (onSettled !== null) {
        refuseWriteAheadOnSettled(onSettled.type, (await types.needed(onSettled.type, tx)).policy)
      }
      const settled = onSettled === null ? null : JSON.stringify(onSettled)
      const channels = notify === null ? null : JSON.stringify(notify)
      const expiresAtMs = expiresInMs === null ? null : nowMs + expiresInMs
      const [added] = await tx<{ key: BatchKey }[]>`
        INSERT INTO batches (id, name, owner, rollup, state, sealed, data, on_settled, notify, created_at, expires_at)
        VALUES (${id}, ${printable(name)}, ${owner === null ? null : printable(owner)}, ${rollup}, 'open', 0, ${data},
          ${settled}, ${channels}, ${nowMs}, ${expiresAtMs})
        ON CONFLICT DO NOTHING RETURNING key`
      if (added === undefined) return { isNew: false, jobs: [] }
      const ofBatch = jobs.map((job) => ({ ...job, batch: id }))
      const submitted = await submitMany(tx, ofBatch, nowMs)
      if (batch.isSealed) await sealOne(tx, added.key, nowMs)
      return { isNew: true, jobs: submitted }
    },

    async seal(
      tx: Tx,
      id: string,
      by: (By & { act: string }) | undefined,
      nowMs: number,
    ): Promise<'sealed' | 'was-sealed' | 'not-found'> {
      const key = await keyOf(tx, id)
      if (key === null) return 'not-found'
      if (by !== undefined) await history.audit(tx, by, { atMs: nowMs, act: by.act, target: 'batch', ids: [id] })
      return sealOne(tx, key, nowMs)
    },

    async expiring(sql: Sql, nowMs: number, limit: number): Promise<BatchKey[]> {
      const rows = await sql<{ key: BatchKey }[]>`
        SELECT key FROM batches
        WHERE expires_at IS NOT NULL AND state <> 'expired' AND expires_at <= ${nowMs} AND unfinished = 0
        ORDER BY expires_at LIMIT ${limit}`
      return rows.map(({ key }) => key)
    },

    /** Looks again, in this transaction: another process may have been quicker, or a retry. */
    async expire(tx: Tx, keys: readonly BatchKey[], nowMs: number): Promise<number> {
      const rows = await tx<StoredBatch[]>`
        SELECT * FROM batches WHERE key = ANY(${keys as BatchKey[]}::bigint[]) AND state <> 'expired'
        ORDER BY key FOR UPDATE`
      let expired = 0
      for (const batch of rows) if ((await enterStates(tx, batch, nowMs)).state === 'expired') expired++
      return expired
    },

    async nextExpiryMs(sql: Sql, nowMs: number): Promise<number | null> {
      const [row] = await sql<{ at: number | null }[]>`
        SELECT min(expires_at) AS at FROM batches
        WHERE expires_at IS NOT NULL AND state <> 'expired' AND expires_at > ${nowMs}`
      return row?.at ?? null
    },
  }
}

const timesOf = (counts: BatchCounts, times: number): BatchCounts => ({
  total: counts.total * times,
  unfinished: counts.unfinished * times,
  complete: counts.complete * times,
  failed: counts.failed * times,
  permanent: counts.permanent * times,
  cancelled: counts.cancelled * times,
})
