import type { SubjectEvents } from '../../../core/job/events.ts'
import {
  afterCalls,
  afterForcing,
  afterProbe,
  afterRequest,
  afterSettingBack,
  afterTime,
  type BreakerState,
  type BreakerStatus,
  bucketOf,
  bucketsOfCalls,
  type CallBucket,
  type CallCount,
  closedFromTheStart,
  effectiveStatus,
  type ForcedState,
  isInForce,
  nextChangeAtMs,
  type Standing,
  sumWindow,
  whyHeld,
} from '../../../core/limits/breaker.ts'
import type { BreakerPolicy } from '../../../core/policy/flow.ts'
import type { BreakerEvent, BreakerStanding, BreakerStore, CallReport, StoredBreaker } from '../../contract/breakers.ts'
import type { ActorAndReason } from '../../contract/store.ts'
import { history, toEventNumber, toRowNumber } from '../history.ts'
import { plain, type Row } from '../jobs/rows.ts'
import type { ScriptContext, Tx } from '../tx/context.ts'
import type { Script } from '../tx/script.ts'
import { type Sql, sql } from '../tx/sql.ts'

/** A breaker at a moment. */
export interface Breaker extends Standing {
  name: string
  epoch: number
  probe: number
  probeUntilMs: number | null
  lastProbe: { atMs: number; passed: boolean; said: string } | null
}

interface EventRow {
  seq: number
  at: number
  kind: BreakerEvent['kind']
  data: string
}

const EVENT_OF: Readonly<Record<BreakerStatus, SubjectEvents['breaker'][number]>> = {
  open: 'opened',
  'half-open': 'half-open',
  closed: 'closed',
}

/** About this many calls are part of the event of a change. */
const EVENT_CALLS_MAX = 20

const COLUMNS = sql`
  name, policy, epoch, status, since, tries_at, passed, reason, forced_status, forced_by, forced_reason, forced_at,
  forced_until, probe, probe_until, prober_until, probed_at, probe_passed, probe_said`

/**
 * A transaction that changes a breaker, or that counts the calls it allows and takes some of them, holds this lock. It
 * reads the clock after that: another process may have changed the breaker a moment ago, and a change in the future
 * looks like a clock that was set back.
 */
export const breakerLock = (name: string): string => `breaker ${name}`

/** The rows of the breakers. Every change goes through `move`, which writes its event. */
export const breakerRows = {
  *declare(tx: Tx, policy: BreakerPolicy, nowMs: number): Script<void> {
    const { status, sinceMs, passed, reason } = closedFromTheStart(nowMs)
    yield* tx.run`
      INSERT INTO breakers (name, policy, epoch, status, since, passed, reason)
      VALUES (${policy.guards}, ${JSON.stringify(policy)}, 1, ${status}, ${sinceMs}, ${passed}, ${reason})
      ON CONFLICT (name) DO UPDATE SET policy = excluded.policy WHERE breakers.policy <> excluded.policy`
  },

  /** As it was last written. */
  *stored(tx: Tx, name: string, nowMs: number): Script<Breaker | null> {
    const row = yield* tx.get<Row>`SELECT ${COLUMNS} FROM breakers WHERE name = ${name}`
    return row === undefined ? null : toBreaker(row, nowMs)
  },

  /** As it is now. Changes by time alone are written. */
  *current(tx: Tx, name: string, nowMs: number): Script<Breaker | null> {
    const breaker = yield* breakerRows.stored(tx, name, nowMs)
    return breaker === null ? null : yield* breakerRows.bringUpToDate(tx, breaker, nowMs)
  },

  *bringUpToDate(tx: Tx, breaker: Breaker, nowMs: number): Script<Breaker> {
    const isOver = breaker.forced !== null && !isInForce(breaker.forced, nowMs)
    const free = isOver ? yield* release(tx, breaker, null, nowMs) : breaker
    return yield* move(tx, free, stateInTime(free, nowMs), nowMs)
  },

  /**
   * Attempts of all types that name this breaker; not those whose lease expired. `claimedSinceMs`: a call that hangs
   * since before the breaker opened must not take the place of one that could close it.
   */
  *underWay(tx: Tx, name: string, nowMs: number, claimedSinceMs = 0): Script<number> {
    const { guards, jobs } = tx.dialect.choose({
      sqlite: { guards: sql`policy ->> '$.breaker.guards'`, jobs: sql`jobs INDEXED BY jobs_limited_running` },
      postgres: { guards: sql`policy::json -> 'breaker' ->> 'guards'`, jobs: sql`jobs` },
    })
    const row = yield* tx.get<{ count: number }>`
      SELECT count(*) AS count FROM ${jobs}
      WHERE type IN (SELECT key FROM job_types WHERE ${guards} = ${name})
        AND limit_key IS NOT NULL AND lease_until IS NOT NULL AND lease_until > ${nowMs} AND claimed_at >= ${claimedSinceMs}`
    return row?.count ?? 0
  },
} as const

/** Writes another computed state. A change of the status has an event and begins a new epoch. */
function* move(tx: Tx, breaker: Breaker, state: BreakerState, nowMs: number): Script<Breaker> {
  if (state === breaker.state) return breaker
  const { name } = breaker
  const { status, sinceMs, triesAtMs, passed, reason } = state
  const isChange = status !== breaker.state.status
  const epoch = isChange ? breaker.epoch + 1 : breaker.epoch
  yield* tx.run`
    UPDATE breakers SET epoch = ${epoch}, status = ${status}, since = ${sinceMs}, tries_at = ${triesAtMs},
      passed = ${passed}, reason = ${reason}
    WHERE name = ${name}`
  if (isChange) {
    const calls = bucketsOfCalls(yield* newestCalls(tx, name, EVENT_CALLS_MAX), EVENT_CALLS_MAX)
    // The calls that opened it must not open it again after it closed.
    yield* tx.run`DELETE FROM breaker_calls WHERE breaker = ${name}`
    yield* addEvent(tx, name, EVENT_OF[status], { status, reason, ...(calls.length > 0 && { calls }) }, nowMs)
  }
  return { ...breaker, epoch, state }
}

/** Ends the forced state; `by` is null if its time is over. */
function* release(tx: Tx, breaker: Breaker, by: ActorAndReason | null, nowMs: number): Script<Breaker> {
  const { name, forced } = breaker
  if (forced === null) return breaker
  yield* setForced(tx, name, null)
  const free = yield* move(tx, { ...breaker, forced: null }, afterForcing(breaker.state, forced, nowMs), nowMs)
  const why = by ?? { reason: 'the time it was forced for is over' }
  yield* addEvent(tx, name, 'released', { ...why, status: free.state.status }, nowMs)
  return free
}

const setForced = (tx: Tx, name: string, forced: ForcedState | null): Script<number> => tx.run`
  UPDATE breakers SET forced_status = ${forced?.status ?? null}, forced_by = ${forced?.actor ?? null},
    forced_reason = ${forced?.reason ?? null}, forced_at = ${forced?.atMs ?? null},
    forced_until = ${forced?.untilMs ?? null}
  WHERE name = ${name}`

const addEvent = (tx: Tx, name: string, kind: BreakerEvent['kind'], data: BreakerEvent['data'], nowMs: number) =>
  history.subjectEvent(tx, `breaker:${name}`, nowMs, kind, data)

const newestCalls = (tx: Tx, name: string, limit: number, condition: Sql = sql`true`): Script<CallBucket[]> =>
  tx.all<CallBucket>`
    SELECT at AS "atMs", succeeded, failed FROM breaker_calls WHERE breaker = ${name} AND ${condition}
    ORDER BY at DESC LIMIT ${limit}`

/** A bucket has at least one call, so these rows are enough to fill the window. */
function* windowOf(tx: Tx, { name, policy }: Breaker, nowMs: number): Script<CallCount> {
  return sumWindow(yield* newestCalls(tx, name, policy.windowCalls, sql`at <= ${nowMs}`), policy, nowMs)
}

function* addCalls(tx: Tx, name: string, calls: readonly CallBucket[]): Script<void> {
  if (calls.length === 0) return
  const rows = calls.map(({ atMs, succeeded, failed }) => ({ at: atMs, succeeded, failed }))
  yield* tx.run`
    INSERT INTO breaker_calls (breaker, at, succeeded, failed)
    SELECT ${name}, at, sum(succeeded), sum(failed)
    FROM ${tx.dialect.table({ at: 'bigint', succeeded: 'bigint', failed: 'bigint' }, rows)} AS given GROUP BY at
    ON CONFLICT (breaker, at) DO UPDATE SET succeeded = breaker_calls.succeeded + excluded.succeeded,
      failed = breaker_calls.failed + excluded.failed`
}

export function openBreakers({ types, write, read }: ScriptContext): BreakerStore {
  /** With the locks of these breakers held; the clock is read after that. */
  const writeTo = <T>(doing: string, names: readonly string[], run: (tx: Tx, atMs: number) => Script<T>): Promise<T> =>
    write(doing, function* (tx) {
      yield* tx.lock(names.map(breakerLock))
      return yield* run(tx, yield* tx.now())
    })

  const writeOne = <T>(doing: string, name: string, run: (tx: Tx, breaker: Breaker, atMs: number) => Script<T>) =>
    writeTo(doing, [name], function* (tx, atMs) {
      const breaker = yield* breakerRows.current(tx, name, atMs)
      return breaker === null ? null : yield* run(tx, breaker, atMs)
    })

  /** As they are now; nothing is written. The statement reads the clock after it has seen the rows. */
  const peek = function* (tx: Tx, condition: Sql): Script<{ breaker: Breaker; nowMs: number }[]> {
    const rows = yield* tx.all<Row>`
      SELECT ${COLUMNS}, ${tx.clock()} AS now FROM breakers WHERE ${condition} ORDER BY name ${tx.dialect.bytewise}`
    return rows.map((row) => {
      const nowMs = row.now as number
      return { breaker: breakerAsOf(toBreaker(row, nowMs), nowMs), nowMs }
    })
  }

  const moveOn = function* (tx: Tx, breaker: Breaker, state: BreakerState, atMs: number): Script<Breaker> {
    if (state.status !== 'open') tx.wakeWorkers()
    return yield* move(tx, breaker, state, atMs)
  }

  const count = function* (tx: Tx, { name, epoch, buckets }: CallReport, atMs: number): Script<BreakerStanding | null> {
    const breaker = yield* breakerRows.current(tx, name, atMs)
    if (breaker === null) return null
    // Calls from before it opened or closed say nothing about the dependency as it is now.
    if (epoch !== breaker.epoch) return standingOf(breaker, atMs, yield* windowOf(tx, breaker, atMs))
    const calls = buckets
      .filter(({ succeeded, failed }) => succeeded + failed > 0)
      .map(({ agoMs, succeeded, failed }) => {
        return { atMs: bucketOf(atMs - Math.max(0, Math.round(agoMs))), succeeded, failed }
      })
    const succeeded = calls.reduce((sum, bucket) => sum + bucket.succeeded, 0)
    const failed = calls.reduce((sum, bucket) => sum + bucket.failed, 0)
    // In one round trip; the connection keeps their order.
    const [, , window] = yield* tx.together(
      addCalls(tx, name, calls),
      tx.run`
        DELETE FROM breaker_calls
        WHERE breaker = ${name} AND (at < ${bucketOf(atMs - breaker.policy.windowMs)} OR at > ${atMs})`,
      windowOf(tx, breaker, atMs),
    )
    const state = afterCalls(breaker.state, { succeeded, failed }, window, breaker.policy, atMs)
    const after = state === breaker.state ? breaker : yield* moveOn(tx, breaker, state, atMs)
    return standingOf(after, atMs, after.epoch === epoch ? window : yield* windowOf(tx, after, atMs))
  }

  const audit = (
    tx: Tx,
    by: ActorAndReason,
    act: string,
    name: string,
    atMs: number,
    data: object | null = null,
  ): Script<void> => history.audit(tx, by, { atMs, act, target: 'breaker', ids: [name], data })

  return {
    breakers: () =>
      read('reading breakers', function* (tx) {
        yield* types.refresh(tx)
        const all: StoredBreaker[] = []
        for (const { breaker, nowMs } of yield* peek(tx, sql`true`)) {
          const { probe: _, ...rest } = breaker
          const [window, underWay] = yield* tx.together(
            windowOf(tx, breaker, nowMs),
            breakerRows.underWay(tx, breaker.name, nowMs),
          )
          const guarded = types.known().flatMap(({ name, policy: { breaker: of } }) => {
            return of?.guards === breaker.name ? [{ name, mode: of.mode }] : []
          })
          // A breaker that no type names any more counts no calls, and would stay open for ever.
          if (guarded.length === 0 && breaker.forced === null) continue
          all.push({ ...rest, nowMs, window, underWay, types: guarded })
        }
        return all
      }),

    standings: ({ names }) =>
      read('looking at breakers', function* (tx) {
        const found = yield* peek(tx, sql`name ${tx.dialect.inTexts(names)}`)
        const standings = new Map(found.map(({ breaker, nowMs }) => [breaker.name, standingOf(breaker, nowMs)]))
        return names.flatMap((name) => standings.get(name) ?? [])
      }),

    countCalls: ({ counts }) =>
      writeTo(
        'counting calls',
        counts.map(({ name }) => name),
        function* (tx, atMs) {
          const standings: BreakerStanding[] = []
          for (const report of counts) {
            const standing = yield* count(tx, report, atMs)
            if (standing !== null) standings.push(standing)
          }
          return standings
        },
      ),

    forceBreaker: ({ name, status, forMs, by }) =>
      writeOne('forcing a breaker', name, function* (tx, _, atMs) {
        const untilMs = forMs === null ? null : atMs + forMs
        yield* setForced(tx, name, { status, ...by, atMs, untilMs })
        yield* addEvent(tx, name, 'forced', { actor: by.actor, reason: by.reason, status, untilMs }, atMs)
        yield* audit(tx, by, status === 'open' ? 'breakers.open' : 'breakers.close', name, atMs, { untilMs })
        tx.wakeWorkers()
        return true as const
      }),

    releaseBreaker: ({ name, by }) =>
      writeOne('releasing a breaker', name, function* (tx, breaker, atMs) {
        if (breaker.forced === null) return 'free'
        yield* release(tx, breaker, by, atMs)
        yield* audit(tx, by, 'breakers.release', name, atMs)
        tx.wakeWorkers()
        return 'released'
      }),

    tryBreaker: ({ name, by }) =>
      writeOne('probing a breaker', name, function* (tx, breaker, atMs) {
        if (isInForce(breaker.forced, atMs)) return 'forced'
        if (breaker.state.status === 'closed') return 'closed'
        yield* moveOn(tx, breaker, afterRequest(breaker, `${by.actor} wants it tried: ${by.reason}`, atMs), atMs)
        yield* audit(tx, by, 'breakers.probe', name, atMs)
        return breaker.isProbed ? 'probe' : 'jobs'
      }),

    offerProbe: ({ name, forMs }) =>
      write('offering a health probe', function* (tx, atMs) {
        yield* tx.run`UPDATE breakers SET prober_until = ${atMs + forMs} WHERE name = ${name}`
      }),

    beginProbe: ({ name, ttlMs, isAsked }) =>
      writeOne('beginning a health probe', name, function* (tx, breaker, atMs) {
        if (!isProbeDue(breaker, isAsked, atMs)) return null
        yield* tx.run`UPDATE breakers SET probe = probe + 1, probe_until = ${atMs + ttlMs} WHERE name = ${name}`
        return { name, number: breaker.probe + 1 }
      }),

    async endProbe({ ticket: { name, number }, outcome }) {
      const ended = await writeOne('ending a health probe', name, function* (tx, breaker, atMs) {
        if (breaker.probe !== number || breaker.probeUntilMs === null) return 'lost'
        yield* tx.run`
          UPDATE breakers SET probe_until = NULL, probed_at = ${atMs}, probe_passed = ${outcome.passed ? 1 : 0},
            probe_said = ${outcome.said}
          WHERE name = ${name}`
        yield* moveOn(tx, breaker, afterProbe(breaker.state, outcome, breaker.policy, atMs), atMs)
        return 'counted'
      })
      return ended ?? 'lost'
    },

    // Each is numbered with the breaker's lock held, so that they become visible in their order.
    breakerEvents: ({ name, afterSeq, limit }) =>
      read('reading what happened to a breaker', function* (tx) {
        const events = yield* tx.all<EventRow>`
          SELECT seq, at, kind, data FROM events WHERE subject = ${`breaker:${name}`} AND seq > ${toRowNumber(afterSeq)}
          ORDER BY seq LIMIT ${limit}`
        return events.map(toEvent)
      }),

    breakerPast: ({ name, seconds, events: eventsMax }) =>
      read('reading the past of a breaker', function* (tx) {
        const subject = `breaker:${name}`
        // With an equality, PostgreSQL would not take the order from the index.
        const [calls, events] = yield* tx.together(
          newestCalls(tx, name, seconds),
          tx.all<EventRow>`
            SELECT seq, at, kind, data FROM events WHERE subject BETWEEN ${subject} AND ${subject}
            ORDER BY subject DESC, seq DESC LIMIT ${eventsMax}`,
        )
        return { calls: plain(calls), events: events.map(toEvent) }
      }),

    countReady: ({ types: names }) =>
      read('counting ready jobs', function* (tx) {
        const row = yield* tx.get<{ count: number }>`
          SELECT count(*) AS count FROM jobs
          WHERE ready IS NOT NULL AND type IN (SELECT key FROM job_types WHERE name ${tx.dialect.inTexts(names)})`
        return row?.count ?? 0
      }),
  }
}

/** Policies by their text, so that each is parsed once. Programs declare few of them. */
const policies = new Map<string, BreakerPolicy>()

function policyOf(text: string): BreakerPolicy {
  const known = policies.get(text) ?? (JSON.parse(text) as BreakerPolicy)
  policies.set(text, known)
  return known
}

function toBreaker(row: Row, nowMs: number): Breaker {
  return {
    name: row.name as string,
    epoch: row.epoch as number,
    policy: policyOf(row.policy as string),
    state: {
      status: row.status as BreakerStatus,
      sinceMs: row.since as number,
      triesAtMs: row.tries_at as number | null,
      passed: row.passed as number,
      reason: row.reason as string,
    },
    forced:
      row.forced_status === null
        ? null
        : {
            status: row.forced_status as 'open' | 'closed',
            actor: row.forced_by as string,
            reason: row.forced_reason as string,
            atMs: row.forced_at as number,
            untilMs: row.forced_until as number | null,
          },
    isProbed: row.prober_until !== null && (row.prober_until as number) > nowMs,
    probe: row.probe as number,
    probeUntilMs: row.probe_until as number | null,
    lastProbe:
      row.probed_at === null
        ? null
        : { atMs: row.probed_at as number, passed: row.probe_passed === 1, said: (row.probe_said as string) ?? '' },
  }
}

const toEvent = ({ seq, at, kind, data }: EventRow): BreakerEvent => ({
  seq: toEventNumber(seq),
  atMs: at,
  kind,
  data: JSON.parse(data),
})

/** The state after the time that has passed, also if the clock was set back. */
function stateInTime(breaker: Breaker, nowMs: number): BreakerState {
  const state = afterSettingBack(breaker.state, breaker.lastProbe?.atMs ?? 0, nowMs)
  return afterTime({ ...breaker, state }, nowMs)
}

/** As it is at this moment, whether or not this is written yet; the same object if nothing changed. */
export function breakerAsOf(breaker: Breaker, nowMs: number): Breaker {
  const { forced } = breaker
  const isOver = forced !== null && !isInForce(forced, nowMs)
  const released = isOver ? { ...breaker, forced: null, state: afterForcing(breaker.state, forced, nowMs) } : breaker
  const state = stateInTime(released, nowMs)
  return state === released.state ? released : { ...released, state }
}

export function standingOf(breaker: Breaker, nowMs: number, window: CallCount | null = null): BreakerStanding {
  const { name, epoch } = breaker
  return {
    name,
    epoch,
    status: effectiveStatus(breaker, nowMs),
    why: whyHeld(breaker, nowMs),
    nextChangeAtMs: nextChangeAtMs(breaker, nowMs),
    window,
  }
}

function isProbeDue({ state, forced, probeUntilMs }: Breaker, isAsked: boolean, nowMs: number): boolean {
  if (probeUntilMs !== null && probeUntilMs > nowMs) return false
  if (isAsked) return true
  return state.status !== 'closed' && !isInForce(forced, nowMs) && (state.triesAtMs ?? nowMs) <= nowMs
}
