import { RedressError } from '../../core/errors.ts'
import { affordable, affordableAtMs, creditsAt } from '../../core/rate.ts'
import type { QueuePause, QueueStore, TypeLoad } from '../queues.ts'
import type { Sql } from './client.ts'
import type { PgContext } from './context.ts'
import { type Meters, rateMeter } from './meters.ts'

interface QueueRow {
  name: string
  paused_at: number
  paused_by: string
  paused_reason: string
  resume_at: number | null
}

export function openQueues(context: PgContext, meters: Meters): QueueStore {
  const { types, history, write, read } = context

  const queueNames = async (sql: Sql): Promise<string[]> => {
    await types.refresh(sql)
    return [...new Set(types.known().map(({ queue }) => queue))].toSorted()
  }

  const needed = async (sql: Sql, name: string): Promise<void> => {
    const known = await queueNames(sql)
    if (known.includes(name)) return
    const names = known.length === 0 ? 'there is none yet' : `there are ${known.join(', ')}`
    throw new RedressError('QUEUE_UNKNOWN', `No job type has the queue ${name}; ${names}.`)
  }

  const pauses = async (sql: Sql, atMs: number): Promise<Map<string, QueuePause>> => {
    const rows = await sql<QueueRow[]>`
      SELECT name, paused_at, paused_by, paused_reason, resume_at FROM queues
      WHERE resume_at IS NULL OR resume_at > ${atMs}`
    return new Map(
      rows.map((row) => [
        row.name,
        { atMs: row.paused_at, by: row.paused_by, reason: row.paused_reason, untilMs: row.resume_at },
      ]),
    )
  }

  /** From one priority to the next: the jobs behind the first of each are jumped over. */
  const oldestReady = async (sql: Sql): Promise<Map<number, number>> => {
    const rows = await sql<{ type: number; at: number }[]>`
      SELECT job_types.key AS type, oldest.at FROM job_types CROSS JOIN LATERAL (
        WITH RECURSIVE first (priority, since) AS (
          (SELECT priority, coalesce(due_since, queued_at) FROM jobs WHERE ready IS NOT NULL AND type = job_types.key
          ORDER BY priority DESC, queued_at, key LIMIT 1)
          UNION ALL
          SELECT next.priority, next.since FROM first CROSS JOIN LATERAL (
            SELECT priority, coalesce(due_since, queued_at) AS since FROM jobs
            WHERE ready IS NOT NULL AND type = job_types.key AND priority < first.priority
            ORDER BY priority DESC, queued_at, key LIMIT 1) AS next)
        SELECT min(since) AS at FROM first) AS oldest
      WHERE oldest.at IS NOT NULL`
    return new Map(rows.map(({ type, at }) => [type, at]))
  }

  return {
    pauseQueue: ({ name, by, forMs }) =>
      write(
        'pausing a queue',
        async (tx, atMs) => {
          await needed(tx, name)
          const untilMs = forMs === null ? null : atMs + forMs
          await tx`
            INSERT INTO queues (name, paused_at, paused_by, paused_reason, resume_at)
            VALUES (${name}, ${atMs}, ${by.actor}, ${by.reason}, ${untilMs})
            ON CONFLICT (name) DO UPDATE SET paused_at = excluded.paused_at, paused_by = excluded.paused_by,
              paused_reason = excluded.paused_reason, resume_at = excluded.resume_at`
          const data = { ...by, ...(untilMs !== null && { untilMs }) }
          await history.subjectEvent(tx, `queue:${name}`, atMs, 'paused', data)
          await history.audit(tx, by, { atMs, act: 'queues.pause', target: 'queue', ids: [name], data: { untilMs } })
        },
        'queues',
      ),

    resumeQueue: ({ name, by }) =>
      write(
        'resuming a queue',
        async (tx, atMs) => {
          if (!(await pauses(tx, atMs)).has(name)) {
            await needed(tx, name)
            return 'not-paused'
          }
          await tx`DELETE FROM queues WHERE name = ${name}`
          await history.subjectEvent(tx, `queue:${name}`, atMs, 'resumed', { ...by })
          await history.audit(tx, by, { atMs, act: 'queues.resume', target: 'queue', ids: [name] })
          context.hintWork(tx)
          return 'resumed'
        },
        'queues',
      ),

    async endPauses() {
      const over = (sql: Sql, atMs: number) => sql<QueueRow[]>`
        SELECT name, paused_by, resume_at FROM queues WHERE resume_at <= ${atMs} ORDER BY name`
      const isAnyOver = await read('looking for pauses that are over', async (sql, nowMs) => {
        const rows = await over(sql, await nowMs())
        return rows.length > 0
      })
      if (!isAnyOver) return []
      return write(
        'ending pauses',
        async (tx, atMs) => {
          const ended = await over(tx, atMs)
          for (const { name, paused_by, resume_at } of ended) {
            await tx`DELETE FROM queues WHERE name = ${name}`
            const reason = `the pause by ${paused_by} was to last until then`
            const data = { actor: 'redress', reason, untilMs: resume_at }
            await history.subjectEvent(tx, `queue:${name}`, atMs, 'resumed', data)
          }
          if (ended.length > 0) context.hintWork(tx)
          return ended.map(({ name }) => name)
        },
        'queues',
      )
    },

    queues: () =>
      read('reading queues', async (sql, nowMs) => {
        const [names, paused, oldest] = await Promise.all([
          queueNames(sql),
          nowMs().then((atMs) => pauses(sql, atMs)),
          oldestReady(sql),
        ])
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
      read('reading how much is under way', async (sql, nowMs): Promise<TypeLoad> => {
        const [atMs] = await Promise.all([nowMs(), types.refresh()])
        const type = await types.needed(name)
        const { rate } = type.policy
        const isKeyless = rate?.scope === 'key' && limitKey === null
        const meterName = rate === null || isKeyless ? null : rateMeter(name, rate.scope === 'key' ? limitKey : null)
        const [[row], meter] = await Promise.all([
          sql<{ n: number; of_key: number; orphaned: number }[]>`
            SELECT count(*) AS n, count(*) FILTER (WHERE limit_key = ${limitKey ?? ''}) AS of_key,
              count(*) FILTER (WHERE orphaned_at IS NOT NULL) AS orphaned
            FROM jobs WHERE type = ${type.key} AND limit_key IS NOT NULL AND lease_until IS NOT NULL`,
          meterName === null ? null : meters.get(sql, meterName),
        ])
        const credits = rate === null || meterName === null ? null : creditsAt(meter, rate, atMs)
        const isOpen = rate === null || credits === null || affordable(credits, rate) >= 1
        return {
          underWay: row?.n ?? 0,
          underWayOfKey: limitKey === null ? 0 : (row?.of_key ?? 0),
          orphaned: row?.orphaned ?? 0,
          rateOpensAtMs: isOpen ? null : affordableAtMs(credits, rate, atMs),
        }
      }),
  }
}
