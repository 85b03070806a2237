import { z } from 'zod'
import { RedressError } from '../errors.ts'
import { DURATION_MS_MAX, type Duration, durationField } from '../text/duration.ts'
import { refuseUnknownOptions } from '../text/options.ts'
import { count, type DeepReadonly, listOf, number } from '../views/fields.ts'

const jitterSchema = z
  .discriminatedUnion('kind', [
    // The delay is spread evenly over ± this part of itself.
    z.strictObject({ kind: z.literal('ratio'), ratio: number }),
    // Between nothing and this much is added.
    z.strictObject({ kind: z.literal('add'), maxMs: number }),
  ])
  .nullable()
type Jitter = DeepReadonly<z.infer<typeof jitterSchema>>

export const backoffSchema = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('table'), delaysMs: listOf(number), jitter: jitterSchema }),
  z.strictObject({
    kind: z.literal('exponential'),
    baseMs: number,
    factor: number,
    capMs: number.nullable(),
    jitter: jitterSchema,
  }),
])
/** How long to wait before the next attempt: data, so that it can be stored with the policy that used it. */
export type Backoff = DeepReadonly<z.infer<typeof backoffSchema>>

/** '20%' is ±20 %; a duration is 0..that, added. */
export type JitterInput = Duration | Jitter

/** As written in a JSON policy file, or as made by `table()` and `exponential()`. */
export type BackoffInput =
  | Backoff
  | { table: readonly Duration[]; jitter?: JitterInput }
  | { exponential: Duration; factor?: number; cap?: Duration | null; jitter?: JitterInput }

export const backoffInputsSchema = z.strictObject({
  kind: z.enum(['table', 'exponential']),
  failuresBefore: count,
  baseMs: number.describe('before jitter'),
  jitterMs: number.describe('what chance drew; negative when it shortened the delay'),
})
export type BackoffInputs = z.infer<typeof backoffInputsSchema>

/** A backoff from a list of delays: `table(['1m', '5m', '15m'])`. The last one repeats. */
export function table(delays: readonly Duration[], options: { jitter?: JitterInput } = {}): Backoff {
  refuseUnknownOptions('table()', options, ['jitter'])
  return readBackoff({ table: delays, ...options }, 'table()')
}

/** A backoff that grows by a factor with each failure: `exponential('1s', { factor: 2, cap: '1m', jitter: '20%' })`. */
export function exponential(
  base: Duration,
  options: { factor?: number; cap?: Duration; jitter?: JitterInput } = {},
): Backoff {
  refuseUnknownOptions('exponential()', options, ['factor', 'cap', 'jitter'])
  return readBackoff({ exponential: base, ...options }, 'exponential()')
}

/** `failuresBefore` is 0 for the first failure; `chance` is drawn by the caller, 0 <= chance < 1. */
export function backoffMs(
  backoff: Backoff,
  failuresBefore: number,
  chance: number,
): { delayMs: number; inputs: BackoffInputs } {
  // The cap is applied before the jitter: jobs that have all reached the cap must still not come back together.
  const baseMs = delayBeforeJitterMs(backoff, failuresBefore)
  const jitterMs = drawJitterMs(backoff.jitter, baseMs, chance)
  const delayMs = Math.min(Math.max(0, baseMs + jitterMs), DURATION_MS_MAX)
  return { delayMs, inputs: { kind: backoff.kind, failuresBefore, baseMs, jitterMs } }
}

function delayBeforeJitterMs(backoff: Backoff, failuresBefore: number): number {
  if (backoff.kind === 'table') return backoff.delaysMs[Math.min(failuresBefore, backoff.delaysMs.length - 1)] ?? 0
  // factor ** 10_000 is Infinity, which Math.min turns back into the cap; the base is never 0, so never NaN.
  const grownMs = backoff.baseMs * backoff.factor ** failuresBefore
  return Math.round(Math.min(grownMs, backoff.capMs ?? DURATION_MS_MAX))
}

/** Whole milliseconds, every one in the range equally likely, both ends included. */
function drawJitterMs(jitter: Jitter, baseMs: number, chance: number): number {
  if (jitter === null) return 0
  if (jitter.kind === 'add') return Math.floor(chance * (jitter.maxMs + 1))
  const spreadMs = Math.floor(baseMs * jitter.ratio)
  return Math.floor(chance * (2 * spreadMs + 1)) - spreadMs
}

const PERCENT = /^(\d+(?:\.\d+)?)%$/

const storedJitter = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('ratio'), ratio: z.number().min(0).max(1) }),
  z.strictObject({ kind: z.literal('add'), maxMs: durationField() }),
])

const jitterField = z
  .unknown()
  .transform((value, context): unknown => {
    const percent = typeof value === 'string' ? PERCENT.exec(value) : null
    if (percent !== null) return { kind: 'ratio', ratio: Number(percent[1]) / 100 }
    if (typeof value !== 'number' && typeof value !== 'string') return value ?? null
    const added = durationField().safeParse(value)
    if (added.success) return { kind: 'add', maxMs: added.data }
    context.addIssue({ code: 'custom', message: `${added.error.issues[0]?.message}, or '20%' for ±20 %` })
    return z.NEVER
  })
  .pipe(storedJitter.nullable())
  .prefault(null)

// A base of nothing would stay nothing however often it is multiplied.
const baseField = durationField(1)
const delaysField = z.array(durationField()).min(1, 'needs at least one delay').max(1000)
const factorField = z.number().min(1).max(1000)
const capField = durationField(1).nullable().default(null)

function form<Shape extends z.ZodRawShape>(shape: Shape) {
  const error = (issue: { code?: string | undefined; keys?: unknown }): string | undefined =>
    issue.code === 'unrecognized_keys'
      ? `unknown field ${(issue.keys as string[]).join(', ')}; known here: ${Object.keys(shape).join(', ')}`
      : undefined
  return z.strictObject(shape, { error })
}

const FORMS = {
  table: form({ table: delaysField, jitter: jitterField }).transform(
    ({ table: delaysMs, jitter }): Backoff => ({ kind: 'table', delaysMs, jitter }),
  ),
  exponential: form({
    exponential: baseField,
    factor: factorField.default(2),
    cap: capField,
    jitter: jitterField,
  }).transform(
    ({ exponential: baseMs, factor, cap, jitter }): Backoff => ({
      kind: 'exponential',
      baseMs,
      factor,
      capMs: cap,
      jitter,
    }),
  ),
  storedTable: form({ kind: z.literal('table'), delaysMs: delaysField, jitter: jitterField }),
  storedExponential: form({
    kind: z.literal('exponential'),
    baseMs: baseField,
    factor: factorField,
    capMs: capField,
    jitter: jitterField,
  }),
}

/** The form is chosen by the one field that names it, so that only that form's problems are reported. */
function formOf(value: unknown): z.ZodType<Backoff> | null {
  if (typeof value !== 'object' || value === null) return null
  if ('table' in value) return FORMS.table
  if ('exponential' in value) return FORMS.exponential
  if ('kind' in value && value.kind === 'table') return FORMS.storedTable
  if ('kind' in value && value.kind === 'exponential') return FORMS.storedExponential
  return null
}

const NOT_A_BACKOFF = `expected { "table": ["1m", "5m"] } or { "exponential": "5s" }, each with an optional "jitter"`

export const backoffField = z.unknown().transform((value, context): Backoff => {
  const read = formOf(value)?.safeParse(value)
  if (read?.success && isCappedBelowBase(read.data)) {
    context.addIssue({ code: 'custom', message: 'cap is shorter than the base, so the delay would never grow' })
  }
  if (read?.success) return read.data
  if (read === undefined) context.addIssue({ code: 'custom', message: NOT_A_BACKOFF })
  for (const { path, message } of read?.error.issues ?? []) context.addIssue({ code: 'custom', path, message })
  return z.NEVER
})

const isCappedBelowBase = (backoff: Backoff): boolean =>
  backoff.kind === 'exponential' && backoff.capMs !== null && backoff.capMs < backoff.baseMs

export function readBackoff(value: unknown, where: string): Backoff {
  const read = backoffField.safeParse(value)
  if (read.success) return read.data
  const problems = read.error.issues.map(({ path, message }) => `${[where, ...path].join(' ')}: ${message}`)
  throw new RedressError('OPTION_INVALID', problems.join('; '), { problems })
}
