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
import type { BreakerStanding, BreakerStore, CallReport, StoredBreaker } from '../breakers.ts'
import type { By } from '../store.ts'
import { type BreakerRows, breakerLock } from './breaker-rows.ts'
import type { Tx } from './client.ts'
import type { PgContext } from './context.ts'
import { lockNames } from './locks.ts'
import { printable } from './text.ts'

export function openBreakers(context: PgContext, rows: BreakerRows): BreakerStore {
  const { history, types, write, read, now, hintWork } = context

  /** With the locks of these breakers held, and the time since. */
  const writeTo = <T>(doing: string, names: readonly string[], run: (tx: Tx, atMs: number) => Promise<T>): Promise<T> =>
    write(doing, async (tx) => {
      await lockNames(tx, names.map(breakerLock))
      return run(tx, await now(tx))
    })

  const move = (tx: Tx, breaker: Breaker, state: BreakerState, atMs: number): Promise<Breaker> => {
    if (state.status !== 'open') hintWork(tx)
    return rows.move(tx, breaker, state, atMs)
  }

  const count = async (tx: Tx, { name, epoch, buckets }: CallReport, atMs: number): Promise<BreakerStanding | null> => {
    const breaker = await rows.current(tx, name, atMs)
    if (breaker === null) return null
    // They were begun before it opened, or before it closed: they say nothing about how the dependency is now.
    if (epoch !== breaker.epoch) return standingOf(breaker, atMs, await rows.windowOf(tx, breaker, atMs))
    const calls = buckets.map(({ agoMs, succeeded, failed }) => {
      return { atMs: bucketOf(atMs - Math.max(0, Math.round(agoMs))), succeeded, failed }
    })
    const succeeded = calls.reduce((sum, bucket) => sum + bucket.succeeded, 0)
    const failed = calls.reduce((sum, bucket) => sum + bucket.failed, 0)
    // In one round trip; the connection keeps their order.
    const [, , window] = await Promise.all([
      rows.addCalls(tx, name, calls),
      rows.forgetCallsOutside(tx, name, bucketOf(atMs - breaker.policy.windowMs), atMs),
      rows.windowOf(tx, breaker, atMs),
    ])
    const state = afterCalls(breaker.state, { succeeded, failed }, window, breaker.policy, atMs)
    const after = state === breaker.state ? breaker : await move(tx, breaker, state, atMs)
    return standingOf(after, atMs, after.epoch === epoch ? window : await rows.windowOf(tx, after, atMs))
  }

  const audit = (tx: Tx, by: By, act: string, name: string, atMs: number, data: object | null = null): Promise<void> =>
    history.audit(tx, by, { atMs, act, target: 'breaker', ids: [name], data })

  return {
    breakers: () =>
      read('reading breakers', async (sql, nowMs) => {
        await types.refresh()
        const { breakers, nowMs: atMs } = await rows.peekAll(sql, nowMs)
        const all: StoredBreaker[] = []
        for (const breaker of breakers) {
          const [window, underWay] = await Promise.all([
            rows.windowOf(sql, breaker, atMs),
            rows.underWay(sql, breaker.name, atMs),
          ])
          all.push(storedBreaker(breaker, { nowMs: atMs, window, underWay }, types.all()))
        }
        return all.filter(isShown)
      }),

    standings: ({ names }) =>
      read('looking at breakers', async (sql, nowMs) => {
        const { breakers, nowMs: atMs } = await rows.peek(sql, names, nowMs)
        const byName = new Map(breakers.map((breaker) => [breaker.name, breaker]))
        return names.flatMap((name) => {
          const breaker = byName.get(name)
          return breaker === undefined ? [] : [standingOf(breaker, atMs)]
        })
      }),

    countCalls: ({ counts }) =>
      writeTo(
        'counting calls',
        counts.map(({ name }) => name),
        async (tx, atMs) => {
          const standings: BreakerStanding[] = []
          for (const report of counts) {
            const standing = await count(tx, report, atMs)
            if (standing !== null) standings.push(standing)
          }
          return standings
        },
      ),

    forceBreaker: ({ name, status, forMs, by }) =>
      writeTo('forcing a breaker', [name], async (tx, atMs) => {
        const breaker = await rows.current(tx, name, atMs)
        if (breaker === null) return null
        const untilMs = forMs === null ? null : atMs + forMs
        await rows.force(tx, breaker, { status, ...by, atMs, untilMs }, atMs)
        await audit(tx, by, status === 'open' ? 'breakers.open' : 'breakers.close', name, atMs, { untilMs })
        hintWork(tx)
        return true
      }),

    releaseBreaker: ({ name, by }) =>
      writeTo('releasing a breaker', [name], async (tx, atMs) => {
        const breaker = await rows.current(tx, name, atMs)
        if (breaker === null) return null
        if (breaker.forced === null) return 'free'
        await rows.release(tx, breaker, by, atMs)
        await audit(tx, by, 'breakers.release', name, atMs)
        hintWork(tx)
        return 'released'
      }),

    tryBreaker: ({ name, by }) =>
      writeTo('trying a breaker', [name], async (tx, atMs) => {
        const breaker = await rows.current(tx, name, atMs)
        if (breaker === null) return null
        if (isInForce(breaker.forced, atMs)) return 'forced'
        if (breaker.state.status === 'closed') return 'closed'
        await move(tx, breaker, afterRequest(breaker, `${by.actor} wants it tried: ${by.reason}`, atMs), atMs)
        await audit(tx, by, 'breakers.probe', name, atMs)
        return breaker.isProbed ? 'probe' : 'jobs'
      }),

    offerProbe: ({ name, forMs }) =>
      write('offering a health probe', async (tx, atMs) => {
        await tx`UPDATE breakers SET prober_until = ${atMs + forMs} WHERE name = ${name}`
      }),

    beginProbe: ({ name, ttlMs, isAsked }) =>
      writeTo('beginning a health probe', [name], async (tx, atMs) => {
        const breaker = await rows.current(tx, name, atMs)
        if (breaker === null || !isProbeDue(breaker, isAsked, atMs)) return null
        await tx`UPDATE breakers SET probe = probe + 1, probe_until = ${atMs + ttlMs} WHERE name = ${name}`
        return { name, number: breaker.probe + 1 }
      }),

    endProbe: ({ ticket: { name, number }, outcome }) =>
      writeTo('ending a health probe', [name], async (tx, atMs) => {
        const breaker = await rows.current(tx, name, atMs)
        if (breaker === null || breaker.probe !== number || breaker.probeUntilMs === null) return 'lost'
        await tx`
          UPDATE breakers SET probe_until = NULL, probed_at = ${atMs}, probe_passed = ${outcome.passed ? 1 : 0},
            probe_said = ${printable(outcome.said)}
          WHERE name = ${name}`
        await move(tx, breaker, afterProbe(breaker.state, outcome, breaker.policy, atMs), atMs)
        return 'counted'
      }),

    // Each is numbered with the breaker's lock held, so that they become visible in their order.
    breakerEvents: ({ name, afterSeq, limit }) =>
      read('reading what happened to a breaker', async (sql) => {
        const events = await sql<EventRow[]>`
          SELECT seq, at, kind, data FROM events WHERE subject = ${`breaker:${name}`} AND seq > ${afterSeq}
          ORDER BY seq LIMIT ${limit}`
        return events.map(toBreakerEvent)
      }),

    breakerPast: ({ name, seconds, events: eventsMax }) =>
      read('reading the past of a breaker', async (sql) => {
        const subject = `breaker:${printable(name)}`
        // Between, not equal: see `pageOfKeys`.
        const [calls, events] = await Promise.all([
          sql<BreakerRow[]>`
            SELECT at, succeeded, failed FROM breaker_calls WHERE breaker = ${printable(name)}
            ORDER BY at DESC LIMIT ${seconds}`,
          sql<EventRow[]>`
            SELECT seq, at, kind, data FROM events WHERE subject BETWEEN ${subject} AND ${subject}
            ORDER BY subject DESC, seq DESC LIMIT ${eventsMax}`,
        ])
        return { calls: calls.map(callsFromRow), events: events.map(toBreakerEvent) }
      }),

    countReady: ({ types: names }) =>
      read('counting ready jobs', async (sql) => {
        const [row] = await sql<{ count: number }[]>`
          SELECT count(*) AS count FROM jobs
          WHERE ready IS NOT NULL AND type IN (SELECT key FROM job_types WHERE name = ANY(${[...names]}::text[]))`
        return (row as { count: number }).count
      }),
  }
}
