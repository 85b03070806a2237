import { engineFailure } from '../../src/core/failure/capture.ts'
import type { DecidedFailure } from '../../src/core/job/change.ts'
import { packSpent, spendManualRetry, unpackSpent } from '../../src/core/policy/budget.ts'
import type { Intervention, JobRow } from '../../src/store/contract/store.ts'
import type { Cause } from './laws.ts'
import type { Act } from './steps.ts'

/** The acts of a person on a page that may be old. */

export function someFailure(type: string, code: string): Omit<DecidedFailure, 'decision'> {
  return { ...engineFailure({ code: 'UNKNOWN', phase: 'execution', type, detail: 'a test' }), code }
}

export function causeOfAct(kind: Intervention['act']['kind'], { status }: JobRow): Cause {
  const causes = { 'retry-in-place': 'manual-retry', cancel: 'cancel', 'request-cancel': 'none' } as const
  if (kind === 'reprioritise' || kind === 'replace-input') return 'changed'
  // A job that is due already, or that gets the time it has, stays as it was.
  if (kind === 'reschedule' || kind === 'promote') return 'none'
  if (kind !== 'mark-failed') return causes[kind]
  return status === 'queued' ? 'mark-failed' : 'close'
}

export function actFor(act: Act, page: JobRow): Intervention['act'] | null {
  const { status, policy: each } = page
  const spent = unpackSpent(page.spent)
  if (act === 'retry') {
    if (status !== 'failed' || each.manualRetry.mode !== 'in-place') return null
    return { kind: 'retry-in-place', spent: packSpent(spendManualRetry(spent, page.attempt, each.manualRetry.budget)) }
  }
  if (act === 'postpone' || act === 'promote' || act === 'reprioritise' || act === 'replace-input') {
    if (status !== 'queued') return null
    const changes = {
      postpone: { kind: 'reschedule', to: { delayMs: 7_000 + page.priority } },
      promote: { kind: 'promote' },
      reprioritise: { kind: 'reprioritise', priority: page.priority + 1 },
      'replace-input': { kind: 'replace-input', payload: `[${page.payload}]`, limitKey: null },
    } as const
    return changes[act]
  }
  if (status !== 'queued' && status !== 'processing') return null
  if (act === 'cancel') {
    if (!each.cancel) return null
    return status === 'queued' ? { kind: 'cancel' } : { kind: 'request-cancel' }
  }
  const decision = { because: 'a person', rule: 'person', budget: { name: 'none', before: 0, after: 0, max: 0 } }
  const failure = { ...someFailure(page.type, 'MARKED_FAILED'), decision }
  return { kind: 'mark-failed', failure, spent: page.spent, deadLetter: each.deadLetter }
}
