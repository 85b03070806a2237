import { z } from 'zod'
import { RedressError } from '../../core/errors.ts'
import { FAULTS } from '../../core/failure/failure.ts'
import { ENGINE_CODES, RETRY_CLASSES, type Taxonomy } from '../../core/failure/taxonomy.ts'
import { type Policy, policySchema } from '../../core/policy/policy.ts'
import { renderTimeline, simulate, stepSchema } from '../../core/policy/simulate.ts'
import { policyFieldSchema, policyFields } from '../../core/policy/text.ts'
import { isoTime } from '../../core/text/duration.ts'
import { nearest } from '../../core/text/names.ts'
import { flag, name, text, time } from '../../core/views/fields.ts'
import { seededChance } from '../../runtime/chance.ts'
import type { Store } from '../../store/contract/store.ts'
import { typeField } from '../input-fields.ts'
import { operation } from '../operation.ts'

const listTypes = operation('types.list', {
  input: z.strictObject({}),
  output: z.strictObject({
    types: z.array(z.strictObject({ name, queue: name, registeredAt: time, policy: policySchema })),
  }),
  run: async ({ store }) => ({
    types: (await store.types()).map(({ name, queue, policy, registeredAtMs }) => ({
      name,
      queue,
      registeredAt: isoTime(registeredAtMs),
      policy,
    })),
  }),
})

const showPolicy = operation('policy.show', {
  input: z.strictObject({ type: typeField }),
  output: z.strictObject({
    type: name,
    policy: policySchema,
    fields: z.array(policyFieldSchema).describe('the same, field by field, as its author writes it'),
  }),
  run: async ({ store }, { type }) => {
    const policy = await neededPolicy(store, type)
    return { type, policy, fields: policyFields(policy) }
  },
})

async function neededPolicy(store: Store, type: string): Promise<Policy> {
  const known = await store.types()
  const found = known.find(({ name }) => name === type)
  if (found !== undefined) return found.policy
  const names = known.map(({ name }) => name).join(', ') || 'none'
  throw new RedressError('TYPE_UNKNOWN', `There is no job type ${type}; known types: ${names}.`)
}

const codeSchema = z.strictObject({ code: name, fault: z.enum(FAULTS), retry: z.enum(RETRY_CLASSES), message: text })

/** What the policy of a type does with a job that has these outcomes. */
const previewSchema = z.strictObject({
  type: name,
  outcomes: z.array(name),
  steps: z.array(stepSchema),
  text: text.describe('the same as text'),
  codes: z.array(codeSchema).describe(`the type's own failure codes`),
  isCodesKnown: flag.describe('false if this program has not declared the type: then codes is empty'),
})

const WORDS = ['ok', 'crash', 'unknown'] as const
const OUTCOMES_MAX = 100
/** The middle of the range of any jitter. */
const MIDDLE = 0.5

const previewPolicy = operation('policy.preview', {
  input: z.strictObject({
    type: typeField,
    failures: z
      .string()
      .optional()
      .describe(
        'outcomes in order, separated by commas: failure codes, ok, crash, unknown; default: one failure repeated',
      ),
    seed: z.coerce
      .number()
      .int()
      .optional()
      .describe('seed of the jitter; without it, the middle of its range is used'),
  }),
  output: previewSchema,
  run: async ({ store, codesOf }, { type, failures, seed }) => {
    const policy = await neededPolicy(store, type)
    const known = codesOf(type)
    const codes = ownCodes(known ?? {})
    const chance = seed === undefined ? MIDDLE : seededChance(seed)()
    const asked = failures === undefined ? null : readOutcomes(failures, type, policy, known)
    const usual = codes.find(({ retry }) => retry === 'transient')?.code ?? 'unknown'
    const tried = asked ?? Array.from({ length: OUTCOMES_MAX }, () => usual)
    const steps = simulate(policy, known ?? ENGINE_CODES, tried, { chance })
    // Repeated outcomes that were not needed are not listed.
    const outcomes = asked ?? tried.slice(0, steps.length)
    return { type, outcomes, steps, text: renderTimeline(steps, outcomes), codes, isCodesKnown: known !== undefined }
  },
})

/** Those that the type's author wrote, among them the engine's where they were given other words. */
function ownCodes(taxonomy: Taxonomy): z.infer<typeof codeSchema>[] {
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
  if (outcomes.length === 0)
    throw refused(`the list is empty; give failure codes, ${WORDS.join(', ')}, or leave it out`)
  if (outcomes.length > OUTCOMES_MAX)
    throw refused(`${outcomes.length} outcomes are given; at most ${OUTCOMES_MAX} are allowed`)
  const accepted = [...WORDS, ...Object.keys(known ?? ENGINE_CODES), ...Object.keys(policy.retry.perCode)]
  const other = outcomes.find((outcome) => !accepted.includes(outcome))
  if (other === undefined) return outcomes
  if (known === undefined) {
    throw refused(`${other} is unknown: this program has not declared ${type}, so it does not know its codes`)
  }
  const meant = nearest(other, accepted)
  throw refused(`${other} is not a failure code of ${type}${meant === null ? '' : `; the nearest is ${meant}`}`)
}

const refused = (problem: string): RedressError => new RedressError('OPTION_INVALID', `failures: ${problem}.`)

export const typeOperations = {
  'types.list': listTypes,
  'policy.show': showPolicy,
  'policy.preview': previewPolicy,
}
