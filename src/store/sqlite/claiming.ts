import type { StatementSync } from 'node:sqlite'
import { earliest, guarded, leftOf, opensAtMs, takePermits } from '../permits.ts'
import type { Claimed, Lane, Lease, WorkerKey } from '../store.ts'
import type { Connection } from './connection.ts'
import type { Gates, LaneGate } from './gates.ts'
import type { RetryMeters } from './retry-meters.ts'
import type { Types } from './types.ts'

/** How many waiting jobs one claim may move to the ready line; a larger number would make a long transaction. */
const PROMOTIONS_MAX = 5_000

interface LaneKey {
  type: number
  name: string
  ttlMs: number
}

/** A lane in one claim: free, or bounded by what its gate allows. */
interface OpenLane extends LaneKey {
  gate: LaneGate | null
}

export function openClaiming(connection: Connection, types: Types, gates: Gates, retries: RetryMeters) {
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

  const keysOf = (lanes: readonly Lane[], nowMs: number): LaneKey[] => {
    if (lanes.length === 0) return []
    types.keepUp()
    const paused = gates.pausedQueues(nowMs)
    return lanes.flatMap(({ type: name, ttlMs }) => {
      const type = types.byName(name)
      return type === undefined || paused.has(type.queue) ? [] : [{ type: type.key, name, ttlMs }]
    })
  }

  return {
    /** Whether a claim would find anything: an idle worker must not take the write lock at every poll. */
    isWorthClaiming(lanes: readonly Lane[], nowMs: number): boolean {
      const keys = keysOf(lanes, nowMs).filter(({ name }) => gates.shutBy(types.byName(name), nowMs) === null)
      if (keys.length === 0) return false
      if (isAnyDue.get(nowMs) !== undefined) return true
      return anyReady(keys.length).get(...keys.map((lane) => lane.type)) !== undefined
    },

    /** `lanes`: those that nothing was claimed from, for a gate that is shut now may open. */
    nextDueAtMs(nowMs: number, lanes: readonly Lane[] = []): number | null {
      return lanes
        .map((lane) => gates.shutBy(types.byName(lane.type), nowMs)?.opensAtMs ?? null)
        .concat((nextDue.get(nowMs) as { due_at: number | null }).due_at, gates.nextResumeAtMs(nowMs))
        .reduce(earliest, null)
    },

    claim(worker: WorkerKey, lanes: readonly Lane[], max: number, nowMs: number): Claimed {
      promote.run(nowMs)
      gates.begin()
      const open = keysOf(lanes, nowMs).map((lane): OpenLane => ({ ...lane, gate: gates.gateOf(lane.type, nowMs) }))
      const leases = open.length === 0 ? [] : pickLeases(open, max)
      if (leases.length > 0) {
        for (const [ttlMs, group] of groupByTtl(leases, open)) {
          lease.run(worker, nowMs + ttlMs, nowMs, JSON.stringify(group.map((picked) => picked.key)))
        }
        addEvents.run(nowMs, worker, JSON.stringify(leases.map((picked) => [picked.key, picked.attempt])))
        if (open.some(({ gate }) => gate !== null)) gates.settle(nowMs)
        retries.depositFor(
          leases,
          open.map(({ type }) => type),
          nowMs,
        )
      }
      const opening = open.map(({ gate }) => (gate === null ? null : opensAtMs(gate)))
      return { nowMs, leases, nextDueAtMs: opening.reduce(earliest, this.nextDueAtMs(nowMs)) }
    },
  }

  function pickLeases(lanes: readonly OpenLane[], max: number): Lease[] {
    const sql: LaneSql[] = []
    const values: (number | string)[] = []
    for (const { type, gate } of lanes) {
      const most = gate === null ? max : Math.min(max, leftOf(gate))
      const chosen = gate?.candidates?.(most)
      if (chosen !== undefined) {
        sql.push('chosen')
        values.push(JSON.stringify(chosen))
      } else if (gate === null) {
        sql.push('free')
        values.push(type)
      } else {
        sql.push('bounded')
        values.push(type, most)
      }
    }
    const rows = pickFor(sql).all(...values, max) as unknown as PickedRow[]
    if (lanes.every(({ gate }) => gate === null)) return rows.map(fromPicked)
    const gateOf = new Map(lanes.map(({ type, gate }) => [type, gate]))
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

function groupByTtl(leases: readonly Lease[], lanes: readonly LaneKey[]): Map<number, Lease[]> {
  const ttlOf = new Map(lanes.map((lane) => [lane.name, lane.ttlMs]))
  return Map.groupBy(leases, (picked) => ttlOf.get(picked.type) as number)
}
