import { RedressError } from '../../core/errors.ts'
import { affordable, affordableAtMs, creditsAt } from '../../core/rate.ts'
import type { KnownType } from '../known-type.ts'
import type { QueuePause, QueueStore, TypeLoad } from '../queues.ts'
import type { SqliteContext } from './context.ts'
import { type Meters, rateMeter } from './meters.ts'

interface QueueRow {
  name: string
  paused_at: number
  paused_by: string
  paused_reason: string
  resume_at: number | null
}

/** From one priority to the next: the jobs behind the first of each are jumped over. */
export const OLDEST_READY_SQL = `
  WITH RECURSIVE first (priority, since) AS (
    SELECT * FROM (SELECT priority, coalesce(due_since, queued_at) FROM jobs WHERE ready IS NOT NULL AND type = ?1
      ORDER BY priority DESC, queued_at LIMIT 1)
    UNION ALL
    SELECT jobs.priority, coalesce(jobs.due_since, jobs.queued_at) FROM first CROSS JOIN jobs ON jobs.key = (
      SELECT next.key FROM jobs AS next WHERE next.ready IS NOT NULL AND next.type = ?1
        AND next.priority < first.priority ORDER BY next.priority DESC, next.queued_at LIMIT 1))
  SELECT min(since) AS at FROM first`

export function openQueues(context: SqliteContext, meters: Meters): QueueStore {
  const { connection, types, history, nowMs, write, read } = context
  const select = connection.prepare('SELECT * FROM queues ORDER BY name')
  const pause = connection.prepare(`
    INSERT INTO queues (name, paused_at, paused_by, paused_reason, resume_at) VALUES (?1, ?2, ?3, ?4, ?5)
    ON CONFLICT (name) DO UPDATE SET paused_at = ?2, paused_by = ?3, paused_reason = ?4, resume_at = ?5`)
  const resume = connection.prepare('DELETE FROM queues WHERE name = ?')
  const over = connection.prepare('SELECT * FROM queues WHERE resume_at <= ? ORDER BY name')
  const oldestReady = connection.prepare(OLDEST_READY_SQL)
  const underWay = connection.prepare(`
    SELECT count(*) AS n, sum(limit_key = ?2) AS of_key, sum(orphaned_at IS NOT NULL) AS orphaned
    FROM jobs WHERE type = ?1 AND limit_key IS NOT NULL AND lease_until IS NOT NULL`)

  const queueNames = (): string[] => {
    types.refresh()
    return [...new Set(types.known().map(({ queue }) => queue))].toSorted()
  }

  const needed = (name: string): void => {
    const known = queueNames()
    if (known.includes(name)) return
    const names = known.length === 0 ? 'there is none yet' : `there are ${known.join(', ')}`
    throw new RedressError('QUEUE_UNKNOWN', `No job type has the queue ${name}; ${names}.`)
  }

  const pauses = (atMs: number): Map<string, QueuePause> => {
    const rows = (select.all() as unknown as QueueRow[]).filter((row) => row.resume_at === null || row.resume_at > atMs)
    return new Map(
      rows.map((row) => [
        row.name,
        { atMs: row.paused_at, by: row.paused_by, reason: row.paused_reason, untilMs: row.resume_at },
      ]),
    )
  }

  const oldestReadyAtMs = (type: KnownType) => (oldestReady.get(type.key) as { at: number | null }).at

  return {
    pauseQueue: ({ name, by, forMs }) =>
      write('pausing a queue', () => {
        const atMs = nowMs()
        needed(name)
        const untilMs = forMs === null ? null : atMs + forMs
        pause.run(name, atMs, by.actor, by.reason, untilMs)
        history.subjectEvent(`queue:${name}`, atMs, 'paused', { ...by, ...(untilMs !== null && { untilMs }) })
        history.audit(by, { atMs, act: 'queues.pause', target: 'queue', ids: [name], data: { untilMs } })
      }),

    resumeQueue: ({ name, by }) =>
      write('resuming a queue', () => {
        const atMs = nowMs()
        const wasPaused = pauses(atMs).has(name)
        if (!wasPaused) {
          needed(name)
          return 'not-paused'
        }
        resume.run(name)
        history.subjectEvent(`queue:${name}`, atMs, 'resumed', { ...by })
        history.audit(by, { atMs, act: 'queues.resume', target: 'queue', ids: [name] })
        context.hintWork()
        return 'resumed'
      }),

    async endPauses() {
      const isAnyOver = () => (over.all(nowMs()) as unknown as QueueRow[]).length > 0
      if (!(await read('looking for pauses that are over', isAnyOver))) return []
      return write('ending pauses', () => {
        const atMs = nowMs()
        const ended = over.all(atMs) as unknown as QueueRow[]
        for (const { name, paused_by, resume_at } of ended) {
          resume.run(name)
          const reason = `the pause by ${paused_by} was to last until then`
          const data = { actor: 'redress', reason, untilMs: resume_at }
          history.subjectEvent(`queue:${name}`, atMs, 'resumed', data)
        }
        if (ended.length > 0) context.hintWork()
        return ended.map(({ name }) => name)
      })
    },

    queues: () =>
      read('reading queues', () => {
        const paused = pauses(nowMs())
        return queueNames().map((name) => ({
          name,
          types: types
            .known()
            .filter(({ queue }) => queue === name)
            .map((type) => ({ type: type.name, oldestReadyAtMs: oldestReadyAtMs(type) })),
          paused: paused.get(name) ?? null,
        }))
      }),

    load: ({ type: name, limitKey }) =>
      read('reading how much is under way', (): TypeLoad => {
        types.refresh()
        const atMs = nowMs()
        const type = types.needed(name)
        const row = underWay.get(type.key, limitKey ?? '') as { n: number; of_key: number; orphaned: number }
        const { rate } = type.policy
        const meter = rate === null ? null : rateMeter(name, rate.scope === 'key' ? limitKey : null)
        const isKeyless = rate?.scope === 'key' && limitKey === null
        const credits = rate === null || meter === null || isKeyless ? null : creditsAt(meters.get(meter), rate, atMs)
        const isOpen = rate === null || credits === null || affordable(credits, rate) >= 1
        return {
          underWay: row.n,
          underWayOfKey: limitKey === null ? 0 : (row.of_key ?? 0),
          orphaned: row.orphaned ?? 0,
          rateOpensAtMs: isOpen ? null : affordableAtMs(credits, rate, atMs),
        }
      }),
  }
}
