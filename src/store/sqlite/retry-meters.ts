import type { Change } from '../../core/change.ts'
import { depositFor, overBudget, payRetry } from '../../core/retry-budget.ts'
import type { Lease } from '../store.ts'
import { type Meters, retryMeter } from './meters.ts'
import type { Types } from './types.ts'

type Requeue = Extract<Change, { to: 'queued' }>

/** What a retry costs, and what it makes of the change. */
interface PricedRetry {
  change: Requeue
  /** Called once the change is made: a write that came too late pays nothing. */
  pay(): void
}

export type RetryMeters = ReturnType<typeof openRetryMeters>

/** `policy.retry.budget`: first dispatches pay in, retries pay out. */
export function openRetryMeters(meters: Meters, types: Types) {
  return {
    /** One write per claim and type, and none while the budget is full. */
    depositFor(leases: readonly Lease[], typeKeys: readonly number[], nowMs: number): void {
      for (const key of typeKeys) {
        const { name, policy } = types.byKey(key)
        const { budget } = policy.retry
        if (budget === null || budget.ratio === 0) continue
        const firsts = leases.reduce((sum, lease) => sum + Number(lease.type === name && lease.attempt === 1), 0)
        if (firsts === 0) continue
        const before = meters.get(retryMeter(name))
        if (before !== null) meters.set(retryMeter(name), depositFor(firsts, before, budget, nowMs))
      }
    },

    /** A retry over the budget is neither lost nor failed: it waits longer, and its event says why. */
    price(change: Requeue, nowMs: number): PricedRetry {
      const { budget } = change
      if (budget === undefined) return { change, pay: () => undefined }
      const name = retryMeter(budget.type)
      const { meter, addedMs } = payRetry(meters.get(name), budget, nowMs)
      const pay = () => meters.set(name, meter)
      if (addedMs === 0) return { change, pay }
      return { change: { ...change, delayMs: change.delayMs + addedMs, note: overBudget(budget.type, addedMs) }, pay }
    },
  }
}
