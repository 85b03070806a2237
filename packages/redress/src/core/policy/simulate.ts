import { z } from 'zod'
import type { Taxonomy } from '../failure/taxonomy.ts'
import { TERMINAL } from '../job/states.ts'
import { formatMs } from '../text/duration.ts'
import { count, name, number, status, text } from '../views/fields.ts'
import { NOTHING_SPENT, type Spent } from './budget.ts'
import { type Decision, decide, decideOrphan, type OrphanDecision, reasonsSchema } from './decide.ts'
import type { Policy } from './policy.ts'

/** One attempt of a job that goes through the given outcomes. */
export const stepSchema = z.strictObject({
  atMs: number.describe('since the job was submitted; attempts are taken to last no time at all'),
  attempt: count,
  outcome: name,
  status: status.describe('after the decision'),
  // Null when it succeeded: there was nothing to decide.
  reasons: reasonsSchema.nullable(),
  nextAtMs: number.nullable().describe('when the next attempt may begin; null when there is none'),
  note: text.nullable().describe('what was assumed'),
})
export type Step = z.infer<typeof stepSchema>

/**
 * The timeline that a policy would give. An outcome is a failure code, or one of the words `ok`, `crash` (the worker
 * is lost) and `unknown` (an unclassified throw). Outcomes after the end of the job are left over.
 */
export function simulate(
  policy: Policy,
  codes: Taxonomy,
  outcomes: readonly string[],
  { chance }: { chance: number },
): Step[] {
  const steps: Step[] = []
  let spent = NOTHING_SPENT
  let atMs: number | null = 0
  for (const [index, outcome] of outcomes.entries()) {
    if (atMs === null) break
    const { after, ...step } = simulateAttempt(policy, codes, outcome, { spent, attempt: index + 1, atMs, chance })
    steps.push(step)
    spent = after
    atMs = step.nextAtMs
  }
  return steps
}

interface Now {
  spent: Spent
  attempt: number
  atMs: number
  chance: number
}

function simulateAttempt(policy: Policy, codes: Taxonomy, outcome: string, now: Now): Step & { after: Spent } {
  const { spent, attempt, atMs, chance } = now
  const job = { spent, attempt, createdAtMs: 0 }
  const seen = { atMs, attempt, outcome }

  if (outcome === 'ok') {
    return { ...seen, status: 'complete', reasons: null, nextAtMs: null, note: null, after: spent }
  }
  if (outcome === 'crash') {
    const noticedAtMs = atMs + policy.lease.ttlMs
    const decision = decideOrphan({ ...job, started: true, cancelRequested: false }, policy, noticedAtMs)
    const note = `noticed when the lease ends, ${formatMs(policy.lease.ttlMs)} later`
    return { ...seen, ...effectOf(decision, noticedAtMs, spent), note }
  }
  const spec = Object.hasOwn(codes, outcome) ? codes[outcome] : undefined
  const isWord = outcome === 'unknown'
  const failure = {
    code: isWord ? 'UNKNOWN' : outcome,
    retry: isWord ? ('unknown' as const) : (spec?.retry ?? 'transient'),
    retryAfterMs: null,
  }
  const note = spec === undefined && !isWord ? `${outcome} is in no taxonomy here: taken as transient` : null
  return { ...seen, ...effectOf(decide(job, failure, policy, atMs, chance), atMs, spent), note }
}

type Effect = Pick<Step, 'status' | 'reasons' | 'nextAtMs'> & { after: Spent }

function effectOf(decision: Decision | OrphanDecision, nowMs: number, before: Spent): Effect {
  const { reasons } = decision
  switch (decision.kind) {
    case 'retry':
      return { status: 'queued', reasons, nextAtMs: nowMs + decision.delayMs, after: decision.spent }
    case 'requeue':
      return { status: 'queued', reasons, nextAtMs: nowMs, after: decision.spent }
    case 'fail':
      return { status: 'failed', reasons, nextAtMs: null, after: decision.spent }
    case 'cancel':
      return { status: 'cancelled', reasons, nextAtMs: null, after: before }
    case 'report':
      return { status: 'processing', reasons, nextAtMs: null, after: before }
  }
}

/** `outcomes` is what was simulated, to say what was left over. */
export function renderTimeline(steps: readonly Step[], outcomes: readonly string[]): string {
  const rows = steps.map((step) => [
    formatMs(step.atMs),
    String(step.attempt),
    step.outcome,
    step.status,
    [step.reasons?.because, step.note === null ? undefined : `(${step.note})`].filter(Boolean).join(' '),
  ])
  const all = [['at', 'attempt', 'outcome', 'then', 'because'], ...rows]
  const widths = [0, 1, 2, 3].map((column) => Math.max(...all.map((row) => row[column]?.length ?? 0)))
  const lines = all.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  )
  return `${[...lines, '', ending(steps.at(-1)), ...leftOver(steps, outcomes)].join('\n')}\n`
}

function ending(last: Step | undefined): string {
  if (last === undefined) return 'No outcome was given.'
  if (last.nextAtMs !== null)
    return `Still queued: attempt ${last.attempt + 1} would begin at ${formatMs(last.nextAtMs)}.`
  if (TERMINAL.has(last.status)) return `Ends ${last.status} after ${attempts(last.attempt)}.`
  return `Stays ${last.status} until a person decides.`
}

const attempts = (count: number): string => (count === 1 ? '1 attempt' : `${count} attempts`)

function leftOver(steps: readonly Step[], outcomes: readonly string[]): string[] {
  const unused = outcomes.slice(steps.length)
  return unused.length === 0 ? [] : [`Not reached: ${unused.join(', ')}.`]
}
