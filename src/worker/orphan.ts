import { packSpent, unpackSpent } from '../core/budget.ts'
import { engineFailure } from '../core/capture.ts'
import { decideOrphan } from '../core/decide.ts'
import type { Policy } from '../core/policy.ts'
import type { Taxonomy } from '../core/taxonomy.ts'
import type { Reclaim } from '../store/store.ts'

export interface LostJob {
  type: string
  attempt: number
  spent: string | null
  queuedAtMs: number
  isStarted: boolean
  isStuck?: boolean
  isCancelRequested: boolean
  /** For the failure record, should there be one. */
  detail: string
  context: Record<string, unknown>
}

/** What the policy makes of a job whose worker is gone, or never began it. */
export function changeForLost(job: LostJob, policy: Policy, codes: Taxonomy, nowMs: number): Reclaim['change'] {
  const decision = decideOrphan(
    {
      spent: unpackSpent(job.spent),
      attempt: job.attempt,
      started: job.isStarted,
      stuck: job.isStuck === true,
      cancelRequested: job.isCancelRequested,
      createdAtMs: job.queuedAtMs,
    },
    policy,
    nowMs,
  )
  switch (decision.kind) {
    case 'report':
      return { to: 'orphaned' }
    case 'cancel':
      return { to: 'cancelled', note: decision.reasons.because }
    case 'requeue': {
      const spent = packSpent(decision.spent)
      return {
        to: 'queued',
        cause: 'reclaimed',
        delayMs: 0,
        spent,
        failure: null,
        note: `${decision.reasons.because}; ${job.detail}`,
      }
    }
    case 'fail': {
      const { type, detail, context } = job
      const failure = engineFailure({ code: decision.code, stage: decision.stage, type, codes, detail, context })
      return {
        to: 'failed',
        spent: packSpent(decision.spent),
        failure: { ...failure, decision: decision.reasons },
        deadLetter: decision.deadLetter,
        isPermanent: decision.code === 'QUARANTINED',
      }
    }
  }
}
