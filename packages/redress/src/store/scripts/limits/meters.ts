import type { Change } from '../../../core/job/change.ts'
import { type Meter, refilledAfterMs } from '../../../core/limits/rate.ts'
import { depositFor, overBudget, payRetry } from '../../../core/limits/retry-budget.ts'
import type { RatePolicy, RetryBudgetPolicy } from '../../../core/policy/flow.ts'
import type { Lease } from '../../contract/store.ts'
import type { KnownType } from '../jobs/types.ts'
import type { Tx } from '../tx/context.ts'
import type { Script } from '../tx/script.ts'

/** The name of a bucket. A type's name contains no space, so a key is never part of it. */
export const rateMeter = (type: string, limitKey: string | null): string =>
  limitKey === null ? `rate:${type}` : `rate:${type} ${limitKey}`
const retryMeter = (type: string): string => `retry:${type}`

interface MeterRow {
  name: string
  tokens: number
  at: number
}

/**
 * Buckets of tokens, shared by every process. A transaction that takes from a bucket also holds the lock of its name: a
 * full bucket has no row that could be locked.
 */
export const meters = {
  *get(tx: Tx, name: string): Script<Meter | null> {
    const row = yield* tx.get<MeterRow>`SELECT tokens, at FROM meters WHERE name = ${name}`
    return row === undefined ? null : { tokens: row.tokens, atMs: row.at }
  },

  *getMany(tx: Tx, names: readonly string[]): Script<Map<string, Meter>> {
    const [first, ...others] = names
    if (first === undefined) return new Map()
    if (others.length === 0) {
      const meter = yield* meters.get(tx, first)
      return new Map(meter === null ? [] : [[first, meter]])
    }
    const rows = yield* tx.all<MeterRow>`SELECT name, tokens, at FROM meters WHERE name ${tx.dialect.inTexts(names)}`
    return new Map(rows.map(({ name, tokens, at }) => [name, { tokens, atMs: at }]))
  },

  /** null: the bucket is full and needs no row. */
  *set(tx: Tx, name: string, meter: Meter | null): Script<void> {
    if (meter === null) yield* tx.run`DELETE FROM meters WHERE name = ${name}`
    else
      yield* tx.run`
        INSERT INTO meters (name, tokens, at) VALUES (${name}, ${meter.tokens}, ${meter.atMs})
        ON CONFLICT (name) DO UPDATE SET tokens = excluded.tokens, at = excluded.at`
  },

  *setMany(tx: Tx, changed: ReadonlyMap<string, Meter | null>): Script<void> {
    // SQLite has no round trip to save.
    if (changed.size <= tx.dialect.choose({ sqlite: Number.POSITIVE_INFINITY, postgres: 1 })) {
      for (const [name, meter] of changed) yield* meters.set(tx, name, meter)
      return
    }
    // Sorted by name, like every change of several: two transactions cannot wait for each other.
    const sorted = [...changed].toSorted(([a], [b]) => (a < b ? -1 : 1))
    const full = sorted.flatMap(([name, meter]) => (meter === null ? [name] : []))
    const rest = sorted.flatMap(([name, meter]) =>
      meter === null ? [] : [{ name, tokens: meter.tokens, at: meter.atMs }],
    )
    if (full.length > 0) yield* tx.run`DELETE FROM meters WHERE name ${tx.dialect.inTexts(full)}`
    if (rest.length === 0) return
    yield* tx.run`
      INSERT INTO meters (name, tokens, at)
      SELECT name, tokens, at
      FROM ${tx.dialect.table({ name: 'text', tokens: 'float8', at: 'bigint' }, rest)} AS given WHERE true
      ON CONFLICT (name) DO UPDATE SET tokens = excluded.tokens, at = excluded.at`
  },

  /** Buckets of keys that were not used for long are full again and need no row. */
  *forgetFull(tx: Tx, type: string, rate: RatePolicy | null, nowMs: number): Script<void> {
    const atMs = rate === null ? nowMs : nowMs - refilledAfterMs(rate)
    yield* tx.run`DELETE FROM meters WHERE name > ${`rate:${type} `} AND name < ${`rate:${type}!`} AND at <= ${atMs}`
  },
} as const

type Requeue = Extract<Change, { to: 'queued' }>

export interface PricedRetries {
  /** In the order in which they were asked for. A retry over the budget waits longer, and its event says why. */
  changes: readonly Requeue[]
  /** The budgets afterwards. A change that comes too late pays nothing, so the caller writes them with `pay`. */
  paid: ReadonlyMap<string, Meter>
}

const NOTHING_PAID: ReadonlyMap<string, Meter> = new Map()

/** Transactions may reach a meter out of order by this much. A larger difference means that the clock was set back. */
const OVERTAKEN_MS_MAX = 30_000

/** Whether claims of this type add to its retry budget. */
export const addsToBudget = ({ policy }: KnownType): boolean => (policy.retry.budget?.ratio ?? 0) > 0

/** `policy.retry.budget`: first dispatches pay in, retries pay out. */
export const retryMeters = {
  *price(tx: Tx, asked: readonly Requeue[], nowMs: number): Script<PricedRetries> {
    const names = new Set(asked.flatMap(({ budget }) => (budget === undefined ? [] : [retryMeter(budget.type)])))
    if (names.size === 0) return { changes: asked, paid: NOTHING_PAID }
    const before = yield* hold(tx, [...names])
    const paid = new Map<string, Meter>()
    const changes = asked.map((change) => {
      const { budget } = change
      if (budget === undefined) return change
      const name = retryMeter(budget.type)
      const last = paid.get(name) ?? before.get(name) ?? null
      const { meter, addedMs } = payRetry(last, budget, notBefore(last, nowMs))
      paid.set(name, meter)
      if (addedMs === 0) return change
      return { ...change, delayMs: change.delayMs + addedMs, note: overBudget(budget.type, addedMs) }
    })
    return { changes, paid }
  },

  pay: (tx: Tx, { paid }: PricedRetries): Script<void> => meters.setMany(tx, paid),

  /** At most one write per claim, and none while the budgets are full. */
  *depositFor(tx: Tx, leases: readonly Lease[], types: readonly KnownType[], nowMs: number): Script<void> {
    const paying = types.filter(addsToBudget).flatMap(({ name, policy }) => {
      const firsts = leases.reduce((sum, lease) => sum + Number(lease.type === name && lease.attempt === 1), 0)
      const budget = policy.retry.budget as RetryBudgetPolicy
      return firsts === 0 ? [] : [{ meter: retryMeter(name), budget, firsts }]
    })
    if (paying.length === 0) return
    // Most budgets are full, and a full budget is not worth waiting for its lock.
    const names = paying.map(({ meter }) => meter)
    const used = yield* meters.getMany(tx, names)
    if (used.size === 0) return
    const held = yield* hold(tx, [...used.keys()])
    const after = new Map<string, Meter | null>()
    for (const { meter, budget, firsts } of paying) {
      const before = held.get(meter)
      if (before !== undefined) after.set(meter, depositFor(firsts, before, budget, notBefore(before, nowMs)))
    }
    yield* meters.setMany(tx, after)
  },
} as const

/** Until the end of the transaction, no other one changes these meters. */
function* hold(tx: Tx, names: readonly string[]): Script<Map<string, Meter>> {
  const [, held] = yield* tx.together(tx.lock(names), meters.getMany(tx, names))
  return held
}

const notBefore = (meter: Meter | null, nowMs: number): number =>
  meter !== null && meter.atMs > nowMs && meter.atMs - nowMs < OVERTAKEN_MS_MAX ? meter.atMs : nowMs
