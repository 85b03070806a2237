import { z } from 'zod'
import { RedressError } from '../core/errors.ts'
import type { Fault } from '../core/failure.ts'
import { nearest } from '../core/nearest.ts'
import type { Policy } from '../core/policy.ts'
import { renderTimeline, type Step, simulate } from '../core/simulate.ts'
import { ENGINE_CODES, type RetryClass, type Taxonomy } from '../core/taxonomy.ts'
import { seededChance } from '../runtime/chance.ts'
import { operation, typeField } from './operation.ts'
import { policyPreviewSchema } from './outputs/surroundings.ts'
import { neededPolicy } from './surroundings.ts'

/** What the policy of a type would do with a job that goes through these outcomes. */
export interface PolicyPreview {
  type: string
  outcomes: string[]
  steps: Step[]
  /** The same for people, as a table. */
  text: string
  /** The type's own failure codes; none where this program has not declared the type. */
  codes: CodeView[]
  /** False where only the program that declares the type knows its codes. */
  isCodesKnown: boolean
}

export interface CodeView {
  code: string
  fault: Fault
  retry: RetryClass
  message: string
}

const WORDS = ['ok', 'crash', 'unknown'] as const
const OUTCOMES_MAX = 100
/** The middle of the range of any jitter. */
const MIDDLE = 0.5

export const previewPolicy = operation('policy.preview', {
  input: z.strictObject({
    type: typeField,
    failures: z
      .string()
      .optional()
      .describe(
        'outcomes in order, with commas: failure codes, ok, crash, unknown; when left out, one failure again and again',
      ),
    seed: z.coerce.number().int().optional().describe('draws the jitter; without it the middle of its range is taken'),
  }),
  output: policyPreviewSchema,
  run: async ({ store, codesOf }, { type, failures, seed }): Promise<PolicyPreview> => {
    const policy = await neededPolicy(store, type)
    const known = codesOf(type)
    const codes = ownCodes(known ?? {})
    const chance = seed === undefined ? MIDDLE : seededChance(seed)()
    const asked = failures === undefined ? null : readOutcomes(failures, type, policy, known)
    const usual = codes.find(({ retry }) => retry === 'transient')?.code ?? 'unknown'
    const tried = asked ?? Array.from({ length: OUTCOMES_MAX }, () => usual)
    const steps = simulate(policy, known ?? ENGINE_CODES, tried, { chance })
    // What was only repeated until it ended is not left over.
    const outcomes = asked ?? tried.slice(0, steps.length)
    return { type, outcomes, steps, text: renderTimeline(steps, outcomes), codes, isCodesKnown: known !== undefined }
  },
})

/** Those that the type's author wrote, among them the engine's where they were given other words. */
function ownCodes(taxonomy: Taxonomy): CodeView[] {
  const engine: Taxonomy = ENGINE_CODES
  return Object.entries(taxonomy)
    .filter(([code, spec]) => spec !== engine[code])
    .map(([code, { fault, retry, message }]) => ({ code, fault, retry, message }))
}

function readOutcomes(text: string, type: string, policy: Policy, known: Taxonomy | undefined): string[] {
  const outcomes = text
    .split(',')
    .map((outcome) => outcome.trim())
    .filter((outcome) => outcome !== '')
  if (outcomes.length === 0) throw refused(`none are given: name codes, ${WORDS.join(', ')}, or leave it out`)
  if (outcomes.length > OUTCOMES_MAX) throw refused(`there are ${outcomes.length}; at most ${OUTCOMES_MAX} are tried`)
  const accepted = [...WORDS, ...Object.keys(known ?? ENGINE_CODES), ...Object.keys(policy.retry.perCode)]
  const other = outcomes.find((outcome) => !accepted.includes(outcome))
  if (other === undefined) return outcomes
  if (known === undefined) {
    throw refused(
      `${other} may be a code of ${type}, but this program has not declared ${type} and does not know its codes`,
    )
  }
  const meant = nearest(other, accepted)
  throw refused(`${other} is no failure code of ${type}${meant === null ? '' : `; the nearest is ${meant}`}`)
}

const refused = (problem: string): RedressError => new RedressError('OPTION_INVALID', `failures: ${problem}.`)
