import { callsAllowed, effectiveStatus, nextChangeAtMs, whyHeld } from '../../../core/limits/breaker.ts'
import { affordable, affordableAtMs, creditsAt, type Meter } from '../../../core/limits/rate.ts'
import { isSingletonKey } from '../../../core/limits/singleton.ts'
import type { BreakerPolicy, RatePolicy } from '../../../core/policy/flow.ts'
import type { BreakerStanding } from '../../contract/breakers.ts'
import type { JobKey } from '../../contract/store.ts'
import { isGated, type KnownType } from '../jobs/types.ts'
import type { Tx } from '../tx/context.ts'
import { finish, type Script } from '../tx/script.ts'
import { type Sql, sql } from '../tx/sql.ts'
import { type Breaker, breakerAsOf, breakerLock, breakerRows, standingOf } from './breakers.ts'
import { openLimitKeys } from './limit-keys.ts'
import { meters, rateMeter } from './meters.ts'
import { type LanePermits, LimitPermit, type Permit, type ReadyRow } from './permits.ts'

/** What limits one lane during one claim. */
export interface LaneGate extends LanePermits {
  permits: Permit[]
  /** The jobs to choose from, in order, if keys may block every job at the head of the lane. */
  candidates: ((max: number) => Script<JobKey[]>) | null
}

/** A breaker during one claim. All lanes that it guards share the permit. */
interface AskedBreaker {
  breaker: Breaker
  /** null: it does not limit anything. */
  permit: Permit | null
  /** Another claim counts at this moment, or the breaker changed after this claim began. */
  isBusy: boolean
}

/** A claim that found another one counting may try again after this time. */
const AGAIN_MS = 5

export type Gates = ReturnType<typeof openGates>
export type Gating = ReturnType<Gates['begin']>

/**
 * What may keep a claim from the jobs of a lane: its breaker, `policy.concurrency` and `policy.rate`. Everything is
 * counted in the claim's own transaction, so over all processes. Lanes without limits cost nothing.
 */
export function openGates() {
  const limitKeys = openLimitKeys()
  let hasLimited = false

  return {
    /** Some lane of this process is limited, so the end of a job may let another one begin. */
    get hasLimited(): boolean {
      return hasLimited
    },

    /**
     * The claim holds these locks before it asks for the gate of a lane: one claim of a type counts and takes at a time.
     * Jobs that end meanwhile only make room.
     */
    locksOf: ({ name, policy: { concurrency, rate }, hasSingletons }: KnownType): string[] =>
      hasSingletons || concurrency.max !== null || concurrency.perKey !== null || rate !== null
        ? [`limits:${name}`]
        : [],

    /** A claim begins. Several claims of one process may run at once, so nothing is kept between them. */
    begin(tx: Tx, nowMs: number) {
      const limits = openLimits(tx, nowMs, limitKeys)
      const breakers = new Map<string, AskedBreaker>()
      return {
        /** null if nothing limits the lane. */
        *gateOf(type: KnownType): Script<LaneGate | null> {
          if (!isGated(type)) return null
          hasLimited = true
          const gate = {
            permits: [],
            permitOfKey: null,
            candidates: null,
            keysOpenAtMs: null,
            callPermit: null,
            guard: null,
          }
          yield* limits.limit(type, gate)
          const { breaker } = type.policy
          if (breaker !== null) {
            const asked = breakers.get(breaker.guards) ?? (yield* askBreaker(tx, breaker, nowMs))
            breakers.set(breaker.guards, asked)
            limitByBreaker(gate, breaker, asked, nowMs)
          }
          return gate
        },

        /** At the end of a claim that took something, in the same transaction. */
        settle: limits.settle,

        standings: (): BreakerStanding[] => [...breakers.values()].map(({ breaker }) => standingOf(breaker, nowMs)),
      }
    },

    /**
     * The permit that keeps the whole lane from being claimed; null if nothing does. Writes nothing. A limit of
     * concurrency is left out: a slot may become free in the transaction that the claim will share.
     */
    *shutBy(tx: Tx, { name, policy }: KnownType, nowMs: number): Script<Permit | null> {
      const { rate, breaker } = policy
      const byRate = rate?.scope === 'type' ? yield* shutByRate(tx, name, rate, nowMs) : null
      return byRate ?? (breaker === null ? null : yield* shutByBreaker(tx, breaker, nowMs))
    },
  }
}

// ---- concurrency and rates ------------------------------------------------------------------------------------------

/** The condition of an index: every job under way of a limited type has an entry in it. */
const UNDER_WAY = sql`limit_key IS NOT NULL AND lease_until IS NOT NULL`

/** Exported so that a test can ask for their plans. */
export const limitSql = {
  /** Counts no further than to the maximum. */
  underWay: (type: number, max: number): Sql => sql`
    SELECT count(*) AS n FROM (SELECT 1 FROM jobs WHERE type = ${type} AND ${UNDER_WAY} LIMIT ${max}) AS under_way`,
  /** SQLite counts all keys, in one scan of the index; PostgreSQL counts the given ones. */
  underWayByKey: (tx: Pick<Tx, 'dialect'>, type: number, limitKeys: readonly string[]): Sql =>
    tx.dialect.choose({
      sqlite: () => sql`
        SELECT limit_key, count(*) AS n FROM jobs WHERE type = ${type} AND ${UNDER_WAY} GROUP BY limit_key`,
      postgres: () => sql`
        SELECT given.limit_key, under_way.n FROM unnest(${limitKeys}::text[]) AS given (limit_key) CROSS JOIN LATERAL (
          SELECT count(*) AS n FROM jobs WHERE type = ${type} AND ${UNDER_WAY} AND jobs.limit_key = given.limit_key
        ) AS under_way WHERE under_way.n > 0`,
    })(),
}

const NO_COUNTS: ReadonlyMap<string, number> = new Map()

function openLimits(tx: Tx, nowMs: number, limitKeys: ReturnType<typeof openLimitKeys>) {
  const isLocal = tx.dialect.choose({ sqlite: true, postgres: false })
  const given: LimitPermit[] = []
  /** Meters from the future: the clock was set back. They count from now on, or nothing would flow in for long. */
  const setBack = new Map<string, Meter>()

  const permit = (slots: number, policy: RatePolicy | null, name: string, before: Meter | null): LimitPermit => {
    if (before !== null && before.atMs > nowMs) setBack.set(name, { ...before, atMs: nowMs })
    const rate = policy === null ? null : { policy, meter: name, credits: creditsAt(before, policy, nowMs), nowMs }
    const made = new LimitPermit(slots, rate)
    given.push(made)
    return made
  }

  const putClockRight = function* (): Script<void> {
    yield* meters.setMany(tx, setBack)
    setBack.clear()
  }

  const limitByKey = (type: KnownType, gate: LaneGate, perKey: number | null, rate: RatePolicy | null): void => {
    const permits = new Map<string, LimitPermit>()
    const meterOf = (limitKey: string): string => rateMeter(type.name, limitKey)
    let allCounts: ReadonlyMap<string, number> | null = null

    const slotsOf = (limitKey: string): number => (isSingletonKey(limitKey) ? 1 : (perKey ?? Number.POSITIVE_INFINITY))
    const rateOf = (limitKey: string): RatePolicy | null => (isSingletonKey(limitKey) ? null : rate)

    const countsOf = function* (keys: readonly string[]): Script<ReadonlyMap<string, number>> {
      if (perKey === null && !type.hasSingletons) return NO_COUNTS
      if (allCounts !== null) return allCounts
      const rows = yield* tx.all<{ limit_key: string; n: number }>`${limitSql.underWayByKey(tx, type.key, keys)}`
      const counts = new Map(rows.map(({ limit_key, n }) => [limit_key, n]))
      if (isLocal) allCounts = counts
      return counts
    }
    const read = function* (keys: readonly string[]): Script<void> {
      const [counts, known] = yield* tx.together(
        countsOf(keys),
        meters.getMany(tx, keys.filter((key) => rateOf(key) !== null).map(meterOf)),
      )
      for (const limitKey of keys) {
        const slots = slotsOf(limitKey) - (counts.get(limitKey) ?? 0)
        permits.set(limitKey, permit(slots, rateOf(limitKey), meterOf(limitKey), known.get(meterOf(limitKey)) ?? null))
      }
      yield* putClockRight()
    }
    const load = function* (rows: readonly ReadyRow[]): Script<void> {
      if (isLocal) return
      const keys = new Set(rows.flatMap(({ limit_key }) => limit_key || []))
      const fresh = [...keys].filter((limitKey) => !permits.has(limitKey))
      if (fresh.length > 0) yield* read(fresh)
    }
    const permitOfKey = (limitKey: string): LimitPermit => {
      if (!permits.has(limitKey)) finish(read([limitKey]))
      return permits.get(limitKey) as LimitPermit
    }
    gate.permitOfKey = permitOfKey
    gate.candidates = (max) => limitKeys.candidates(tx, type.key, max, { load, of: permitOfKey })
    gate.keysOpenAtMs = () => {
      const opening = [...permits.values()].flatMap(({ left, opensAtMs }) => (left < 1 ? (opensAtMs ?? []) : []))
      return opening.length === 0 ? null : Math.min(...opening)
    }
  }

  return {
    *limit(type: KnownType, gate: LaneGate): Script<void> {
      const { concurrency, rate } = type.policy
      if (concurrency.max !== null) {
        const row = yield* tx.get<{ n: number }>`${limitSql.underWay(type.key, concurrency.max)}`
        gate.permits.push(permit(concurrency.max - (row?.n ?? 0), null, '', null))
      }
      if (rate?.scope === 'type') {
        const name = rateMeter(type.name, null)
        gate.permits.push(permit(Number.POSITIVE_INFINITY, rate, name, yield* meters.get(tx, name)))
        yield* putClockRight()
      }
      const rateOfKey = rate?.scope === 'key' ? rate : null
      const isByKey = concurrency.perKey !== null || rateOfKey !== null || type.hasSingletons
      if (isByKey) limitByKey(type, gate, concurrency.perKey, rateOfKey)
    },

    *settle(): Script<void> {
      const settled = given.flatMap((one) => one.settled ?? [])
      yield* meters.setMany(tx, new Map(settled.map(({ name, meter }) => [name, meter])))
    },
  }
}

function* shutByRate(tx: Tx, type: string, rate: RatePolicy, nowMs: number): Script<Permit | null> {
  const meter = yield* meters.get(tx, rateMeter(type, null))
  // If the clock was set back, only a claim can correct the meter.
  if (meter !== null && meter.atMs > nowMs) return null
  const credits = creditsAt(meter, rate, nowMs)
  return affordable(credits, rate) >= 1 ? null : { left: 0, opensAtMs: affordableAtMs(credits, rate, nowMs) }
}

// ---- breakers -------------------------------------------------------------------------------------------------------

/**
 * A closed breaker that allows any number of calls is only read. If it limits, or time alone has changed it, one claim at
 * a time counts and takes. Other claims do not wait: they take nothing from its lanes and try again.
 */
function* askBreaker(tx: Tx, policy: BreakerPolicy, nowMs: number): Script<AskedBreaker> {
  const { guards: name } = policy
  let stored = yield* breakerRows.stored(tx, name, nowMs)
  if (stored === null) {
    yield* breakerRows.declare(tx, policy, nowMs)
    stored = (yield* breakerRows.stored(tx, name, nowMs)) as Breaker
  }
  const breaker = breakerAsOf(stored, nowMs)
  if (breaker === stored && callsAllowed(breaker, nowMs) === null) return { breaker, permit: null, isBusy: false }
  const isMine = yield* tx.tryLock(breakerLock(name))
  const locked = isMine ? ((yield* breakerRows.stored(tx, name, nowMs)) as Breaker) : stored
  if (!isMine || (yield* isOvertaken(tx, locked, nowMs))) {
    return { breaker: locked, permit: { left: 0, opensAtMs: nowMs + AGAIN_MS }, isBusy: true }
  }
  const current = yield* breakerRows.bringUpToDate(tx, locked, nowMs)
  return { breaker: current, permit: yield* permitOf(tx, current, nowMs), isBusy: false }
}

/** The breaker changed after this claim began: the jobs it took would seem to be from before the change. */
function* isOvertaken(tx: Tx, { state, lastProbe }: Breaker, nowMs: number): Script<boolean> {
  const changedAtMs = Math.max(state.sinceMs, lastProbe?.atMs ?? 0)
  // Otherwise the clock was set back.
  return changedAtMs > nowMs && (yield* tx.now()) >= changedAtMs
}

function* permitOf(tx: Tx, breaker: Breaker, nowMs: number): Script<Permit | null> {
  const allowed = callsAllowed(breaker, nowMs)
  if (allowed === null) return null
  const opensAtMs = nextChangeAtMs(breaker, nowMs)
  if (allowed === 0) return { left: 0, opensAtMs }
  const { status, sinceMs } = breaker.state
  const underWay = yield* breakerRows.underWay(tx, breaker.name, nowMs, status === 'half-open' ? sinceMs : 0)
  return { left: Math.max(0, allowed - underWay), opensAtMs }
}

/**
 * With `hold`, a claim gets as many jobs as calls are allowed. With `fail-fast` it gets all of them, and those without a
 * permit must fail. The ramp holds jobs back in either mode: the dependency is back, so no job should fail for it.
 */
function limitByBreaker(
  gate: LaneGate,
  { mode }: BreakerPolicy,
  { breaker, permit, isBusy }: AskedBreaker,
  nowMs: number,
): void {
  gate.guard = { epoch: breaker.epoch, why: whyHeld(breaker, nowMs) }
  if (permit === null) return
  if (mode === 'hold' || isBusy || effectiveStatus(breaker, nowMs) === 'closed') gate.permits.push(permit)
  else gate.callPermit = permit
}

function* shutByBreaker(tx: Tx, { guards, mode }: BreakerPolicy, nowMs: number): Script<Permit | null> {
  const stored = yield* breakerRows.stored(tx, guards, nowMs)
  if (stored === null) return null
  const breaker = breakerAsOf(stored, nowMs)
  const mayFail = mode === 'fail-fast' && effectiveStatus(breaker, nowMs) !== 'closed'
  const permit = mayFail ? null : yield* permitOf(tx, breaker, nowMs)
  return permit === null || permit.left > 0 ? null : permit
}
