import type { Change } from '../../core/change.ts'
import type { RetryBudgetPolicy } from '../../core/policy-flow.ts'
import type { Meter } from '../../core/rate.ts'
import { depositFor, overBudget, payRetry } from '../../core/retry-budget.ts'
import type { KnownType } from '../known-type.ts'
import type { Lease } from '../store.ts'
import type { Tx } from './client.ts'
import { lockNames } from './locks.ts'
import { type Meters, retryMeter } from './meters.ts'

type Requeue = Extract<Change, { to: 'queued' }>

/** What a retry costs, and what it makes of the change. */
interface PricedRetry {
  change: Requeue
  /** Called once the change is made: a write that came too late pays nothing. */
  pay(): void
}

/** The budgets of some retries, held until the end of the transaction. */
export interface RetryTill {
  /** In turn: what the one before paid, this one does not find. */
  price(change: Requeue): PricedRetry
  /** Writes down what was paid; once, after the last of them. */
  settle(): Promise<void>
}

export type RetryMeters = ReturnType<typeof openRetryMeters>

/** A transaction may come to a meter after one that began later; no more is made of it than that. */
const OVERTAKEN_MS_MAX = 30_000

/** `policy.retry.budget`: first dispatches pay in, retries pay out. */
export function openRetryMeters(meters: Meters) {
  const isPaidInto = ({ policy }: KnownType): boolean => (policy.retry.budget?.ratio ?? 0) > 0

  /** The meters of these types, held: nobody else pays in or out before the end of the transaction. */
  const hold = async (tx: Tx, names: readonly string[]): Promise<Map<string, Meter>> => {
    const [, held] = await Promise.all([lockNames(tx, names), meters.getMany(tx, names)])
    return held
  }

  const open = async (tx: Tx, changes: readonly Change[], nowMs: number): Promise<RetryTill> => {
    const budgets = changes.flatMap((change) => (change.to === 'queued' ? (change.budget ?? []) : []))
    const names = [...new Set(budgets.map(({ type }) => retryMeter(type)))]
    const held = names.length === 0 ? new Map<string, Meter>() : await hold(tx, names)
    const paid = new Map<string, Meter>()
    return {
      price(change) {
        const { budget } = change
        if (budget === undefined) return { change, pay: () => undefined }
        const name = retryMeter(budget.type)
        const before = paid.get(name) ?? held.get(name) ?? null
        const { meter, addedMs } = payRetry(before, budget, notBefore(before, nowMs))
        const pay = () => void paid.set(name, meter)
        if (addedMs === 0) return { change, pay }
        const note = overBudget(budget.type, addedMs)
        return { change: { ...change, delayMs: change.delayMs + addedMs, note }, pay }
      },
      settle: () => meters.setMany(tx, paid),
    }
  }

  return {
    /** Whether claims of this type pay in. */
    isPaidInto,

    /** One write per claim, and none while the budgets are full. */
    async depositFor(tx: Tx, leases: readonly Lease[], types: readonly KnownType[], nowMs: number): Promise<void> {
      const paying = types.filter(isPaidInto).flatMap(({ name, policy }) => {
        const firsts = leases.reduce((sum, lease) => sum + Number(lease.type === name && lease.attempt === 1), 0)
        return firsts === 0
          ? []
          : [{ meter: retryMeter(name), budget: policy.retry.budget as RetryBudgetPolicy, firsts }]
      })
      // Most are full, and what is full need not be waited for.
      const used = await meters.getMany(
        tx,
        paying.map(({ meter }) => meter),
      )
      if (used.size === 0) return
      const held = await hold(tx, [...used.keys()])
      const after = new Map<string, Meter | null>()
      for (const { meter, budget, firsts } of paying) {
        const before = held.get(meter)
        if (before !== undefined) after.set(meter, depositFor(firsts, before, budget, notBefore(before, nowMs)))
      }
      await meters.setMany(tx, after)
    },

    /** Opens the budgets that these changes are paid from; those without one cost nothing. */
    open,

    /** A retry over the budget is neither lost nor failed: it waits longer, and its event says why. */
    async price(tx: Tx, change: Requeue, nowMs: number): Promise<{ change: Requeue; pay(): Promise<void> }> {
      const till = await open(tx, [change], nowMs)
      const priced = till.price(change)
      const pay = (): Promise<void> => {
        priced.pay()
        return till.settle()
      }
      return { change: priced.change, pay }
    },
  }
}

const notBefore = (meter: Meter | null, nowMs: number): number =>
  meter !== null && meter.atMs > nowMs && meter.atMs - nowMs < OVERTAKEN_MS_MAX ? meter.atMs : nowMs
