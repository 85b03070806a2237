import { z } from 'zod'
import { RedressError } from '../errors.ts'
import type { DeadLetter } from '../job/change.ts'
import { DAY_MS, type Duration, durationField, HOUR_MS, MINUTE_MS, SECOND_MS } from '../text/duration.ts'
import { type DeepReadonly, flag, name, number } from '../views/fields.ts'
import { type BackoffInput, backoffField, backoffSchema } from './backoff.ts'
import { contradictionsOf, nearestField } from './checks.ts'
import {
  FLOW_FIELDS,
  FLOW_SECTIONS,
  type FlowPolicyInput,
  flowFields,
  RETRY_BUDGET_FIELD,
  type RetryBudgetPolicy,
  retryBudgetSchema,
} from './flow.ts'

export { edgesOf, weakens } from './checks.ts'

const UNKNOWN_ANSWERS = ['never', 'transient', 'dead-letter'] as const
const MANUAL_RETRY_MODES = ['in-place', 'new-job', 'off'] as const
const ORPHAN_ACTIONS = ['report', 'requeue', 'fail'] as const
type UnknownAnswer = (typeof UNKNOWN_ANSWERS)[number]
type ManualRetryMode = (typeof MANUAL_RETRY_MODES)[number]
type OrphanAction = (typeof ORPHAN_ACTIONS)[number]

export const policySchema = z.strictObject({
  retry: z.strictObject({
    max: number.describe(
      'failures that end the job, so also the attempts it gets when every one fails; 1: never retried',
    ),
    perCode: z.record(name, number),
    backoff: backoffSchema.nullable().describe('null: at once'),
    unknown: z.enum(UNKNOWN_ANSWERS).describe('what an unclassified throw is taken for'),
    retryAfterMsMax: number.describe(`the longest wait that an error's own retryAfter may ask for`),
    // A storm of failures must not multiply the load.
    budget: retryBudgetSchema.nullable().describe('how much of the load may be retries; null: any share'),
  }),
  manualRetry: z.strictObject({ mode: z.enum(MANUAL_RETRY_MODES), budget: z.enum(['reset', 'keep']) }),
  orphan: z.strictObject({
    action: z.enum(ORPHAN_ACTIONS),
    budget: z.enum(['free', 'consume']),
    maxReclaims: number,
    stuckAfterMs: number
      .nullable()
      .describe('an attempt that runs for this long is taken back, even if its worker is alive; null: never'),
  }),
  lease: z.strictObject({ ttlMs: number, startTimeoutMs: number.nullable() }),
  timeout: z.strictObject({ attemptMs: number.nullable(), totalMs: number.nullable() }),
  deadLetter: z.enum(['none', 'flag', 'queue']),
  reject: z.enum(['record', 'refuse']),
  shutdown: z.enum(['requeue', 'fail']),
  audit: z.enum(['transactional', 'write-ahead']),
  errors: z
    .enum(['latest', 'terminal'])
    .describe('latest: also shown while queued for a retry; terminal: only when failed'),
  aggregates: flag,
  cancel: flag.describe('whether a person may cancel'),
  deny: z
    .enum(['hide', 'forbid'])
    .describe(`what is answered about another owner's job: nothing (404), or a refusal (403)`),
  forwardOnly: flag.describe('no backward edge at all: the database itself refuses one'),
  retention: z
    .strictObject({
      completeMs: number.nullable(),
      failedMs: number.nullable(),
      cancelledMs: number.nullable(),
      deadLettersMs: number.nullable(),
    })
    .describe('null: kept for ever'),
  // See `weakens`.
  locked: flag.describe('nothing at runtime can weaken it'),
  ...flowFields,
})

/** Data that answers "what next?" for one job type: complete, frozen, and the same after a trip through JSON. */
export type Policy = DeepReadonly<z.infer<typeof policySchema>>

/** A policy as its author writes it: what is not said takes the safest default; durations are named without unit. */
export interface PolicyInput extends FlowPolicyInput {
  retry?: {
    max?: number
    perCode?: Readonly<Record<string, number>>
    backoff?: BackoffInput | null
    unknown?: UnknownAnswer
    retryAfterMax?: Duration
    budget?: Partial<RetryBudgetPolicy> | null
  }
  manualRetry?: ManualRetryMode | { mode?: ManualRetryMode; budget?: 'reset' | 'keep' }
  orphan?:
    | OrphanAction
    | { action?: OrphanAction; budget?: 'free' | 'consume'; maxReclaims?: number; stuckAfter?: Duration | null }
  lease?: { ttl?: Duration; startTimeout?: Duration | null }
  timeout?: { attempt?: Duration | null; total?: Duration | null }
  deadLetter?: DeadLetter
  reject?: 'record' | 'refuse'
  shutdown?: 'requeue' | 'fail'
  audit?: 'transactional' | 'write-ahead'
  errors?: 'latest' | 'terminal'
  aggregates?: boolean
  cancel?: boolean
  deny?: 'hide' | 'forbid'
  forwardOnly?: boolean
  retention?: {
    complete?: Duration | null
    failed?: Duration | null
    cancelled?: Duration | null
    deadLetters?: Duration | null
  }
  locked?: boolean
}

const ATTEMPT_MS_DEFAULT = HOUR_MS
const countField = z.int().min(1).max(1000)
const codeField = z.string().regex(/^[A-Za-z][\w.:-]{0,63}$/)

const FIELDS = {
  retry: {
    max: countField.default(1),
    perCode: z.record(codeField, countField).default({}),
    backoff: backoffField.nullable().default(null),
    unknown: z.enum(UNKNOWN_ANSWERS).default('never'),
    retryAfterMax: durationField().default(DAY_MS),
    budget: RETRY_BUDGET_FIELD,
  },
  manualRetry: {
    mode: z.enum(MANUAL_RETRY_MODES).default('new-job'),
    budget: z.enum(['reset', 'keep']).default('reset'),
  },
  orphan: {
    action: z.enum(ORPHAN_ACTIONS).default('report'),
    budget: z.enum(['free', 'consume']).default('free'),
    maxReclaims: countField.default(5),
    stuckAfter: durationField(SECOND_MS).nullable().default(null),
  },
  lease: {
    ttl: durationField(SECOND_MS).default(30 * SECOND_MS),
    startTimeout: durationField(1).nullable().default(MINUTE_MS),
  },
  timeout: {
    attempt: durationField(1).nullable().optional(),
    total: durationField(1).nullable().default(null),
  },
  retention: {
    complete: durationField()
      .nullable()
      .default(30 * DAY_MS),
    failed: durationField().nullable().default(null),
    cancelled: durationField()
      .nullable()
      .default(30 * DAY_MS),
    deadLetters: durationField().nullable().default(null),
  },
}

const schema = z
  .strictObject({
    retry: z
      .strictObject(FIELDS.retry)
      .transform(({ retryAfterMax, ...rest }) => ({ ...rest, retryAfterMsMax: retryAfterMax }))
      .prefault({}),
    manualRetry: z.strictObject(FIELDS.manualRetry).prefault({}),
    orphan: z
      .strictObject(FIELDS.orphan)
      .transform(({ stuckAfter, ...rest }) => ({ ...rest, stuckAfterMs: stuckAfter }))
      .prefault({}),
    lease: z
      .strictObject(FIELDS.lease)
      .transform(({ ttl, startTimeout }) => ({ ttlMs: ttl, startTimeoutMs: startTimeout }))
      .prefault({}),
    timeout: z
      .strictObject(FIELDS.timeout)
      .transform(({ attempt, total }) => ({
        // There is a default because a handler that never settles keeps renewing its lease: nothing else would end
        // it. It follows a shorter total, so that an author who wrote only `total` does not contradict it unseen.
        attemptMs: attempt === undefined ? Math.min(ATTEMPT_MS_DEFAULT, total ?? ATTEMPT_MS_DEFAULT) : attempt,
        totalMs: total,
      }))
      .prefault({}),
    deadLetter: z.enum(['none', 'flag', 'queue']).default('none'),
    reject: z.enum(['record', 'refuse']).default('refuse'),
    shutdown: z.enum(['requeue', 'fail']).optional(),
    audit: z.enum(['transactional', 'write-ahead']).default('transactional'),
    errors: z.enum(['latest', 'terminal']).default('terminal'),
    aggregates: z.boolean().default(true),
    cancel: z.boolean().default(true),
    deny: z.enum(['hide', 'forbid']).default('hide'),
    forwardOnly: z.boolean().default(false),
    retention: z
      .strictObject(FIELDS.retention)
      .transform(({ complete, failed, cancelled, deadLetters }) => ({
        completeMs: complete,
        failedMs: failed,
        cancelledMs: cancelled,
        deadLettersMs: deadLetters,
      }))
      .prefault({}),
    ...FLOW_SECTIONS,
    locked: z.boolean().default(false),
  })
  // A job that cannot go backward cannot be given back: 'fail' is the only shutdown left to it.
  .transform((read): Policy => ({ ...read, shutdown: read.shutdown ?? (read.forwardOnly ? 'fail' : 'requeue') }))

const KNOWN_FIELDS = [
  ...Object.keys(schema.in.shape),
  ...Object.entries({ ...FIELDS, ...FLOW_FIELDS }).flatMap(([section, fields]) =>
    Object.keys(fields).map((field) => `${section}.${field}`),
  ),
]

const STORED_NAMES: Readonly<Record<string, string>> = {
  retryAfterMsMax: 'retryAfterMax',
  ttlMs: 'ttl',
  startTimeoutMs: 'startTimeout',
  stuckAfterMs: 'stuckAfter',
  attemptMs: 'attempt',
  totalMs: 'total',
  completeMs: 'complete',
  failedMs: 'failed',
  cancelledMs: 'cancelled',
  deadLettersMs: 'deadLetters',
  windowMs: 'window',
  cooldownMs: 'cooldown',
  rampMs: 'ramp',
  perMs: 'per',
}

/** Takes the author's form, and a stored policy too: `policy(JSON.parse(JSON.stringify(p)))` equals `p`. */
export function policy(input: PolicyInput | Policy = {}): Policy {
  return policyFromJson(input)
}

/**
 * The policy of a job that was submitted when its type only went forward: the promise made to it then holds, whatever
 * its type allows by now.
 */
export function asForwardOnly(policy: Policy): Policy {
  if (policy.forwardOnly) return policy
  const { retry, manualRetry, orphan } = policy
  return deepFrozen({
    ...policy,
    forwardOnly: true,
    shutdown: 'fail',
    retry: { ...retry, max: 1, perCode: {} },
    manualRetry: { ...manualRetry, mode: manualRetry.mode === 'in-place' ? 'new-job' : manualRetry.mode },
    orphan: { ...orphan, action: orphan.action === 'requeue' ? 'report' : orphan.action, stuckAfterMs: null },
  })
}

/** Whether the store must count how many jobs of this type are under way. */
export function isLimited({ breaker, concurrency, rate }: Policy): boolean {
  return breaker !== null || rate !== null || concurrency.max !== null || concurrency.perKey !== null
}

/** Whether its jobs carry a limit key, by which the store finds those that run, are ready or wait without a walk. */
export function isCounted(policy: Policy): boolean {
  return isLimited(policy) || policy.backlog.max !== null
}

/** For policy files, about which the compiler knows nothing. */
export function policyFromJson(value: unknown): Policy {
  const read = parsed(inAuthorsForm(value))
  const contradictions = contradictionsOf(read)
  if (contradictions.length > 0) throw invalid(contradictions)
  return read
}

/** A limit for a code that the job type does not have would never apply, without a warning. */
export function checkPolicyCodes({ retry, breaker }: Policy, codes: object): void {
  const named = Object.keys(retry.perCode).map((code) => [`retry.perCode.${code}`, code] as const)
  const failingFast = breaker === null || breaker.code === null ? [] : [['breaker.code', breaker.code] as const]
  const unknown = [...named, ...failingFast].filter(([, code]) => !Object.hasOwn(codes, code))
  if (unknown.length > 0) throw invalid(unknown.map(([field, code]) => `${field}: the taxonomy has no code ${code}`))
}

/**
 * For a policy that was accepted when it was declared. A field that is newer than the store takes its default, and a field
 * of a newer program is left out. A check added in a later version must not make the store unreadable.
 */
export function storedPolicy(value: unknown): Policy {
  const form = inAuthorsForm(value)
  const read = schema.safeParse(form)
  const issues = read.error?.issues ?? []
  return parsed(issues.reduce(withoutUnknown, form))
}

function parsed(form: unknown): Policy {
  const read = schema.safeParse(form)
  if (!read.success) throw invalid(read.error.issues.flatMap(problemsOf))
  return deepFrozen(read.data)
}

function withoutUnknown(form: unknown, issue: z.core.$ZodIssue): unknown {
  if (issue.code !== 'unrecognized_keys') return form
  const without = (part: unknown, [name, ...rest]: readonly PropertyKey[]): unknown => {
    if (!isRecord(part)) return part
    if (name === undefined) return Object.fromEntries(Object.entries(part).filter(([key]) => !issue.keys.includes(key)))
    return { ...part, [name]: without(part[String(name)], rest) }
  }
  return without(form, issue.path)
}

/**
 * A number is a duration in milliseconds, so a stored policy is an author's policy whose names carry the unit.
 * A name given both ways is left alone, and then refused as unknown.
 */
function inAuthorsForm(value: unknown): unknown {
  if (!isRecord(value)) return value
  const { manualRetry, orphan, concurrency, ...rest } = value
  return {
    ...Object.fromEntries(
      Object.entries(rest).map(([name, part]) => [name, isRecord(part) ? withoutUnits(part) : part]),
    ),
    manualRetry: typeof manualRetry === 'string' ? { mode: manualRetry } : manualRetry,
    orphan: typeof orphan === 'string' ? { action: orphan } : isRecord(orphan) ? withoutUnits(orphan) : orphan,
    concurrency: typeof concurrency === 'number' ? { max: concurrency } : concurrency,
  }
}

function withoutUnits(section: Record<string, unknown>): object {
  const renamed = Object.entries(section).map(([name, value]) => {
    const bare = Object.hasOwn(STORED_NAMES, name) ? STORED_NAMES[name] : undefined
    const isStored = bare !== undefined && !(bare in section) && (typeof value === 'number' || value === null)
    return [isStored ? bare : name, value]
  })
  return Object.fromEntries(renamed)
}

function problemsOf(issue: z.core.$ZodIssue): string[] {
  const at = issue.path.join('.')
  if (issue.code !== 'unrecognized_keys') return [`${at || 'policy'}: ${issue.message}`]
  return issue.keys.map((key) => {
    const field = at === '' ? key : `${at}.${key}`
    return `${field}: no such field; the nearest is ${nearestField(field, KNOWN_FIELDS)}`
  })
}

function invalid(problems: string[]): RedressError {
  return new RedressError('POLICY_INVALID', `The policy cannot be used: ${problems.join('; ')}`, { problems })
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function deepFrozen<T>(value: T): T {
  if (typeof value === 'object' && value !== null) Object.values(Object.freeze(value)).forEach(deepFrozen)
  return value
}
