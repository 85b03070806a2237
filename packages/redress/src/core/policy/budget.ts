import { z } from 'zod'
import { count, type DeepReadonly, name } from '../views/fields.ts'

export const spentSchema = z.strictObject({
  failures: count.describe('against retry.max'),
  byCode: z.record(name, count).describe('against retry.perCode'),
  reclaims: count.describe('requeued after its worker was lost; against orphan.maxReclaims'),
  releases: count.describe('given back without being at fault; free'),
  snoozes: count,
  manualRetries: count,
  // The attempt number itself never goes back.
  attemptBase: count.describe('attempts used before the last manual retry that reset the budget'),
  triesWithin: count.describe('tries of failed stages beyond the first try of each attempt; they cost no budget'),
})

/**
 * What a job has used up, counted by cause and never mixed: a lost worker or a shutdown must not cost
 * a job the retries its author gave it for real failures.
 */
export type Spent = DeepReadonly<z.infer<typeof spentSchema>>

export const NOTHING_SPENT: Spent = Object.freeze({
  failures: 0,
  byCode: Object.freeze({}),
  reclaims: 0,
  releases: 0,
  snoozes: 0,
  manualRetries: 0,
  attemptBase: 0,
  triesWithin: 0,
})

export function failuresOf(spent: Spent, code: string): number {
  // Not `byCode[code]`: a code named 'constructor' would find Object's.
  return Object.hasOwn(spent.byCode, code) ? (spent.byCode[code] ?? 0) : 0
}

export const spendFailure = (spent: Spent, code: string): Spent => ({
  ...spent,
  failures: spent.failures + 1,
  byCode: { ...spent.byCode, [code]: failuresOf(spent, code) + 1 },
})

export const spendReclaim = (spent: Spent): Spent => ({ ...spent, reclaims: spent.reclaims + 1 })
export const spendRelease = (spent: Spent): Spent => ({ ...spent, releases: spent.releases + 1 })
export const spendSnooze = (spent: Spent): Spent => ({ ...spent, snoozes: spent.snoozes + 1 })

/** `attempt` is the number of the last attempt before the person stepped in. */
export function spendManualRetry(spent: Spent, attempt: number, budget: 'reset' | 'keep'): Spent {
  const manualRetries = spent.manualRetries + 1
  if (budget === 'keep') return { ...spent, manualRetries }
  return { ...NOTHING_SPENT, manualRetries, attemptBase: attempt, triesWithin: spent.triesWithin }
}

/** `tries` of the stage that the attempt failed with. */
export const addTries = (spent: Spent, tries: number): Spent =>
  tries > 1 ? { ...spent, triesWithin: spent.triesWithin + tries - 1 } : spent

/** The number of tries of a job's task (F15): each attempt, and each further try within one. */
export const triesOfTask = (attempt: number, spent: string | null): number => attempt + unpackSpent(spent).triesWithin

/** Most jobs never fail: they store nothing at all. */
export function packSpent(spent: Spent): string | null {
  const used = Object.entries(spent).filter(([, count]) =>
    typeof count === 'number' ? count !== 0 : Object.keys(count).length > 0,
  )
  return used.length === 0 ? null : JSON.stringify(Object.fromEntries(used))
}

export function unpackSpent(text: string | null): Spent {
  return text === null ? NOTHING_SPENT : { ...NOTHING_SPENT, ...(JSON.parse(text) as Partial<Spent>) }
}
