import { RedressError } from '../../core/errors.ts'
import { noticesOfSettlement } from '../../core/notices.ts'
import type { Policy } from '../../core/policy.ts'
import { countsOfMove, isReopenedByRetry, isTaking, statesEntered } from '../../core/rollup.ts'
import type { Status } from '../../core/states.ts'
import { type BatchEventKind, newsOf, outcomeOf, settledPayload } from '../../core/view-batch.ts'
import { closedError, refuseWriteAheadOnSettled, type StoredBatch, standingOf } from '../batch-rows.ts'
import type { BatchStore, NewBatch } from '../batches.ts'
import { settledJobId } from '../derived-id.ts'
import type { BatchKey, By, NewJob, Submitted } from '../store.ts'
import type { Connection } from './connection.ts'
import type { History } from './history.ts'
import type { Types } from './types.ts'

export type Batches = ReturnType<typeof openBatches>

/**
 * Counts and states of batches. The counters change in one UPDATE that answers with what they came to: of two jobs that
 * end at the same moment, the second to write sees what the first wrote, and only it finds nothing unfinished.
 */
export function openBatches(
  connection: Connection,
  types: Types,
  history: History,
  submitJob: (job: NewJob, nowMs: number) => Submitted,
) {
  const byKey = connection.prepare('SELECT * FROM batches WHERE key = ?')
  const byId = connection.prepare('SELECT * FROM batches WHERE id = ?')
  const add = connection.prepare(`
    INSERT INTO batches (id, name, owner, rollup, state, sealed, data, on_settled, notify, created_at, expires_at)
    VALUES (?, ?, ?, ?, 'open', 0, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`)
  const seal = connection.prepare('UPDATE batches SET sealed = 1 WHERE key = ? AND sealed = 0 RETURNING *')
  const inherit = connection.prepare(
    'UPDATE batches SET rollup = coalesce(rollup, ?2), notify = coalesce(notify, ?3) WHERE key = ?1',
  )
  const count = connection.prepare(`
    UPDATE batches SET total = total + ?2, unfinished = unfinished + ?3, complete = complete + ?4, failed = failed + ?5,
      permanent = permanent + ?6, cancelled = cancelled + ?7 WHERE key = ?1 RETURNING *`)
  // Each compares the state it leads from: whoever comes second changes nothing, and announces nothing.
  const settle = connection.prepare(`
    UPDATE batches SET state = ?2, sealed = 1, settled_at = ?3, settlements = settlements + 1
    WHERE key = ?1 AND state = 'open' AND unfinished = 0 RETURNING *`)
  const expire = connection.prepare(
    `UPDATE batches SET state = 'expired' WHERE key = ? AND state NOT IN ('open', 'expired') RETURNING *`,
  )
  const reopen = connection.prepare(
    `UPDATE batches SET state = 'open', settled_at = NULL WHERE key = ? AND state NOT IN ('open', 'expired') RETURNING *`,
  )
  const expiring = connection.prepare(`
    SELECT key FROM batches WHERE expires_at IS NOT NULL AND state <> 'expired' AND expires_at <= ? AND unfinished = 0
    ORDER BY expires_at LIMIT ?`)
  const nextExpiry = connection.prepare(`
    SELECT min(expires_at) AS at FROM batches
    WHERE expires_at IS NOT NULL AND state <> 'expired' AND expires_at > ?`)

  const find = (id: string) => byId.get(id) as StoredBatch | undefined

  /** The one place where the world learns what became of a batch: its history, and whoever wants a notice. */
  const announce = (batch: StoredBatch, kind: BatchEventKind, nowMs: number): void => {
    history.subjectEvent(`batch:${batch.id}`, nowMs, kind, newsOf(batch))
    if (kind !== 'settled' || batch.notify === null) return
    history.tell(noticesOfSettlement(batch, JSON.parse(batch.notify) as string[]), null, nowMs)
  }

  /** One job per settlement, in its transaction; the derived id is that of this settlement and of no other. */
  const submitOnSettled = (batch: StoredBatch, nowMs: number): void => {
    if (batch.on_settled === null) return
    const { type, input } = JSON.parse(batch.on_settled) as NonNullable<NewBatch['onSettled']>
    const id = settledJobId(batch.id, batch.settlements)
    const { owner } = batch
    const job = { id, type, payload: settledPayload(input, outcomeOf(batch)), owner, priority: 0, delayMs: 0 }
    submitJob({ ...job, dedupe: null, retriedFrom: null, rejected: null, batch: null, limitKey: null }, nowMs)
  }

  /** Lets a batch enter what it has come to, and answers with how it stands then. */
  const enterStates = (batch: StoredBatch, nowMs: number): StoredBatch => {
    let standing = batch
    for (const state of statesEntered(standingOf(batch), nowMs)) {
      const entered = state === 'expired' ? expire.get(batch.key) : settle.get(batch.key, state, nowMs)
      if (entered === undefined) break
      standing = entered as unknown as StoredBatch
      announce(standing, state === 'expired' ? 'expired' : 'settled', nowMs)
      if (state !== 'expired') submitOnSettled(standing, nowMs)
    }
    return standing
  }

  const move = (key: BatchKey, from: Status | null, to: Status, isPermanent: boolean, nowMs: number): void => {
    const { total, unfinished, complete, failed, permanent, cancelled } = countsOfMove(from, to, isPermanent)
    if (unfinished > 0) reopenFor(key, nowMs)
    const row = count.get(key, total, unfinished, complete, failed, permanent, cancelled)
    if (row !== undefined) enterStates(row as unknown as StoredBatch, nowMs)
  }

  /** Before a job of it is unfinished again. An expiry that nobody wrote down yet comes first, and is final. */
  const reopenFor = (key: BatchKey, nowMs: number): void => {
    const before = byKey.get(key) as StoredBatch | undefined
    if (before === undefined || !isReopenedByRetry(before)) return
    if (!isReopenedByRetry(enterStates(before, nowMs))) return
    const reopened = reopen.get(key) as StoredBatch | undefined
    if (reopened !== undefined) announce(reopened, 'reopened', nowMs)
  }

  const sealOne = ({ key }: StoredBatch, nowMs: number): 'sealed' | 'was-sealed' => {
    const sealed = seal.get(key) as StoredBatch | undefined
    if (sealed === undefined) return 'was-sealed'
    enterStates(sealed, nowMs)
    return 'sealed'
  }

  return {
    /** A job of the batch went from one state to another. Called in the transaction that moves it. */
    moved: move as (batch: BatchKey, from: Status, to: Status, isPermanent: boolean, nowMs: number) => void,

    keyOf: (id: string): BatchKey | null => find(id)?.key ?? null,

    /** A new job enters; the first one brings what its type says of batches. */
    entered(id: string, policy: Policy, status: Status, isPermanent: boolean, nowMs: number): void {
      const batch = find(id)
      if (batch === undefined) throw new RedressError('BATCH_NOT_FOUND', `There is no batch ${id}.`)
      if (!isTaking(standingOf(batch), nowMs)) throw closedError(batch)
      if (batch.rollup === null || batch.notify === null) {
        inherit.run(batch.key, policy.rollup, JSON.stringify(policy.notify.settled))
      }
      move(batch.key, null, status, isPermanent, nowMs)
    },

    open(batch: NewBatch, jobs: readonly NewJob[], nowMs: number): Awaited<ReturnType<BatchStore['openBatch']>> {
      const { id, name, owner, rollup, data, onSettled, notify, expiresInMs } = batch
      if (onSettled !== null) refuseWriteAheadOnSettled(onSettled.type, types.needed(onSettled.type).policy)
      const settled = onSettled === null ? null : JSON.stringify(onSettled)
      const channels = notify === null ? null : JSON.stringify(notify)
      const expiresAtMs = expiresInMs === null ? null : nowMs + expiresInMs
      const added = add.run(id, name, owner, rollup, data, settled, channels, nowMs, expiresAtMs)
      if (added.changes === 0) return { isNew: false, jobs: [] }
      const submitted = jobs.map((job) => submitJob({ ...job, batch: id }, nowMs))
      if (batch.isSealed) sealOne(find(id) as StoredBatch, nowMs)
      return { isNew: true, jobs: submitted }
    },

    seal(id: string, by: (By & { act: string }) | undefined, nowMs: number): 'sealed' | 'was-sealed' | 'not-found' {
      const batch = find(id)
      if (batch === undefined) return 'not-found'
      if (by !== undefined) history.audit(by, { atMs: nowMs, act: by.act, target: 'batch', ids: [id] })
      return sealOne(batch, nowMs)
    },

    expiring: (nowMs: number, limit: number): BatchKey[] =>
      (expiring.all(nowMs, limit) as { key: BatchKey }[]).map(({ key }) => key),

    /** Looks again, in this transaction: another process may have been quicker, or a retry. */
    expire(keys: readonly BatchKey[], nowMs: number): number {
      const expired = keys.filter((key) => {
        const batch = byKey.get(key) as StoredBatch | undefined
        return batch !== undefined && batch.state !== 'expired' && enterStates(batch, nowMs).state === 'expired'
      })
      return expired.length
    },

    nextExpiryMs: (nowMs: number): number | null => (nextExpiry.get(nowMs) as { at: number | null }).at,
  }
}
