import { z } from 'zod'
import type { FoundClass } from '../failure/taxonomy.ts'
import type { DeadLetter } from '../job/change.ts'
import { DURATION_MS_MAX, formatMs } from '../text/duration.ts'
import { name, number, text } from '../views/fields.ts'
import { backoffInputsSchema, backoffMs } from './backoff.ts'
import { failuresOf, type Spent, spendFailure, spendReclaim, spendRelease } from './budget.ts'
import type { Policy } from './policy.ts'

const delaySchema = z.discriminatedUnion('source', [
  z.strictObject({ source: z.literal('none') }),
  z.strictObject({ source: z.literal('error.retryAfter'), askedMs: number, maxMs: number }),
  z.strictObject({ source: z.literal('retry.backoff'), ...backoffInputsSchema.shape }),
])
export type DelayInputs = z.infer<typeof delaySchema>

/** Stored with the failure, so that "why did it retry or die" is answered from the record and never guessed. */
export const reasonsSchema = z.strictObject({
  because: text.describe('one plain sentence'),
  rule: text.describe('the rule of the policy that answered'),
  budget: z.strictObject({
    name: name.describe('the policy field that sets it'),
    before: number,
    after: number,
    max: number,
  }),
  delay: delaySchema.exactOptional(),
})
export type Reasons = z.infer<typeof reasonsSchema>
export type Budget = Reasons['budget']

export type Decision =
  | { kind: 'retry'; delayMs: number; spent: Spent; reasons: Reasons }
  | {
      kind: 'fail'
      deadLetter: DeadLetter
      /** The code itself says that trying again is useless; false where attempts or time were used up. */
      isPermanent: boolean
      spent: Spent
      reasons: Reasons
    }

export interface JobSoFar {
  spent: Spent
  attempt: number
  /** Where `timeout.total` begins: when the job was created, or last requeued by a person. */
  createdAtMs: number
}

export interface FailureFacts {
  code: string
  retry: FoundClass
  /** What the error itself asked for, e.g. an HTTP Retry-After. */
  retryAfterMs: number | null
  /** Why it ends the job although the code might be retried: a part of the attempt used up all its tries. */
  final?: { rule: string; because: string } | null
}

/** Called after an attempt failed. Nothing here is read from a clock or drawn: the same arguments decide the same. */
export function decide(job: JobSoFar, failure: FailureFacts, policy: Policy, nowMs: number, chance: number): Decision {
  const spent = spendFailure(job.spent, failure.code)
  const budgets = failureBudgets(job.spent, failure.code, policy)
  // Every final failure is dead-lettered, a caller's fault too (F14): the person who replays decides what to correct.
  const fail = (rule: string, because: string, budget = budgets[0], isPermanent = false): Decision => ({
    kind: 'fail',
    deadLetter: policy.deadLetter,
    isPermanent,
    spent,
    reasons: { because, rule, budget },
  })

  const final = finalByClass(failure, policy)
  if (final !== null) return fail(final.rule, final.because, budgets[0], true)

  const found = failure.retry === 'unknown' ? `${failure.code} is taken as transient` : `${failure.code} is transient`
  if (failure.final) return fail(failure.final.rule, `${found}; ${failure.final.because}`)
  const exhausted = exhaustedOf(budgets)
  if (exhausted !== undefined) {
    return fail(exhausted.name, `${found}; ${counted(job, exhausted)}; no attempt is left`, exhausted)
  }

  const { delayMs, delay } = delayFor(failure, job.spent.failures, policy, chance)
  const so = `${found}; ${counted(job, budgets[0])}`
  if (isOver(job.createdAtMs, policy, nowMs + delayMs)) {
    return fail('timeout.total', `${so}; the next attempt would begin after timeout.total${totalOf(policy)}`)
  }
  const rule = delay.source === 'error.retryAfter' ? delay.source : budgets[0].name
  const because = `${so}; next attempt ${delayMs === 0 ? 'at once' : `in ${formatMs(delayMs)}`}`
  return { kind: 'retry', delayMs, spent, reasons: { because, rule, budget: budgets[0], delay } }
}

function finalByClass({ code, retry }: FailureFacts, policy: Policy): { rule: string; because: string } | null {
  switch (retry) {
    case 'transient':
      return null
    case 'never':
      return { rule: 'code is never retried', because: `${code} is never retried` }
    case 'final':
      return { rule: 'its handler said so', because: `${code}, and its handler said that trying again is useless` }
    case 'dead-letter':
      return { rule: 'code is dead-lettered', because: `${code} is ${endText(policy)} at once` }
    case 'unknown': {
      const { unknown } = policy.retry
      if (unknown === 'transient') return null
      const answer = unknown === 'never' ? 'not retried' : `${endText(policy)} at once`
      return { rule: `retry.unknown = ${unknown}`, because: `${code} is unclassified, and under this policy ${answer}` }
    }
  }
}

/** A policy without dead letters still ends the job: the class says that trying again is useless. */
const endText = (policy: Policy): string => (policy.deadLetter === 'none' ? 'failed for good' : 'dead-lettered')

/** The budgets one more failure is counted against, the narrower one first. */
function failureBudgets(before: Spent, code: string, policy: Policy): [Budget, ...Budget[]] {
  const { max, perCode } = policy.retry
  const whole = { name: 'retry.max', before: before.failures, after: before.failures + 1, max }
  const ofCode = Object.hasOwn(perCode, code) ? perCode[code] : undefined
  if (ofCode === undefined) return [whole]
  const failures = failuresOf(before, code)
  return [{ name: `retry.perCode.${code}`, before: failures, after: failures + 1, max: ofCode }, whole]
}

const exhaustedOf = (budgets: readonly Budget[]): Budget | undefined =>
  budgets.find((budget) => budget.after >= budget.max)

function counted({ attempt, spent }: JobSoFar, budget: Budget): string {
  // A manual retry that keeps the budget gives one attempt beyond it. '4 of 3' would read as a mistake.
  if (budget.after > budget.max) return `all ${budget.max} of ${budget.name} were already spent`
  const free = attempt - spent.attemptBase - (spent.failures + 1)
  const uncounted = free > 0 ? ` (attempt ${attempt}; ${free} ended without counting as a failure)` : ''
  const ofCode = budget.name.startsWith('retry.perCode.') ? ' with this code' : ''
  return `failure ${budget.after} of ${budget.max}${ofCode}${uncounted}`
}

/**
 * The longer of the backoff and the error's own delay, up to a bound. The other side knows when it will answer again.
 * But a service that always says "in a second" must not use up a job's attempts in a few seconds.
 */
function delayFor(
  { retryAfterMs }: FailureFacts,
  failuresBefore: number,
  { retry }: Policy,
  chance: number,
): { delayMs: number; delay: DelayInputs } {
  const own = backoffFor(retry, failuresBefore, chance)
  if (retryAfterMs === null || Number.isNaN(retryAfterMs)) return own
  // Bounded here too, since Infinity would be lost in the stored JSON.
  const askedMs = Math.ceil(Math.min(Math.max(0, retryAfterMs), DURATION_MS_MAX))
  const maxMs = retry.retryAfterMsMax
  const delayMs = Math.min(askedMs, maxMs)
  return delayMs > own.delayMs ? { delayMs, delay: { source: 'error.retryAfter', askedMs, maxMs } } : own
}

function backoffFor({ backoff }: Policy['retry'], failuresBefore: number, chance: number) {
  if (backoff === null) return { delayMs: 0, delay: { source: 'none' } as const }
  const { delayMs, inputs } = backoffMs(backoff, failuresBefore, chance)
  return { delayMs, delay: { source: 'retry.backoff', ...inputs } as const }
}

function isOver(createdAtMs: number, { timeout }: Policy, atMs: number): boolean {
  return timeout.totalMs !== null && atMs >= createdAtMs + timeout.totalMs
}

const totalOf = ({ timeout }: Policy): string => (timeout.totalMs === null ? '' : ` (${formatMs(timeout.totalMs)})`)

/** Called when the time to live of a job was over before an attempt began. It costs no retry, and none follows. */
export function decideExpired(spent: Spent, policy: Policy): Extract<Decision, { kind: 'fail' }> {
  const { failures } = spent
  const budget = { name: 'retry.max', before: failures, after: failures, max: policy.retry.max }
  const because = 'no attempt began within its ttl; it is not begun any more'
  return {
    kind: 'fail',
    deadLetter: policy.deadLetter,
    isPermanent: false,
    spent,
    reasons: { because, rule: 'ttl', budget },
  }
}

export type OrphanDecision =
  /** Reported, not changed: a person decides (P55). */
  | { kind: 'report'; reasons: Reasons }
  | { kind: 'requeue'; spent: Spent; reasons: Reasons }
  | { kind: 'cancel'; reasons: Reasons }
  | {
      kind: 'fail'
      code: 'WORKER_LOST' | 'NEVER_STARTED' | 'QUARANTINED'
      phase: 'dispatch' | 'execution'
      deadLetter: DeadLetter
      spent: Spent
      reasons: Reasons
    }

export interface OrphanSoFar extends JobSoFar {
  started: boolean
  /** Its worker may be alive, but the attempt ran for longer than `orphan.stuckAfter`. */
  stuck?: boolean
  cancelRequested: boolean
}

/** Called when a processing job's lease expired, when it did not start in time, or when it ran for too long. */
export function decideOrphan(job: OrphanSoFar, policy: Policy, nowMs: number): OrphanDecision {
  if (job.cancelRequested && policy.cancel) {
    return {
      kind: 'cancel',
      reasons: orphanReasons(job, policy, 'cancel', `${plightOf(job, policy)} and it was to be cancelled`),
    }
  }
  return job.started ? decideLost(job, policy, nowMs) : decideNeverStarted(job, policy, nowMs)
}

/**
 * Nothing is recorded of its start. Where starts are on disk before the handler is called, that is certain: nothing
 * ran, and it is a dispatch failure even under 'report' (P14). Elsewhere a handler may have killed its worker in the
 * moment before its start was written, so the job is treated as lost, not as untouched.
 */
function decideNeverStarted(job: OrphanSoFar, policy: Policy, nowMs: number): OrphanDecision {
  if (policy.orphan.action !== 'requeue' && policy.audit !== 'write-ahead') return decideLost(job, policy, nowMs)
  const fail = (rule: string, because: string): OrphanDecision => ({
    kind: 'fail',
    code: 'NEVER_STARTED',
    phase: 'dispatch',
    deadLetter: policy.deadLetter,
    spent: job.spent,
    reasons: orphanReasons(job, policy, rule, because),
  })
  const { action } = policy.orphan
  if (action !== 'requeue') return fail(`orphan.action = ${action}`, 'it was claimed and never started')
  if (isOver(job.createdAtMs, policy, nowMs)) {
    return fail('timeout.total', `it was claimed and never started, and timeout.total${totalOf(policy)} is over`)
  }
  // Counted as given back, not as a reclaim: jobs claimed ahead by a worker that a poisonous job killed
  // would otherwise be quarantined along with it.
  const because = 'it was claimed and never started; next attempt at once, and it costs nothing'
  const reasons = orphanReasons(job, policy, 'orphan.action = requeue', because)
  return { kind: 'requeue', spent: spendRelease(job.spent), reasons }
}

function decideLost(job: OrphanSoFar, policy: Policy, nowMs: number): OrphanDecision {
  const { action, budget, maxReclaims } = policy.orphan
  const plight = plightOf(job, policy)
  if (action === 'report') {
    const because = 'its worker is lost; under this policy a person decides'
    return { kind: 'report', reasons: orphanReasons(job, policy, 'orphan.action = report', because) }
  }
  // A worker lost for good is counted as a failure only where the policy says so (W40).
  const consumes = action === 'requeue' && budget === 'consume'
  const spent = consumes ? spendFailure(job.spent, 'WORKER_LOST') : job.spent
  const fail = (code: 'WORKER_LOST' | 'QUARANTINED', reasons: Reasons): OrphanDecision => ({
    kind: 'fail',
    code,
    phase: 'execution',
    deadLetter: policy.deadLetter,
    spent,
    reasons,
  })
  if (action === 'fail') {
    return fail('WORKER_LOST', orphanReasons(job, policy, 'orphan.action = fail', 'its worker is lost'))
  }
  if (job.spent.reclaims >= maxReclaims) {
    const suspicion = job.stuck ? '' : ': it may be what kills them'
    const because = `${plight}, and it was already taken back ${maxReclaims} times${suspicion}`
    return fail('QUARANTINED', orphanReasons(job, policy, 'orphan.maxReclaims', because))
  }
  const exhausted = consumes ? exhaustedOf(failureBudgets(job.spent, 'WORKER_LOST', policy)) : undefined
  if (exhausted !== undefined) {
    const because = `${plight}, which counts as a failure; ${counted(job, exhausted)}; no attempt is left`
    return fail('WORKER_LOST', { because, rule: exhausted.name, budget: exhausted })
  }
  if (isOver(job.createdAtMs, policy, nowMs)) {
    const because = `${plight}, and timeout.total${totalOf(policy)} is over`
    return fail('WORKER_LOST', orphanReasons(job, policy, 'timeout.total', because))
  }
  const after = spendReclaim(spent)
  const cost = consumes ? `, which counts as ${counted(job, failureBudgets(job.spent, 'WORKER_LOST', policy)[0])}` : ''
  const times = `${after.reclaims} of ${maxReclaims} times`
  const because = `${plight}${cost}; taken back ${times}; next attempt at once`
  const reasons = orphanReasons(job, policy, 'orphan.action = requeue', because, after.reclaims)
  return { kind: 'requeue', spent: after, reasons }
}

function plightOf({ stuck }: OrphanSoFar, { orphan }: Policy): string {
  return stuck ? `it still ran after orphan.stuckAfter (${formatMs(orphan.stuckAfterMs ?? 0)})` : 'its worker is lost'
}

function orphanReasons(job: OrphanSoFar, policy: Policy, rule: string, because: string, after?: number): Reasons {
  const before = job.spent.reclaims
  const budget = { name: 'orphan.maxReclaims', before, after: after ?? before, max: policy.orphan.maxReclaims }
  return { because, rule, budget }
}
