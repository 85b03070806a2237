import { expect } from 'vitest'
import type { JobEvent } from '../../src/core/job/events.ts'
import { EDGES, type EdgeCause, TERMINAL } from '../../src/core/job/states.ts'
import { unpackSpent } from '../../src/core/policy/budget.ts'
import { checkJob } from '../../src/store/conformance/index.ts'
import type { DedupeScope, JobRow } from '../../src/store/contract/store.ts'

/** What must hold of every job, at any time and from one moment to the next. */

/** What may have moved a job in one step. */
export type Cause = EdgeCause | 'changed' | 'none'

export function checkAlone(row: JobRow, events: readonly JobEvent[]): void {
  checkJob(row, events)
  checkBudgets(row)
}

function checkBudgets(row: JobRow): void {
  const { policy } = row
  const spent = unpackSpent(row.spent)
  // A manual retry that keeps the budget gives one attempt beyond it.
  const extra = policy.manualRetry.budget === 'keep' ? spent.manualRetries : 0
  expect(spent.failures, 'failures exceed retry.max').toBeLessThanOrEqual(policy.retry.max + extra)
  expect(spent.reclaims, 'reclaims exceed orphan.maxReclaims').toBeLessThanOrEqual(policy.orphan.maxReclaims)
  const counted = Object.values(spent.byCode).reduce((sum, count) => sum + count, 0)
  expect(counted, 'failures by code do not add up').toBe(spent.failures)
}

export function checkMove(before: JobRow, after: JobRow, cause: Cause): void {
  const path = `${before.id}: ${before.status} -> ${after.status} by ${cause}`
  expect(after.attempt, path).toBe(before.attempt + (cause === 'claim' ? 1 : 0))
  expect([after.createdAtMs, after.type, after.key], path).toEqual([before.createdAtMs, before.type, before.key])
  const isChanged = cause === 'changed'
  if (!isChanged || before.attempt > 0) expect(after.payload, `${path}: the input`).toBe(before.payload)
  if (!isChanged) expect(after.priority, `${path}: the priority`).toBe(before.priority)
  checkSpent(before, after, cause, path)
  if (before.status === after.status) {
    if (TERMINAL.has(before.status)) expect(after, `${path}: a finished job changed`).toEqual(before)
    return
  }
  const edge = EDGES.find(({ from, to, by }) => from === before.status && to === after.status && by === cause)
  expect(edge, `${path} is not an edge of the state machine`).toBeDefined()
  expect(before.isForwardOnly && edge?.backward === true, `${path}: a forward-only job went back`).toBe(false)
}

/** Each cause spends its own budget, and only its own. */
function checkSpent(before: JobRow, after: JobRow, cause: Cause, path: string): void {
  const [was, is] = [unpackSpent(before.spent), unpackSpent(after.spent)]
  const { manualRetry, orphan } = before.policy
  if (cause === 'manual-retry') {
    expect(is.manualRetries, path).toBe(was.manualRetries + 1)
    expect(is.failures, path).toBe(manualRetry.budget === 'keep' ? was.failures : 0)
    return
  }
  const grown = (field: 'failures' | 'reclaims' | 'releases' | 'snoozes' | 'manualRetries') => is[field] - was[field]
  const isConsumed = cause === 'reclaim' && orphan.budget === 'consume' && grown('reclaims') === 1
  const [least, most] =
    cause === 'close' && after.status === 'failed' ? [0, 1] : cause === 'retry' || isConsumed ? [1, 1] : [0, 0]
  expect(grown('failures'), `${path}: failures`).toBeGreaterThanOrEqual(least)
  expect(grown('failures'), `${path}: failures`).toBeLessThanOrEqual(most)
  // One that never started was given back, not taken from a lost worker.
  const isUnstarted = cause === 'reclaim' && before.startedAtMs === null
  expect(grown('reclaims'), `${path}: reclaims`).toBe(cause === 'reclaim' && !isUnstarted ? 1 : 0)
  expect(grown('releases'), `${path}: releases`).toBe(cause === 'release' || isUnstarted ? 1 : 0)
  expect(grown('snoozes'), `${path}: snoozes`).toBe(cause === 'snooze' ? 1 : 0)
  expect(grown('manualRetries'), `${path}: manual retries`).toBe(0)
}

/** Who a dedupe key belongs to. */
export function holdsKey({ status }: Pick<JobRow, 'status'>, scope: DedupeScope): boolean {
  return scope === 'always' || (status !== 'failed' && status !== 'cancelled')
}
