import { RedressError } from '../../core/errors.ts'
import { AttemptStuck, AttemptTimeout, OutputInvalid, TotalTimeout } from '../../core/failure/attempt-failed.ts'
import { type Captured, captureFailure, engineFailure } from '../../core/failure/capture.ts'
import { isInstance } from '../../core/failure/facts.ts'
import type { Phase } from '../../core/failure/failure.ts'
import type { StageRecord } from '../../core/failure/stage.ts'
import type { Taxonomy } from '../../core/failure/taxonomy.ts'
import type { Change } from '../../core/job/change.ts'
import { ResultInvalid } from '../../core/job/result.ts'
import type { RetryBudget } from '../../core/limits/retry-budget.ts'
import { withNotices } from '../../core/notice/notice.ts'
import { addTries, packSpent, spendRelease, spendSnooze, unpackSpent } from '../../core/policy/budget.ts'
import { decide, decideExpired, decideOrphan } from '../../core/policy/decide.ts'
import type { Policy } from '../../core/policy/policy.ts'
import { formatMs, isoTime } from '../../core/text/duration.ts'
import type { Close, Reclaim } from '../../store/contract/store.ts'
import { Attempt, Cancelled, ShuttingDown, Snoozed } from './attempt.ts'
import type { Flight } from './flight.ts'
import type { GivenUp } from './stage.ts'

/** The outcome of an attempt, before the policy decides. */
export type Outcome =
  | { kind: 'succeeded'; result: string | null }
  | { kind: 'failed'; phase: 'dispatch' | 'execution' | 'verification'; thrown: unknown }
  /** The worker ended it, and its handler may still run. */
  | { kind: 'interrupted'; reason: unknown }

/** Turns an outcome into the change to record. Pure: time and chance are arguments. */
export function changeFor(flight: Flight, outcome: Outcome, monoMs: number, chance: number): Change {
  const change = changeOf(flight, outcome, monoMs, chance)
  const stages = Attempt.stagesOf(flight.attempt)
  return stages === null ? change : { ...change, stages }
}

function changeOf(flight: Flight, outcome: Outcome, monoMs: number, chance: number): Change {
  if (outcome.kind === 'succeeded') return { to: 'complete', result: outcome.result }
  const thrown = outcome.kind === 'failed' ? outcome.thrown : outcome.reason
  // A failure before the attempt began is a dispatch failure.
  const phase = flight.startedMonoMs === null ? 'dispatch' : outcome.kind === 'failed' ? outcome.phase : 'execution'
  const { stopReason } = flight
  if (stopReason instanceof Cancelled) return { to: 'cancelled', note: stopReason.message }
  if (stopReason instanceof ShuttingDown) return changeForShutdown(flight, monoMs, chance)
  if (isInstance(thrown, AttemptStuck)) return changeForStuck(flight, thrown, monoMs)
  if (isInstance(thrown, Snoozed)) return changeForSnooze(flight, thrown, monoMs, chance)
  const isTimeLimit = isInstance(thrown, AttemptTimeout) || isInstance(thrown, TotalTimeout)
  const givenUp = Attempt.givenUpWith(flight.attempt, thrown, isTimeLimit)
  return decided(flight, capture(flight, thrown, phase, monoMs, givenUp), monoMs, chance, givenUp?.final)
}

/** The worker stops and this attempt did not end in time. */
export function changeForShutdown(flight: Flight, monoMs: number, chance: number): Change {
  if (flight.handler.policy.shutdown === 'requeue') return release(flight, 'the worker stopped')
  const failure = engineFailure({
    code: 'SHUTDOWN',
    phase: flight.startedMonoMs === null ? 'dispatch' : 'execution',
    type: flight.lease.type,
    codes: flight.handler.codes,
    detail: 'the worker was told to stop, and the attempt did not end in the time it was given',
    context: Attempt.contextOf(flight.attempt) ?? undefined,
  })
  return decided(flight, { failure, retry: 'never', retryAfterMs: null }, monoMs, chance)
}

/** A job that expired before its worker could begin it. Null if it may begin. */
export function changeForExpired({ lease, handler }: Flight, storeNowMs: number): Failed | null {
  const { expiresAtMs } = lease
  if (expiresAtMs === null || storeNowMs < expiresAtMs) return null
  return expired({ ...lease, expiresAtMs }, handler.policy, handler.codes, storeNowMs)
}

type Failed = Extract<Change, { to: 'failed' }>

/** A job whose time to live was over before an attempt began. It costs no retry. */
export function expired(
  job: { type: string; spent: string | null; expiresAtMs: number },
  policy: Policy,
  codes: Taxonomy,
  nowMs: number,
): Failed {
  const { type, spent, expiresAtMs } = job
  const decision = decideExpired(unpackSpent(spent), policy)
  const detail = `no attempt had begun by ${isoTime(expiresAtMs)}, ${formatMs(nowMs - expiresAtMs)} before`
  const failure = engineFailure({ code: 'TTL_EXPIRED', phase: 'dispatch', type, codes, detail })
  const { deadLetter, isPermanent, reasons } = decision
  return { to: 'failed', spent, failure: { ...failure, decision: reasons }, deadLetter, isPermanent }
}

/** Its handler hangs in a live worker; the policy treats it like a lost worker. */
function changeForStuck(flight: Flight, { limitMs }: AttemptStuck, monoMs: number): Change {
  const { lease, handler } = flight
  const job = {
    ...lease,
    isStarted: true,
    isStuck: true,
    isCancelRequested: false,
    detail: `the attempt was still running after ${formatMs(limitMs)}; its worker told the handler to stop`,
    context: { ...Attempt.contextOf(flight.attempt), stuckAfterMs: limitMs },
  }
  const change = changeForLost(job, handler.policy, handler.codes, flight.storeNowMs(monoMs))
  if (change.to === 'orphaned') throw new Error('a policy with orphan.stuckAfter takes jobs back')
  return change
}

/** The process ends while it holds this attempt: the policy's rule for lost workers is applied at once. */
export function closeForExit(flight: Flight, exitCode: number, monoMs: number): Close[] {
  const { lease, handler, state } = flight
  // A closing attempt has its decision already; the recorder sends it.
  if (state.kind !== 'running' && state.kind !== 'buffered') return []
  const ranMs = flight.startedMonoMs === null ? null : monoMs - flight.startedMonoMs
  const job = {
    ...lease,
    isStarted: ranMs !== null,
    isCancelRequested: flight.stopReason instanceof Cancelled,
    detail: `the worker's process ended with exit code ${exitCode} while this attempt was running in it`,
    context: { exitCode },
  }
  const change = changeForLost(job, handler.policy, handler.codes, flight.storeNowMs(monoMs))
  // A mere report is left to maintenance: it finds the expired lease.
  if (change.to === 'orphaned') return []
  const { key, attempt, batch } = lease
  const report = flight.reports?.close() ?? null
  const close = { key, attempt, batch, change, ranMs, ...(report !== null && { report }) }
  return [withNotices(close, lease, handler.policy, '')]
}

/** Gives the job back; spends no retry. */
export function release(flight: Flight, note: string, delayMs = 0): Change {
  const spent = packSpent(spendRelease(unpackSpent(flight.lease.spent)))
  return { to: 'queued', cause: 'released', delayMs, spent, failure: null, note }
}

function changeForSnooze(flight: Flight, { delayMs, note }: Snoozed, monoMs: number, chance: number): Change {
  if (!flight.handler.policy.forwardOnly) {
    const spent = packSpent(spendSnooze(unpackSpent(flight.lease.spent)))
    return { to: 'queued', cause: 'snoozed', delayMs, spent, failure: null, note }
  }
  const failure = engineFailure({
    code: 'SNOOZE_REFUSED',
    phase: 'execution',
    type: flight.lease.type,
    codes: flight.handler.codes,
    detail: `the handler asked to wait ${formatMs(delayMs)}, but a job of this type only goes forward`,
  })
  return decided(flight, { failure, retry: 'never', retryAfterMs: null }, monoMs, chance)
}

function capture(flight: Flight, thrown: unknown, phase: Phase, monoMs: number, givenUp: GivenUp | null): Captured {
  const { codes, rules } = flight.handler
  const { type } = flight.lease
  // The payload no longer fits its schema: found by us, so no rule of the author's is asked.
  if (phase === 'dispatch' && isInstance(thrown, RedressError)) {
    const failure = engineFailure({ code: 'INPUT_INVALID', phase, type, codes, detail: describeProblems(thrown) })
    return { failure, retry: 'never', retryAfterMs: null }
  }
  if (isInstance(thrown, ResultInvalid)) {
    const failure = engineFailure({ code: 'RESULT_INVALID', phase, type, codes, detail: thrown.message })
    return { failure, retry: 'never', retryAfterMs: null }
  }
  if (isInstance(thrown, OutputInvalid)) {
    const detail = [thrown.message, ...thrown.problems].join('\n')
    const context = { problems: thrown.problems }
    const failure = engineFailure({ code: 'OUTPUT_INVALID', phase, type, codes, detail, context })
    // An author can make it worth a retry: a model that answers in prose may answer in JSON the next time.
    return { failure, retry: codes.OUTPUT_INVALID?.retry ?? 'never', retryAfterMs: null }
  }
  const nowMs = flight.storeNowMs(monoMs)
  const said = Attempt.contextOf(flight.attempt)
  if (said === null && givenUp === null) return captureFailure({ thrown, phase, type, codes, rules, nowMs })
  const context = { ...said, ...givenUp?.context }
  const captured = captureFailure({ thrown, phase, type, codes, rules: givenUp?.rules ?? rules, context, nowMs })
  if (givenUp === null) return captured
  const { failure } = captured
  return { ...captured, failure: { ...failure, context: { ...failure.context, stage: givenUp.record } } }
}

function decided(
  flight: Flight,
  captured: Captured,
  monoMs: number,
  chance: number,
  final: GivenUp['final'] = null,
): Change {
  const { lease, handler } = flight
  const { stage } = captured.failure.context as { stage?: Partial<StageRecord> }
  const spentBefore = addTries(unpackSpent(lease.spent), stage?.tries ?? 1)
  const job = { spent: spentBefore, attempt: lease.attempt, createdAtMs: lease.queuedAtMs }
  const facts = { code: captured.failure.code, retry: captured.retry, retryAfterMs: captured.retryAfterMs, final }
  const decision = decide(job, facts, handler.policy, flight.storeNowMs(monoMs), chance)
  const failure = { ...captured.failure, decision: decision.reasons }
  const spent = packSpent(decision.spent)
  return decision.kind === 'retry'
    ? { to: 'queued', cause: 'retry', delayMs: decision.delayMs, spent, failure, note: null, ...budgetOf(flight) }
    : { to: 'failed', spent, failure, deadLetter: decision.deadLetter, isPermanent: decision.isPermanent }
}

/** Types without a budget for retries pay nothing for one. */
function budgetOf({ lease, handler }: Flight): { budget?: RetryBudget } {
  const { budget } = handler.policy.retry
  return budget === null ? {} : { budget: { type: lease.type, ...budget } }
}

function describeProblems(error: RedressError): string {
  return [error.message, ...error.problems].join('\n')
}

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

/** The policy's decision about a job whose worker is lost, or that never started. */
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
      const failure = engineFailure({ code: decision.code, phase: decision.phase, type, codes, detail, context })
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
