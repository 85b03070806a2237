import type { RetryBudgetPolicy } from '../policy/flow.ts'
import { DURATION_MS_MAX, formatMs, MINUTE_MS } from '../text/duration.ts'
import type { Meter } from './rate.ts'

/** Whose budget a retry is paid from. */
export interface RetryBudget extends RetryBudgetPolicy {
  type: string
}

/** Less than this is what floating point makes of nothing. */
const TOKENS_MIN = 1e-9

/**
 * Retries are paid with tokens. `perMinute` of them flow in by themselves, and `ratio` with every first dispatch, up
 * to a minute's worth: an hour without failures must not save up for a storm of retries.
 */
const capacityOf = ({ perMinute }: RetryBudgetPolicy): number => Math.max(1, perMinute)

function balanceAt(meter: Meter | null, budget: RetryBudgetPolicy, nowMs: number): number {
  const capacity = capacityOf(budget)
  if (meter === null) return capacity
  const elapsedMs = Math.max(0, nowMs - meter.atMs)
  return Math.min(capacity, meter.tokens + (elapsedMs * budget.perMinute) / MINUTE_MS)
}

/** The budget after so many first dispatches; null when it is full, so that nothing need be remembered. */
export function depositFor(
  firstDispatches: number,
  meter: Meter | null,
  budget: RetryBudgetPolicy,
  nowMs: number,
): Meter | null {
  if (meter === null) return null
  const tokens = balanceAt(meter, budget, nowMs) + budget.ratio * firstDispatches
  return tokens >= capacityOf(budget) ? null : { tokens, atMs: nowMs }
}

/**
 * Pays for one retry. A budget that is used up goes into debt instead of refusing: the retry waits for as long as
 * `perMinute` alone needs to repay what is owed, so that each one over the budget waits longer than the one before.
 */
export function payRetry(
  meter: Meter | null,
  budget: RetryBudgetPolicy,
  nowMs: number,
): { meter: Meter; addedMs: number } {
  const tokens = balanceAt(meter, budget, nowMs) - 1
  const addedMs = tokens > -TOKENS_MIN ? 0 : Math.ceil((-tokens * MINUTE_MS) / budget.perMinute - TOKENS_MIN)
  return { meter: { tokens, atMs: nowMs }, addedMs: Math.min(addedMs, DURATION_MS_MAX) }
}

export const overBudget = (type: string, addedMs: number): string =>
  `the retry budget of ${type} is used up: ${formatMs(addedMs)} added`
