import { AttemptStuck, AttemptTimeout, TotalTimeout } from '../core/attempt-failed.ts'
import { addTries, packSpent, spendRelease, spendSnooze, unpackSpent } from '../core/budget.ts'
import { type Captured, captureFailure, engineFailure } from '../core/capture.ts'
import type { Change } from '../core/change.ts'
import { decide } from '../core/decide.ts'
import { formatMs } from '../core/duration.ts'
import { RedressError } from '../core/errors.ts'
import type { Stage } from '../core/failure.ts'
import type { RetryBudget } from '../core/retry-budget.ts'
import type { StageRecord } from '../core/stage.ts'
import type { Close } from '../store/store.ts'
import { Attempt } from './attempt.ts'
import type { Flight, Outcome } from './flight.ts'
import { isA } from './is-a.ts'
import { toldOf } from './notices.ts'
import { changeForLost } from './orphan.ts'
import { Cancelled, ShuttingDown, Snoozed } from './signals.ts'
import type { GivenUp } from './stage-book.ts'

/** Turns what happened into what is to be recorded. Pure but for the arguments it is given. */
export function changeFor(flight: Flight, outcome: Outcome, monoMs: number, chance: number): Change {
  const change = changeOf(flight, outcome, monoMs, chance)
  const stages = Attempt.stagesOf(flight.attempt)
  return stages === null ? change : { ...change, stages }
}

function changeOf(flight: Flight, outcome: Outcome, monoMs: number, chance: number): Change {
  if (outcome.kind === 'succeeded') return { to: 'complete', result: outcome.result }
  const { thrown, stage } = outcome
  const { stopReason } = flight
  if (stopReason instanceof Cancelled) return { to: 'cancelled', note: stopReason.message }
  if (stopReason instanceof ShuttingDown) return changeForShutdown(flight, monoMs, chance)
  if (isA(thrown, AttemptStuck)) return changeForStuck(flight, thrown, monoMs)
  if (isA(thrown, Snoozed)) return changeForSnooze(flight, thrown, monoMs, chance)
  const isTimeLimit = isA(thrown, AttemptTimeout) || isA(thrown, TotalTimeout)
  const givenUp = Attempt.givenUpWith(flight.attempt, thrown, isTimeLimit)
  return decided(flight, capture(flight, thrown, stage, monoMs, givenUp), monoMs, chance, givenUp?.final)
}

/** The worker stops and this attempt did not end in time. */
export function changeForShutdown(flight: Flight, monoMs: number, chance: number): Change {
  if (flight.handler.policy.shutdown === 'requeue') return release(flight, 'the worker stopped')
  const failure = engineFailure({
    code: 'SHUTDOWN',
    stage: flight.startedMonoMs === null ? 'dispatch' : 'execution',
    type: flight.lease.type,
    codes: flight.handler.codes,
    detail: 'the worker was told to stop, and the attempt did not end in the time it was given',
    context: Attempt.contextOf(flight.attempt) ?? undefined,
  })
  return decided(flight, { failure, retry: 'never', retryAfterMs: null }, monoMs, chance)
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

/** The process is about to end with this attempt in its hands; what the policy says of lost workers is done at once. */
export function closeForExit(flight: Flight, exitCode: number, monoMs: number): Close[] {
  const { lease, handler, state } = flight
  // What is closing was decided already and is sent as it is.
  if (state !== 'running' && state !== 'buffered') return []
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
  return [{ key, attempt, batch, change, ranMs, ...toldOf(lease, change, handler.policy, '') }]
}

/** Given back unharmed: spends nothing. */
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
    stage: 'execution',
    type: flight.lease.type,
    codes: flight.handler.codes,
    detail: `the handler asked to wait ${formatMs(delayMs)}, but a job of this type only goes forward`,
  })
  return decided(flight, { failure, retry: 'never', retryAfterMs: null }, monoMs, chance)
}

function capture(flight: Flight, thrown: unknown, stage: Stage, monoMs: number, givenUp: GivenUp | null): Captured {
  const { codes, rules } = flight.handler
  const { type } = flight.lease
  // The payload no longer fits its schema: found by us, so no rule of the author's is asked.
  if (stage === 'dispatch' && isA(thrown, RedressError)) {
    const failure = engineFailure({ code: 'INPUT_INVALID', stage, type, codes, detail: describeProblems(thrown) })
    return { failure, retry: 'never', retryAfterMs: null }
  }
  if (isA(thrown, ResultInvalid)) {
    const failure = engineFailure({ code: 'RESULT_INVALID', stage, type, codes, detail: thrown.message })
    return { failure, retry: 'never', retryAfterMs: null }
  }
  const nowMs = flight.storeNowMs(monoMs)
  const said = Attempt.contextOf(flight.attempt)
  if (said === null && givenUp === null) return captureFailure({ thrown, stage, type, codes, rules, nowMs })
  const context = { ...said, ...givenUp?.context }
  const captured = captureFailure({ thrown, stage, type, codes, rules: givenUp?.rules ?? rules, context, nowMs })
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

/** The handler's output cannot be kept. */
export class ResultInvalid extends Error {
  override readonly name = 'ResultInvalid'
}

/** Results are kept as JSON; `undefined` is no result. */
export function packResult(output: unknown, bytesMax: number): string | null {
  if (output === undefined) return null
  let text: string | undefined
  try {
    text = JSON.stringify(output)
  } catch (error) {
    throw new ResultInvalid(
      `the result cannot be written as JSON: ${error instanceof Error ? error.message : 'it threw'}`,
    )
  }
  if (text === undefined) throw new ResultInvalid(`the result is a ${typeof output}, which JSON cannot hold`)
  // A character is at most three bytes of UTF-8 per UTF-16 unit: only a long text has to be measured.
  if (text.length * 3 > bytesMax && Buffer.byteLength(text) > bytesMax) {
    throw new ResultInvalid(`the result has ${Buffer.byteLength(text)} bytes; at most ${bytesMax} are kept`)
  }
  return text
}
