import type { StatementSync } from 'node:sqlite'
import { isLimited } from '../../../core/policy/policy.ts'
import type { Claimed, Lane, Lease, WorkerKey } from '../../contract/store.ts'
import type { KnownType } from '../../scripts/jobs/types.ts'
import type { Gates, LaneGate } from '../../scripts/limits/gates.ts'
import { addsToBudget } from '../../scripts/limits/meters.ts'
import { earliest, guarded, leftOf, opensAtMs, type Permit, takePermits } from '../../scripts/limits/permits.ts'
import { finish } from '../../scripts/tx/script.ts'
import type { SqliteTx } from '../connection/tx.ts'
import type { RetryMeters, Types } from './at-once.ts'

/** How many waiting jobs one claim may move to the ready line; a larger number would make a long transaction. */
const PROMOTIONS_MAX = 5_000

interface KnownLane {
  type: KnownType
  ttlMs: number
}

/** A lane in one claim: free, or bounded by what its gate allows. */
interface OpenLane extends KnownLane {
  gate: LaneGate | null
}

export function openClaiming(tx: SqliteTx, types: Types, gates: Gates, retries: RetryMeters) {
  const { connection } = tx
  const pausedQueues = connection.prepare('SELECT name FROM queues WHERE resume_at IS NULL OR resume_at > ?')
  const nextResume = connection.prepare('SELECT min(resume_at) AS at FROM queues WHERE resume_at > ?')
  const isAnyDue = connection.prepare(
    'SELECT 1 FROM jobs WHERE due_at IS NOT NULL AND ready IS NULL AND due_at <= ? LIMIT 1',
  )
  // What is due already and was not claimed is held by something: who polls for it would never stop.
  const nextDue = connection.prepare(
    'SELECT min(due_at) AS due_at FROM jobs WHERE due_at IS NOT NULL AND ready IS NULL AND due_at > ?',
  )
  const promote = connection.prepare(`
    UPDATE jobs SET ready = 1 WHERE key IN (
      SELECT key FROM jobs WHERE due_at IS NOT NULL AND ready IS NULL AND due_at <= ? ORDER BY due_at
      LIMIT ${PROMOTIONS_MAX})`)
  const lease = connection.prepare(`
    UPDATE jobs SET status = 'processing', ready = NULL, due_at = NULL, attempt = attempt + 1, worker = ?1,
      lease_until = ?2, claimed_at = ?3
    WHERE key IN (SELECT value FROM json_each(?4))`)
  // Jobs older than their type's limit: without a key they would not be counted.
  const keyClaimed = connection.prepare(
    `UPDATE jobs SET limit_key = '' WHERE key IN (SELECT value FROM json_each(?)) AND limit_key IS NULL`,
  )
  const addEvents = connection.prepare(`
    INSERT INTO events (job, at, kind, attempt, worker)
    SELECT value ->> 0, ?1, 'processing', value ->> 1, ?2 FROM json_each(?3)`)

  const anyReadyByLaneCount = new Map<number, StatementSync>()
  const anyReady = (laneCount: number): StatementSync => {
    const known = anyReadyByLaneCount.get(laneCount) ?? connection.prepare(isAnyReadySql(laneCount))
    anyReadyByLaneCount.set(laneCount, known)
    return known
  }
  const picksByShape = new Map<string, StatementSync>()
  const pickFor = (lanes: readonly LaneSql[]): StatementSync => {
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
    type === undefined || !isLimited(type.policy) ? null : finish(gates.shutBy(tx, type, nowMs))

  return {
    /** Whether a claim would find anything: an idle worker must not take the write lock at every poll. */
    isWorthClaiming(lanes: readonly Lane[], nowMs: number): boolean {
      const open = knownLanes(lanes, nowMs).filter(({ type }) => shutBy(type, nowMs) === null)
      if (open.length === 0) return false
      if (isAnyDue.get(nowMs) !== undefined) return true
      return anyReady(open.length).get(...open.map(({ type }) => type.key)) !== undefined
    },

    /** `lanes`: those that nothing was claimed from, for a gate that is shut now may open. */
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
        return { ...lane, gate: isLimited(lane.type.policy) ? finish(gating.gateOf(lane.type)) : null }
      })
      const leases = open.length === 0 ? [] : pickLeases(open, max)
      if (leases.length > 0) {
        for (const [ttlMs, group] of groupByTtl(leases, open)) {
          lease.run(worker, nowMs + ttlMs, nowMs, JSON.stringify(group.map((picked) => picked.key)))
        }
        addEvents.run(nowMs, worker, JSON.stringify(leases.map((picked) => [picked.key, picked.attempt])))
        if (open.some(({ gate }) => gate !== null)) finish(gating.settle())
        const paying = open.map(({ type }) => type).filter(addsToBudget)
        if (paying.length > 0) retries.depositFor(leases, paying, nowMs)
      }
      const opening = open.map(({ gate }) => (gate === null ? null : opensAtMs(gate)))
      const claimed = { nowMs, leases, nextDueAtMs: opening.reduce(earliest, this.nextDueAtMs(nowMs)) }
      const breakers = gating.standings()
      return breakers.length === 0 ? claimed : { ...claimed, breakers }
    },
  }

  function pickLeases(lanes: readonly OpenLane[], max: number): Lease[] {
    const sql: LaneSql[] = []
    const values: (number | string)[] = []
    for (const { type, gate } of lanes) {
      const most = gate === null ? max : Math.min(max, leftOf(gate))
      const candidates = gate?.candidates?.(most)
      if (candidates !== undefined) {
        sql.push('chosen')
        values.push(JSON.stringify(finish(candidates)))
      } else if (gate === null) {
        sql.push('free')
        values.push(type.key)
      } else {
        sql.push('bounded')
        values.push(type.key, most)
      }
    }
    const rows = pickFor(sql).all(...values, max) as unknown as PickedRow[]
    if (lanes.every(({ gate }) => gate === null)) return rows.map(fromPicked)
    const gateOf = new Map(lanes.map(({ type, gate }) => [type.key, gate]))
    // Lanes may share a permit, and each was read as if it had the permit for itself.
    const taken = rows.filter((row) => takesPermits(gateOf.get(row[1]) ?? null, row[13]))
    const unkeyed = taken.filter((row) => row[13] === null && (gateOf.get(row[1]) ?? null) !== null)
    if (unkeyed.length > 0) keyClaimed.run(JSON.stringify(unkeyed.map(([key]) => key)))
    return taken.map((row) => guarded(fromPicked(row), gateOf.get(row[1]) ?? null))
  }

  function fromPicked(row: PickedRow): Lease {
    return {
      key: row[0],
      type: types.byKey(row[1]).name,
      attempt: row[2] + 1,
      spent: row[3],
      queuedAtMs: row[4],
      priority: row[5],
      id: row[6],
      payload: row[7],
      owner: row[8],
      createdAtMs: row[9],
      retriedFrom: row[10],
      isForwardOnly: row[11] === 1,
      batch: row[12],
      trace: row[14],
      dueSinceMs: row[15],
    }
  }
}

/** Arrays, in the order of `pickSql`: a claim of 500 rows is the hot path. */
type PickedRow = [
  key: number,
  type: number,
  attempt: number,
  spent: string | null,
  queuedAtMs: number,
  priority: number,
  id: string,
  payload: string,
  owner: string | null,
  createdAtMs: number,
  retriedFrom: string | null,
  forwardOnly: number,
  batch: number | null,
  limitKey: string | null,
  trace: string | null,
  dueSinceMs: number,
]

/** One index lookup per lane. */
function isAnyReadySql(laneCount: number): string {
  const lane = 'SELECT 1 WHERE EXISTS (SELECT 1 FROM jobs WHERE ready IS NOT NULL AND type = ?)'
  return `${Array(laneCount).fill(lane).join(' UNION ALL ')} LIMIT 1`
}

type LaneSql = 'free' | 'bounded' | 'chosen'

const IN_LANE = 'SELECT key, priority, queued_at FROM jobs WHERE ready IS NOT NULL AND type = ?'
const LANE_SQL: Readonly<Record<LaneSql, string>> = {
  free: IN_LANE,
  bounded: `SELECT * FROM (${IN_LANE} ORDER BY priority DESC, queued_at, key LIMIT ?)`,
  chosen: `SELECT key, priority, queued_at FROM jobs
    WHERE ready IS NOT NULL AND key IN (SELECT value FROM json_each(?))`,
}

/**
 * Each lane is read in index order and SQLite merges the lanes row by row until it has enough: the cost is that of
 * the rows taken, however many wait behind them.
 */
function pickSql(lanes: readonly LaneSql[]): string {
  return `
    SELECT key, jobs.type, jobs.attempt, jobs.spent, coalesce(jobs.counts_from, jobs.queued_at), jobs.priority,
      job_specs.id, job_specs.payload, job_specs.owner, job_specs.created_at, job_specs.retried_from,
      jobs.forward_only, CASE WHEN left_batch IS NULL THEN job_specs.batch END, jobs.limit_key, job_specs.trace,
      coalesce(jobs.due_since, jobs.queued_at)
    FROM (${lanes.map((lane) => LANE_SQL[lane]).join(' UNION ALL ')} ORDER BY 2 DESC, 3, 1 LIMIT ?) AS picked
      CROSS JOIN jobs USING (key) CROSS JOIN job_specs USING (key)`
}

const takesPermits = (gate: LaneGate | null, limitKey: string | null): boolean =>
  gate === null || takePermits(gate, limitKey)

function groupByTtl(leases: readonly Lease[], lanes: readonly KnownLane[]): Map<number, Lease[]> {
  const ttlOf = new Map(lanes.map(({ type, ttlMs }) => [type.name, ttlMs]))
  return Map.groupBy(leases, (picked) => ttlOf.get(picked.type) as number)
}
