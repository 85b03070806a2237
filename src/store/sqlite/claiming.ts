import type { StatementSync } from 'node:sqlite'
import type { Claimed, Lane, Lease, WorkerKey } from '../store.ts'
import type { Connection } from './connection.ts'
import type { Types } from './types.ts'

/** How many waiting jobs one claim may move to the ready line; a larger number would make a long transaction. */
const PROMOTIONS_MAX = 5_000

interface LaneKey {
  type: number
  name: string
  ttlMs: number
}

interface LaneStatements {
  isAnyReady: StatementSync
  pick: StatementSync
}

export function openClaiming(connection: Connection, types: Types) {
  const isAnyDue = connection.prepare(
    'SELECT 1 FROM jobs WHERE due_at IS NOT NULL AND ready IS NULL AND due_at <= ? LIMIT 1',
  )
  const nextDue = connection.prepare(
    'SELECT min(due_at) AS due_at FROM jobs WHERE due_at IS NOT NULL AND ready IS NULL',
  )
  const promote = connection.prepare(`
    UPDATE jobs SET ready = 1 WHERE key IN (
      SELECT key FROM jobs WHERE due_at IS NOT NULL AND ready IS NULL AND due_at <= ? ORDER BY due_at
      LIMIT ${PROMOTIONS_MAX})`)
  const lease = connection.prepare(`
    UPDATE jobs SET status = 'processing', ready = NULL, due_at = NULL, attempt = attempt + 1, worker = ?1,
      lease_until = ?2, claimed_at = ?3
    WHERE key IN (SELECT value FROM json_each(?4))`)
  const addEvents = connection.prepare(`
    INSERT INTO events (job, at, kind, attempt, worker)
    SELECT value ->> 0, ?1, 'processing', value ->> 1, ?2 FROM json_each(?3)`)

  const statementsByLaneCount = new Map<number, LaneStatements>()
  const statementsFor = (laneCount: number): LaneStatements => {
    let statements = statementsByLaneCount.get(laneCount)
    if (statements === undefined) {
      const isAnyReady = connection.prepare(isAnyReadySql(laneCount))
      const pick = connection.prepare(pickSql(laneCount))
      pick.setReturnArrays(true)
      statements = { isAnyReady, pick }
      statementsByLaneCount.set(laneCount, statements)
    }
    return statements
  }

  const keysOf = (lanes: readonly Lane[]): LaneKey[] =>
    lanes.flatMap(({ type: name, ttlMs }) => {
      const type = types.byName(name)
      return type === undefined ? [] : [{ type: type.key, name, ttlMs }]
    })

  return {
    /** Whether a claim would find anything: an idle worker must not take the write lock at every poll. */
    isWorthClaiming(lanes: readonly Lane[], nowMs: number): boolean {
      const keys = keysOf(lanes)
      if (keys.length === 0) return false
      if (isAnyDue.get(nowMs) !== undefined) return true
      return statementsFor(keys.length).isAnyReady.get(...keys.map((lane) => lane.type)) !== undefined
    },

    nextDueAtMs(): number | null {
      return (nextDue.get() as { due_at: number | null }).due_at
    },

    claim(worker: WorkerKey, lanes: readonly Lane[], max: number, nowMs: number): Claimed {
      promote.run(nowMs)
      const keys = keysOf(lanes)
      const leases = keys.length === 0 ? [] : pickLeases(keys, max)
      if (leases.length > 0) {
        for (const [ttlMs, group] of groupByTtl(leases, keys)) {
          lease.run(worker, nowMs + ttlMs, nowMs, JSON.stringify(group.map((picked) => picked.key)))
        }
        addEvents.run(nowMs, worker, JSON.stringify(leases.map((picked) => [picked.key, picked.attempt])))
      }
      return { nowMs, leases, nextDueAtMs: this.nextDueAtMs() }
    },
  }

  function pickLeases(keys: readonly LaneKey[], max: number): Lease[] {
    const rows = statementsFor(keys.length).pick.all(...keys.map((lane) => lane.type), max) as unknown as PickedRow[]
    return rows.map(fromPicked)
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
]

/** One index lookup per lane. */
function isAnyReadySql(laneCount: number): string {
  const lane = 'SELECT 1 WHERE EXISTS (SELECT 1 FROM jobs WHERE ready IS NOT NULL AND type = ?)'
  return `${Array(laneCount).fill(lane).join(' UNION ALL ')} LIMIT 1`
}

/**
 * Each lane is read in index order and SQLite merges the lanes row by row until it has enough: the cost is that of
 * the rows taken, however many wait behind them.
 */
function pickSql(laneCount: number): string {
  const lane = 'SELECT key, priority, queued_at FROM jobs WHERE ready IS NOT NULL AND type = ?'
  return `
    SELECT key, jobs.type, jobs.attempt, jobs.spent, jobs.queued_at, jobs.priority,
      job_specs.id, job_specs.payload, job_specs.owner, job_specs.created_at, job_specs.retried_from,
      jobs.forward_only
    FROM (${Array(laneCount).fill(lane).join(' UNION ALL ')} ORDER BY 2 DESC, 3, 1 LIMIT ?) AS picked
      CROSS JOIN jobs USING (key) CROSS JOIN job_specs USING (key)`
}

function groupByTtl(leases: readonly Lease[], lanes: readonly LaneKey[]): Map<number, Lease[]> {
  const ttlOf = new Map(lanes.map((lane) => [lane.name, lane.ttlMs]))
  return Map.groupBy(leases, (picked) => ttlOf.get(picked.type) as number)
}
