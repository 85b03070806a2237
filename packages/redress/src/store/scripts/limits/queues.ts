import { RedressError } from '../../../core/errors.ts'
import { affordable, affordableAtMs, creditsAt } from '../../../core/limits/rate.ts'
import type { QueuePause, QueueStore, TypeDepth, TypeLoad } from '../../contract/queues.ts'
import type { ScriptContext, Tx } from '../tx/context.ts'
import type { Script } from '../tx/script.ts'
import { type Sql, sql } from '../tx/sql.ts'
import { meters, rateMeter } from './meters.ts'

interface QueueRow {
  name: string
  paused_at: number
  paused_by: string
  paused_reason: string
  resume_at: number | null
}

interface Counted {
  type: number
  state: 'ready' | 'waiting' | 'active' | 'orphaned'
  n: number
}

/** Reads the first job of each priority and skips the jobs behind it. Exported so that a test can ask for its plan. */
export const OLDEST_READY_SQL: Sql = sql`
  SELECT key AS type, (
    WITH RECURSIVE first (priority, since) AS (
      SELECT * FROM (SELECT priority, coalesce(due_since, queued_at) FROM jobs
        WHERE ready IS NOT NULL AND type = job_types.key ORDER BY priority DESC, queued_at, key LIMIT 1) AS highest
      UNION ALL
      SELECT jobs.priority, coalesce(jobs.due_since, jobs.queued_at) FROM first CROSS JOIN jobs WHERE jobs.key = (
        SELECT next.key FROM jobs AS next WHERE next.ready IS NOT NULL AND next.type = job_types.key
          AND next.priority < first.priority ORDER BY next.priority DESC, next.queued_at, next.key LIMIT 1))
    SELECT min(since) FROM first) AS at
  FROM job_types`

export function openQueues({ types, history, write, read }: ScriptContext): QueueStore {
  const queueNames = function* (tx: Tx): Script<string[]> {
    yield* types.refresh(tx)
    return [...new Set(types.known().map(({ queue }) => queue))].toSorted()
  }

  const refuseUnknown = function* (tx: Tx, name: string): Script<void> {
    const known = yield* queueNames(tx)
    if (known.includes(name)) return
    const names = known.length === 0 ? 'there is none yet' : `there are ${known.join(', ')}`
    throw new RedressError('QUEUE_UNKNOWN', `No job type has the queue ${name}; ${names}.`)
  }

  const pauses = function* (tx: Tx, atMs: number): Script<Map<string, QueuePause>> {
    const rows = yield* tx.all<QueueRow>`
      SELECT name, paused_at, paused_by, paused_reason, resume_at FROM queues
      WHERE resume_at IS NULL OR resume_at > ${atMs}`
    return new Map(
      rows.map((row) => [
        row.name,
        { atMs: row.paused_at, by: row.paused_by, reason: row.paused_reason, untilMs: row.resume_at },
      ]),
    )
  }

  const expired = (tx: Tx, atMs: number): Script<QueueRow[]> => tx.all<QueueRow>`
    SELECT name, paused_by, resume_at FROM queues WHERE resume_at <= ${atMs} ORDER BY name`

  const oldestReady = function* (tx: Tx): Script<Map<number, number | null>> {
    const rows = yield* tx.all<{ type: number; at: number | null }>`${OLDEST_READY_SQL}`
    return new Map(rows.map(({ type, at }) => [type, at]))
  }

  return {
    pauseQueue: ({ name, by, forMs }) =>
      write(
        'pausing a queue',
        function* (tx, atMs) {
          yield* refuseUnknown(tx, name)
          const untilMs = forMs === null ? null : atMs + forMs
          yield* tx.run`
            INSERT INTO queues (name, paused_at, paused_by, paused_reason, resume_at)
            VALUES (${name}, ${atMs}, ${by.actor}, ${by.reason}, ${untilMs})
            ON CONFLICT (name) DO UPDATE SET paused_at = excluded.paused_at, paused_by = excluded.paused_by,
              paused_reason = excluded.paused_reason, resume_at = excluded.resume_at`
          const data = { ...by, ...(untilMs !== null && { untilMs }) }
          yield* history.subjectEvent(tx, `queue:${name}`, atMs, 'paused', data)
          yield* history.audit(tx, by, { atMs, act: 'queues.pause', target: 'queue', ids: [name], data: { untilMs } })
        },
        { alone: 'queues' },
      ),

    resumeQueue: ({ name, by }) =>
      write(
        'resuming a queue',
        function* (tx, atMs) {
          const paused = yield* pauses(tx, atMs)
          if (!paused.has(name)) {
            yield* refuseUnknown(tx, name)
            return 'not-paused'
          }
          yield* tx.run`DELETE FROM queues WHERE name = ${name}`
          yield* history.subjectEvent(tx, `queue:${name}`, atMs, 'resumed', { ...by })
          yield* history.audit(tx, by, { atMs, act: 'queues.resume', target: 'queue', ids: [name] })
          tx.wakeWorkers()
          return 'resumed'
        },
        { alone: 'queues' },
      ),

    async endPauses() {
      const isAnyOver = await read('looking for pauses that are over', function* (tx) {
        const rows = yield* expired(tx, yield* tx.now())
        return rows.length > 0
      })
      if (!isAnyOver) return []
      return write(
        'ending pauses',
        function* (tx, atMs) {
          const ended = yield* expired(tx, atMs)
          for (const { name, paused_by, resume_at } of ended) {
            yield* tx.run`DELETE FROM queues WHERE name = ${name}`
            const reason = `the pause by ${paused_by} was to last until then`
            const data = { actor: 'redress', reason, untilMs: resume_at }
            yield* history.subjectEvent(tx, `queue:${name}`, atMs, 'resumed', data)
          }
          if (ended.length > 0) tx.wakeWorkers()
          return ended.map(({ name }) => name)
        },
        { alone: 'queues' },
      )
    },

    queues: () =>
      read('reading queues', function* (tx) {
        const atMs = yield* tx.now()
        const [names, paused, oldest] = yield* tx.together(queueNames(tx), pauses(tx, atMs), oldestReady(tx))
        return names.map((name) => ({
          name,
          types: types
            .known()
            .filter(({ queue }) => queue === name)
            .map(({ name: type, key }) => ({ type, oldestReadyAtMs: oldest.get(key) ?? null })),
          paused: paused.get(name) ?? null,
        }))
      }),

    load: ({ type: name, limitKey }) =>
      read('reading how much is under way', function* (tx): Script<TypeLoad> {
        const [atMs] = yield* tx.together(tx.now(), types.refresh(tx))
        const type = yield* types.needed(tx, name)
        const { rate } = type.policy
        const row = yield* tx.get<{ n: number; of_key: number; orphaned: number }>`
          SELECT count(*) AS n, count(*) FILTER (WHERE limit_key = ${limitKey ?? ''}) AS of_key,
            count(*) FILTER (WHERE orphaned_at IS NOT NULL) AS orphaned
          FROM jobs WHERE type = ${type.key} AND limit_key IS NOT NULL AND lease_until IS NOT NULL`
        const load = {
          underWay: row?.n ?? 0,
          underWayOfKey: limitKey === null ? 0 : (row?.of_key ?? 0),
          orphaned: row?.orphaned ?? 0,
        }
        if (rate === null || (rate.scope === 'key' && limitKey === null)) return { ...load, rateOpensAtMs: null }
        const meter = yield* meters.get(tx, rateMeter(name, rate.scope === 'key' ? limitKey : null))
        const credits = creditsAt(meter, rate, atMs)
        const isOpen = affordable(credits, rate) >= 1
        return { ...load, rateOpensAtMs: isOpen ? null : affordableAtMs(credits, rate, atMs) }
      }),

    depths: () =>
      read('counting what is to be done', function* (tx) {
        const [atMs] = yield* tx.together(tx.now(), types.refresh(tx))
        const depths = new Map(
          types.known().map(({ key, name, queue }): [number, TypeDepth] => {
            return [key, { type: name, queue, ready: 0, waiting: 0, active: 0, orphaned: 0 }]
          }),
        )
        // Each count walks one partial index, which holds only jobs that have not ended.
        const counts = yield* tx.all<Counted>`
          SELECT type, 'ready' AS state, count(*) AS n FROM jobs WHERE ready IS NOT NULL GROUP BY type
          UNION ALL SELECT type, CASE WHEN due_at <= ${atMs} THEN 'ready' ELSE 'waiting' END, count(*)
            FROM jobs WHERE due_at IS NOT NULL AND ready IS NULL GROUP BY 1, 2
          UNION ALL SELECT type, 'active', count(*) FROM jobs
            WHERE lease_until IS NOT NULL AND orphaned_at IS NULL GROUP BY type
          UNION ALL SELECT type, 'orphaned', count(*) FROM jobs
            WHERE orphaned_at IS NOT NULL AND status = 'processing' GROUP BY type`
        for (const { type, state, n } of counts) {
          const depth = depths.get(type)
          if (depth === undefined) continue
          depth[state] += n
          if (state === 'orphaned') depth.active += n
        }
        return [...depths.values()]
      }),
  }
}
