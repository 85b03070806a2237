import { afterCalls, afterProbe, afterRequest, type BreakerState, bucketOf, isInForce } from '../../core/breaker.ts'
import {
  type Breaker,
  type BreakerRow,
  callsFromRow,
  type EventRow,
  isProbeDue,
  isShown,
  standingOf,
  storedBreaker,
  toBreakerEvent,
} from '../breaker-rows.ts'
import type { BreakerStanding, BreakerStore, CallReport } from '../breakers.ts'
import type { By } from '../store.ts'
import type { BreakerRows } from './breaker-rows.ts'
import type { SqliteContext } from './context.ts'

export function openBreakers(context: SqliteContext, rows: BreakerRows): BreakerStore {
  const { connection, history, types, write, read, nowMs, hintWork } = context
  const addCalls = connection.prepare(`
    INSERT INTO breaker_calls (breaker, at, succeeded, failed) VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (breaker, at) DO UPDATE SET succeeded = succeeded + ?3, failed = failed + ?4`)
  const offer = connection.prepare('UPDATE breakers SET prober_until = ?2 WHERE name = ?1')
  const begin = connection.prepare('UPDATE breakers SET probe = probe + 1, probe_until = ?2 WHERE name = ?1')
  const end = connection.prepare(
    'UPDATE breakers SET probe_until = NULL, probed_at = ?2, probe_passed = ?3, probe_said = ?4 WHERE name = ?1',
  )
  const events = connection.prepare(
    'SELECT seq, at, kind, data FROM events WHERE subject = ? AND seq > ? ORDER BY seq LIMIT ?',
  )
  const newestEvents = connection.prepare(
    'SELECT seq, at, kind, data FROM events WHERE subject = ? ORDER BY seq DESC LIMIT ?',
  )
  const newestCalls = connection.prepare(
    'SELECT at, succeeded, failed FROM breaker_calls WHERE breaker = ? ORDER BY at DESC LIMIT ?',
  )
  const ready = connection.prepare('SELECT count(*) AS count FROM jobs WHERE ready IS NOT NULL AND type = ?')

  const move = (breaker: Breaker, state: BreakerState, atMs: number): Breaker => {
    if (state.status !== 'open') hintWork()
    return rows.move(breaker, state, atMs)
  }

  const count = ({ name, epoch, buckets }: CallReport, atMs: number): BreakerStanding | null => {
    const breaker = rows.current(name, atMs)
    if (breaker === null) return null
    // They were begun before it opened, or before it closed: they say nothing about how the dependency is now.
    if (epoch !== breaker.epoch) return standingOf(breaker, atMs, rows.windowOf(breaker, atMs))
    let [succeeded, failed] = [0, 0]
    for (const bucket of buckets) {
      addCalls.run(name, bucketOf(atMs - Math.max(0, Math.round(bucket.agoMs))), bucket.succeeded, bucket.failed)
      succeeded += bucket.succeeded
      failed += bucket.failed
    }
    rows.forgetCallsOutside(name, bucketOf(atMs - breaker.policy.windowMs), atMs)
    const window = rows.windowOf(breaker, atMs)
    const after = move(breaker, afterCalls(breaker.state, { succeeded, failed }, window, breaker.policy, atMs), atMs)
    return standingOf(after, atMs, after.epoch === epoch ? window : rows.windowOf(after, atMs))
  }

  const audit = (by: By, act: string, name: string, atMs: number, data: object | null = null): void =>
    history.audit(by, { atMs, act, target: 'breaker', ids: [name], data })

  return {
    breakers: () =>
      read('reading breakers', () => {
        const atMs = nowMs()
        const all = rows.peekAll(atMs).map((breaker) => {
          const counted = {
            nowMs: atMs,
            window: rows.windowOf(breaker, atMs),
            underWay: rows.underWay(breaker.name, atMs),
          }
          return storedBreaker(breaker, counted, types.all())
        })
        return all.filter(isShown)
      }),

    standings: ({ names }) =>
      read('looking at breakers', () => {
        const atMs = nowMs()
        return names.flatMap((name) => {
          const breaker = rows.peek(name, atMs)
          return breaker === null ? [] : [standingOf(breaker, atMs)]
        })
      }),

    countCalls: ({ counts }) =>
      write('counting calls', () => {
        const atMs = nowMs()
        return counts.flatMap((report) => count(report, atMs) ?? [])
      }),

    forceBreaker: ({ name, status, forMs, by }) =>
      write('forcing a breaker', () => {
        const atMs = nowMs()
        const breaker = rows.current(name, atMs)
        if (breaker === null) return null
        const untilMs = forMs === null ? null : atMs + forMs
        rows.force(breaker, { status, ...by, atMs, untilMs }, atMs)
        audit(by, status === 'open' ? 'breakers.open' : 'breakers.close', name, atMs, { untilMs })
        hintWork()
        return true
      }),

    releaseBreaker: ({ name, by }) =>
      write('releasing a breaker', () => {
        const atMs = nowMs()
        const breaker = rows.current(name, atMs)
        if (breaker === null) return null
        if (breaker.forced === null) return 'free'
        rows.release(breaker, by, atMs)
        audit(by, 'breakers.release', name, atMs)
        hintWork()
        return 'released'
      }),

    tryBreaker: ({ name, by }) =>
      write('trying a breaker', () => {
        const atMs = nowMs()
        const breaker = rows.current(name, atMs)
        if (breaker === null) return null
        if (isInForce(breaker.forced, atMs)) return 'forced'
        if (breaker.state.status === 'closed') return 'closed'
        move(breaker, afterRequest(breaker, `${by.actor} wants it tried: ${by.reason}`, atMs), atMs)
        audit(by, 'breakers.probe', name, atMs)
        return breaker.isProbed ? 'probe' : 'jobs'
      }),

    offerProbe: ({ name, forMs }) => write('offering a health probe', () => void offer.run(name, nowMs() + forMs)),

    beginProbe: ({ name, ttlMs, isAsked }) =>
      write('beginning a health probe', () => {
        const atMs = nowMs()
        const breaker = rows.current(name, atMs)
        if (breaker === null || !isProbeDue(breaker, isAsked, atMs)) return null
        begin.run(name, atMs + ttlMs)
        return { name, number: breaker.probe + 1 }
      }),

    endProbe: ({ ticket, outcome }) =>
      write('ending a health probe', () => {
        const atMs = nowMs()
        const breaker = rows.current(ticket.name, atMs)
        if (breaker === null || breaker.probe !== ticket.number || breaker.probeUntilMs === null) return 'lost'
        end.run(ticket.name, atMs, outcome.passed ? 1 : 0, outcome.said)
        move(breaker, afterProbe(breaker.state, outcome, breaker.policy, atMs), atMs)
        return 'counted'
      }),

    breakerEvents: ({ name, afterSeq, limit }) =>
      read('reading what happened to a breaker', () =>
        (events.all(`breaker:${name}`, afterSeq, limit) as unknown as EventRow[]).map(toBreakerEvent),
      ),

    breakerPast: ({ name, seconds, events: eventsMax }) =>
      read('reading the past of a breaker', () => ({
        calls: (newestCalls.all(name, seconds) as BreakerRow[]).map(callsFromRow),
        events: (newestEvents.all(`breaker:${name}`, eventsMax) as unknown as EventRow[]).map(toBreakerEvent),
      })),

    countReady: ({ types: names }) =>
      read('counting ready jobs', () =>
        names.reduce((sum, name) => {
          const type = types.byName(name)
          return type === undefined ? sum : sum + (ready.get(type.key) as { count: number }).count
        }, 0),
      ),
  }
}
