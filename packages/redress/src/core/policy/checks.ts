import { EDGES, type Edge, type EdgeCause } from '../job/states.ts'
import { editDistance } from '../text/names.ts'
import { backoffMs } from './backoff.ts'
import type { Policy } from './policy.ts'

/** Two fields that cannot both mean what they say. Named as the author writes them, with the reason. */
interface Contradiction {
  fields: readonly [string, string]
  contradicts(policy: Policy): boolean
  why: string
}

/**
 * Not here, on purpose: `retry.max > 1` without a backoff (it means "at once"), and `shutdown: 'fail'` with
 * `retry.max > 1` (odd, but the author may know that a half-done encode must not be picked up by a new version).
 */
export const CONTRADICTIONS: readonly Contradiction[] = [
  {
    fields: ['forwardOnly', 'retry.max'],
    contradicts: ({ forwardOnly, retry }) => forwardOnly && retry.max > 1,
    why: 'a retry goes back to queued, and forwardOnly removes every way back',
  },
  {
    fields: ['forwardOnly', 'manualRetry.mode'],
    contradicts: ({ forwardOnly, manualRetry }) => forwardOnly && manualRetry.mode === 'in-place',
    why: "an in-place retry takes a failed job back to queued; with forwardOnly a person retries as 'new-job'",
  },
  {
    fields: ['forwardOnly', 'orphan.action'],
    contradicts: ({ forwardOnly, orphan }) => forwardOnly && orphan.action === 'requeue',
    why: 'requeueing an orphan takes it back to queued, and forwardOnly removes every way back',
  },
  {
    fields: ['forwardOnly', 'shutdown'],
    contradicts: ({ forwardOnly, shutdown }) => forwardOnly && shutdown === 'requeue',
    why: 'a shutdown that requeues takes jobs back to queued, and forwardOnly removes every way back',
  },
  {
    fields: ['retry.perCode', 'retry.max'],
    contradicts: ({ retry }) => retry.max > 1 && Object.values(retry.perCode).some((max) => max > retry.max),
    why: 'a code cannot be tried more often than the job itself; the larger number would never be reached',
  },
  {
    fields: ['retry.perCode', 'retry.max'],
    contradicts: ({ retry }) => retry.max === 1 && Object.keys(retry.perCode).length > 0,
    why: 'retry.max 1 never retries, so a limit per code can never apply',
  },
  {
    fields: ['retry.backoff', 'retry.max'],
    contradicts: ({ retry }) => retry.max === 1 && retry.backoff !== null,
    why: 'retry.max 1 never retries, so there is nothing to wait for',
  },
  {
    fields: ['retry.unknown', 'retry.max'],
    contradicts: ({ retry }) => retry.max === 1 && retry.unknown === 'transient',
    why: 'retry.max 1 never retries, so an unclassified failure cannot be retried as transient',
  },
  {
    fields: ['retry.unknown', 'deadLetter'],
    contradicts: ({ retry, deadLetter }) => retry.unknown === 'dead-letter' && deadLetter === 'none',
    why: "an unclassified failure must become a dead letter, and deadLetter 'none' keeps no dead letters",
  },
  {
    fields: ['retry.backoff', 'timeout.total'],
    contradicts: ({ retry, timeout }) =>
      retry.backoff !== null && timeout.totalMs !== null && backoffMs(retry.backoff, 0, 0).delayMs >= timeout.totalMs,
    why: 'the first delay is as long as the whole time allowed, so no retry could ever begin',
  },
  {
    fields: ['manualRetry.mode', 'deadLetter'],
    contradicts: ({ manualRetry, deadLetter }) => manualRetry.mode === 'in-place' && deadLetter === 'queue',
    why: 'a dead letter is replayed from its queue; an in-place retry would be a second way back for the same job',
  },
  {
    fields: ['manualRetry.budget', 'manualRetry.mode'],
    contradicts: ({ manualRetry }) => manualRetry.budget === 'keep' && manualRetry.mode !== 'in-place',
    why: 'only an in-place retry has a budget to keep; a new job begins with its own',
  },
  {
    fields: ['orphan.budget', 'orphan.action'],
    contradicts: ({ orphan }) => orphan.budget === 'consume' && orphan.action !== 'requeue',
    why: 'only a requeue spends a budget; a report or a final failure spends nothing',
  },
  {
    fields: ['orphan.budget', 'retry.max'],
    contradicts: ({ orphan, retry }) => orphan.budget === 'consume' && orphan.action === 'requeue' && retry.max === 1,
    why: 'the first lost worker would consume the only attempt, so no orphan could ever be requeued',
  },
  {
    fields: ['orphan.stuckAfter', 'orphan.action'],
    contradicts: ({ orphan }) => orphan.stuckAfterMs !== null && orphan.action !== 'requeue',
    why: "only a requeue takes a stuck attempt back; where it must fail, 'timeout.attempt' ends it",
  },
  {
    fields: ['orphan.stuckAfter', 'timeout.attempt'],
    contradicts: ({ orphan, timeout }) =>
      orphan.stuckAfterMs !== null && timeout.attemptMs !== null && orphan.stuckAfterMs >= timeout.attemptMs,
    why: 'the attempt would always have ended at its time limit before it counts as stuck',
  },
  {
    fields: ['timeout.attempt', 'timeout.total'],
    contradicts: ({ timeout }) =>
      timeout.attemptMs !== null && timeout.totalMs !== null && timeout.attemptMs > timeout.totalMs,
    why: 'one attempt may not last longer than all of them together',
  },
  {
    fields: ['retry.budget', 'retry.max'],
    contradicts: ({ retry }) => retry.max === 1 && retry.budget !== null,
    why: 'retry.max 1 never retries, so there are no retries to limit',
  },
  {
    fields: ['breaker.minCalls', 'breaker.windowCalls'],
    contradicts: ({ breaker }) => breaker !== null && breaker.minCalls > breaker.windowCalls,
    why: 'the window never holds as many calls as are needed, so the breaker could never open',
  },
  {
    fields: ['breaker.code', 'breaker.mode'],
    contradicts: ({ breaker }) => breaker !== null && breaker.mode === 'hold' && breaker.code !== null,
    why: 'a breaker that holds fails no job, so it needs no code',
  },
  {
    fields: ['concurrency.perKey', 'concurrency.max'],
    contradicts: ({ concurrency: { max, perKey } }) => max !== null && perKey !== null && perKey > max,
    why: 'one key cannot have more running at once than the whole type',
  },
  {
    fields: ['notify', 'aggregates'],
    contradicts: ({ notify, aggregates }) => !aggregates && notify.windowMs > 0 && notify.failed.length > 0,
    why: 'one notice per window is an aggregate; with aggregates: false every failure needs its own notice (window: 0)',
  },
]

export function contradictionsOf(policy: Policy): string[] {
  return CONTRADICTIONS.filter((row) => row.contradicts(policy)).map(
    ({ fields: [one, other], why }) => `${one} contradicts ${other}: ${why}`,
  )
}

const ALLOWS: Readonly<Partial<Record<EdgeCause, (policy: Policy) => boolean>>> = {
  retry: ({ retry }) => retry.max > 1,
  reclaim: ({ orphan }) => orphan.action === 'requeue',
  // Also how a stopping worker gives back jobs it had claimed ahead and never started. Without this edge it could
  // give nothing back, so it must not claim ahead.
  release: ({ shutdown }) => shutdown === 'requeue',
  'manual-retry': ({ manualRetry }) => manualRetry.mode === 'in-place',
  cancel: ({ cancel }) => cancel,
}

/** The state machine that is left under this policy; the store refuses every other edge. */
export function edgesOf(policy: Policy): readonly Edge[] {
  return EDGES.filter((edge) => !(policy.forwardOnly && edge.backward) && (ALLOWS[edge.by]?.(policy) ?? true))
}

const endless = (ms: number | null): number => ms ?? Number.POSITIVE_INFINITY

/** How strict a policy is in each field; less is weaker. */
const STRICTNESS: readonly [field: string, of: (policy: Policy) => number, weaker: string][] = [
  ['locked', (p) => Number(p.locked), 'the lock itself is dropped'],
  ['forwardOnly', (p) => Number(p.forwardOnly), 'ways back may be added'],
  ['retry.max', (p) => -p.retry.max, 'more attempts are made'],
  ['retry.unknown', (p) => -Number(p.retry.unknown === 'transient'), 'unclassified failures are retried'],
  ['manualRetry.mode', (p) => ['in-place', 'new-job', 'off'].indexOf(p.manualRetry.mode), 'a person may do more'],
  ['manualRetry.budget', (p) => Number(p.manualRetry.budget === 'keep'), 'a manual retry brings new attempts'],
  ['orphan.action', (p) => ['requeue', 'fail', 'report'].indexOf(p.orphan.action), 'a person is no longer asked'],
  ['orphan.budget', (p) => Number(p.orphan.budget === 'consume'), 'lost workers no longer count'],
  ['orphan.maxReclaims', (p) => -p.orphan.maxReclaims, 'more lost workers are overlooked'],
  ['orphan.stuckAfter', (p) => -endless(p.orphan.stuckAfterMs), 'a stuck attempt is noticed later'],
  ['lease.startTimeout', (p) => -endless(p.lease.startTimeoutMs), 'a job that never starts is noticed later'],
  ['timeout.attempt', (p) => -endless(p.timeout.attemptMs), 'an attempt may last longer'],
  ['timeout.total', (p) => -endless(p.timeout.totalMs), 'a job may last longer'],
  ['deadLetter', (p) => ['none', 'flag', 'queue'].indexOf(p.deadLetter), 'failed jobs are no longer set aside'],
  ['reject', (p) => Number(p.reject === 'record'), 'rejected submissions leave no record'],
  ['audit', (p) => Number(p.audit === 'write-ahead'), 'the failure log is no longer written first'],
  ['aggregates', (p) => -Number(p.aggregates), 'single failures disappear in rates'],
  ['cancel', (p) => -Number(p.cancel), 'a job may end neither complete nor failed'],
  ['retention.complete', (p) => endless(p.retention.completeMs), 'complete jobs are removed sooner'],
  ['retention.failed', (p) => endless(p.retention.failedMs), 'failed jobs are removed sooner'],
  ['retention.cancelled', (p) => endless(p.retention.cancelledMs), 'cancelled jobs are removed sooner'],
  ['retention.deadLetters', (p) => endless(p.retention.deadLettersMs), 'dead letters are removed sooner'],
  ['rollup', (p) => Number(p.rollup === 'all-or-nothing'), 'a batch with failed jobs may count as more than failed'],
]

/** Why `next` may not replace the policy in force; empty when it may. A policy that is not locked protects nothing. */
export function weakens(locked: Policy, next: Policy): string[] {
  if (!locked.locked) return []
  const kept = edgesOf(locked)
  const added = edgesOf(next).filter((edge) => !kept.includes(edge))
  const weaker = STRICTNESS.filter(([, of]) => of(next) < of(locked))
  const codes = Object.entries(locked.retry.perCode).filter(([code, max]) => maxOf(next, code) > max)
  return [
    ...added.map((edge) => `adds the edge ${edge.from} -> ${edge.to} (${edge.by})`),
    ...weaker.map(([field, , why]) => `${field}: ${why}`),
    ...codes.map(([code]) => `retry.perCode.${code}: this code is tried more often`),
  ]
}

function maxOf({ retry }: Policy, code: string): number {
  return Object.hasOwn(retry.perCode, code) ? (retry.perCode[code] ?? retry.max) : retry.max
}

/** By the last part of the name, so that `ttl` finds `lease.ttl`; a field of the same section wins a tie. */
export function nearestField(field: string, known: readonly string[]): string {
  const [name, section] = split(field)
  const distance = (candidate: string): number => {
    const [itsName, itsSection] = split(candidate)
    return editDistance(name, itsName) + (section === itsSection ? 0 : 0.5)
  }
  return known.reduce((best, candidate) => (distance(candidate) < distance(best) ? candidate : best))
}

function split(field: string): [name: string, section: string] {
  const dot = field.lastIndexOf('.')
  return [field.slice(dot + 1).toLowerCase(), field.slice(0, Math.max(0, dot))]
}
