import type { StatementSync } from 'node:sqlite'
import type { Claimed, Lane, Lease, WorkerKey } from '../../contract/store.ts'
import {
  choicesOf,
  claimedBy,
  type KnownLane,
  type LaneKind,
  type LeaseColumns,
  leaseOf,
  type OpenLane,
  PROMOTIONS_MAX,
  valuesOf,
  withPermits,
} from '../../scripts/jobs/claiming.ts'
import { isGated, type KnownType } from '../../scripts/jobs/types.ts'
import type { Gates } from '../../scripts/limits/gates.ts'
import { addsToBudget } from '../../scripts/limits/meters.ts'
import { earliest, guarded, type Permit } from '../../scripts/limits/permits.ts'
import { finish } from '../../scripts/tx/script.ts'
import type { SqliteTx } from '../connection/tx.ts'
import type { RetryMeters, Types } from './at-once.ts'

export function openClaiming(tx: SqliteTx, types: Types, gates: Gates, retries: RetryMeters) {
  const { connection } = tx
  const pausedQueues = connection.prepare('SELECT name FROM queues WHERE resume_at IS NULL OR resume_at > ?')
  const nextResume = connection.prepare('SELECT min(resume_at) AS at FROM queues WHERE resume_at > ?')
  const isAnyDue = connection.prepare(
    'SELECT 1 FROM jobs WHERE due_at IS NOT NULL AND ready IS NULL AND due_at <= ? LIMIT 1',
  )
  // A job that is due and was not claimed is held by something: a worker would poll for it without end.
  const nextDue = connection.prepare(
    'SELECT min(due_at) AS due_at FROM jobs WHERE due_at IS NOT NULL AND ready IS NULL AND due_at > ?',
  )
  const promote = connection.prepare(`
    UPDATE jobs SET ready = 1 WHERE key IN (
      SELECT key FROM jobs WHERE due_at IS NOT NULL AND ready IS NULL AND due_at <= ? ORDER BY due_at
      LIMIT ${PROMOTIONS_MAX})`)
  const lease = connection.prepare(`
    UPDATE jobs SET status = 'processing', ready = NULL, due_at = NULL, attempt = attempt + 1, worker = ?1,
      lease_until = ?2, claimed_at = ?3, untold_claim = ?3
    WHERE key IN (SELECT value FROM json_each(?4))`)
  // Jobs older than their type's limit: without a key they would not be counted.
  const keyClaimed = connection.prepare(
    `UPDATE jobs SET limit_key = '' WHERE key IN (SELECT value FROM json_each(?)) AND limit_key IS NULL`,
  )

  const anyReadyByLaneCount = new Map<number, StatementSync>()
  const anyReady = (laneCount: number): StatementSync => {
    const known = anyReadyByLaneCount.get(laneCount) ?? connection.prepare(isAnyReadySql(laneCount))
    anyReadyByLaneCount.set(laneCount, known)
    return known
  }
  const picksByShape = new Map<string, StatementSync>()
  const pickFor = (lanes: readonly LaneKind[]): StatementSync => {
    const shape = lanes.join()
    let pick = picksByShape.get(shape)
    if (pick === undefined) {
      pick = connection.prepare(pickSql(lanes))
      pick.setReturnArrays(true)
      picksByShape.set(shape, pick)
    }
    return pick
  }

  const knownLanes = (lanes: readonly Lane[], nowMs: number): KnownLane[] => {
    if (lanes.length === 0) return []
    types.keepUp()
    const paused = (pausedQueues.all(nowMs) as { name: string }[]).map(({ name }) => name)
    return lanes.flatMap(({ type: name, ttlMs }) => {
      const type = types.byName(name)
      return type === undefined || paused.includes(type.queue) ? [] : [{ type, ttlMs }]
    })
  }

  const shutBy = (type: KnownType | undefined, nowMs: number): Permit | null =>
    type === undefined || !isGated(type) ? null : finish(gates.shutBy(tx, type, nowMs))

  return {
    /** Whether a claim would find anything: an idle worker must not take the write lock at every poll. */
    isWorthClaiming(lanes: readonly Lane[], nowMs: number): boolean {
      const open = knownLanes(lanes, nowMs).filter(({ type }) => shutBy(type, nowMs) === null)
      if (open.length === 0) return false
      if (isAnyDue.get(nowMs) !== undefined) return true
      return anyReady(open.length).get(...open.map(({ type }) => type.key)) !== undefined
    },

    /** `lanes`: lanes from which nothing was claimed; a gate that is shut now may open later. */
    nextDueAtMs(nowMs: number, lanes: readonly Lane[] = []): number | null {
      return lanes
        .map((lane) => shutBy(types.byName(lane.type), nowMs)?.opensAtMs ?? null)
        .concat((nextDue.get(nowMs) as { due_at: number | null }).due_at)
        .concat((nextResume.get(nowMs) as { at: number | null }).at)
        .reduce(earliest, null)
    },

    claim(worker: WorkerKey, lanes: readonly Lane[], max: number, nowMs: number): Claimed {
      promote.run(nowMs)
      const gating = gates.begin(tx, nowMs)
      const open = knownLanes(lanes, nowMs).map((lane): OpenLane => {
        return { ...lane, gate: isGated(lane.type) ? finish(gating.gateOf(lane.type)) : null }
      })
      const leases = open.length === 0 ? [] : pickLeases(open, max)
      if (leases.length > 0) {
        for (const [ttlMs, group] of groupByTtl(leases, open)) {
          lease.run(worker, nowMs + ttlMs, nowMs, JSON.stringify(group.map((picked) => picked.key)))
        }
        if (open.some(({ gate }) => gate !== null)) finish(gating.settle())
        const paying = open.map(({ type }) => type).filter(addsToBudget)
        if (paying.length > 0) retries.depositFor(leases, paying, nowMs)
      }
      return claimedBy(gating, open, { leases, nowMs, nextAtMs: this.nextDueAtMs(nowMs) })
    },
  }

  function pickLeases(lanes: readonly OpenLane[], max: number): Lease[] {
    const choices = finish(choicesOf(lanes, max))
    const values = valuesOf(choices, JSON.stringify)
    const rows = pickFor(choices.map(({ kind }) => kind)).all(...values, max) as unknown as PickedRow[]
    const leased = (row: PickedRow): Lease => leaseOf(row, types.byKey(row[1]).name)
    if (lanes.every(({ gate }) => gate === null)) return rows.map(leased)
    const { taken, unkeyed } = withPermits(rows, lanes, (row) => ({ key: row[0], type: row[1], limitKey: row[16] }))
    if (unkeyed.length > 0) keyClaimed.run(JSON.stringify(unkeyed))
    const gateOf = new Map(lanes.map(({ type, gate }) => [type.key, gate]))
    return taken.map((row) => guarded(leased(row), gateOf.get(row[1]) ?? null))
  }
}

type PickedRow = [...LeaseColumns, limitKey: string | null]

/** One index lookup per lane. */
function isAnyReadySql(laneCount: number): string {
  const lane = 'SELECT 1 WHERE EXISTS (SELECT 1 FROM jobs WHERE ready IS NOT NULL AND type = ?)'
  return `${Array(laneCount).fill(lane).join(' UNION ALL ')} LIMIT 1`
}

const IN_LANE = 'SELECT key, priority, queued_at FROM jobs WHERE ready IS NOT NULL AND type = ?'
const LANE_SQL: Readonly<Record<LaneKind, string>> = {
  free: IN_LANE,
  bounded: `SELECT * FROM (${IN_LANE} ORDER BY priority DESC, queued_at, key LIMIT ?)`,
  chosen: `SELECT key, priority, queued_at FROM jobs
    WHERE ready IS NOT NULL AND key IN (SELECT value FROM json_each(?))`,
}

/**
 * Each lane is read in index order and SQLite merges the lanes row by row until it has enough: the cost is that of
 * the rows taken, however many wait behind them.
 */
function pickSql(lanes: readonly LaneKind[]): string {
  return `
    SELECT key, jobs.type, jobs.attempt + 1, jobs.spent, coalesce(jobs.counts_from, jobs.queued_at), jobs.priority,
      job_specs.id, job_specs.payload, job_specs.owner, job_specs.created_at, job_specs.retried_from,
      jobs.forward_only, CASE WHEN left_batch IS NULL THEN job_specs.batch END, job_specs.trace,
      coalesce(jobs.due_since, jobs.queued_at), job_specs.ttl_until, jobs.limit_key
    FROM (${lanes.map((lane) => LANE_SQL[lane]).join(' UNION ALL ')} ORDER BY 2 DESC, 3, 1 LIMIT ?) AS picked
      CROSS JOIN jobs USING (key) CROSS JOIN job_specs USING (key)`
}

function groupByTtl(leases: readonly Lease[], lanes: readonly KnownLane[]): Map<number, Lease[]> {
  const ttlOf = new Map(lanes.map(({ type, ttlMs }) => [type.name, ttlMs]))
  return Map.groupBy(leases, (picked) => ttlOf.get(picked.type) as number)
}
