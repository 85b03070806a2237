import { z } from 'zod'
import { type Duration, durationField, HOUR_MS, MINUTE_MS, SECOND_MS } from '../text/duration.ts'
import { type DeepReadonly, listOf, name, number } from '../views/fields.ts'

/** The sections of a policy about limits and notices. */

const BREAKER_MODES = ['hold', 'fail-fast'] as const
export const ROLLUPS = ['all-or-nothing', 'partial', 'any-permanent'] as const
const RATE_SCOPES = ['type', 'key'] as const
/** What a notice can be about. */
const NOTICE_KINDS = ['failed', 'orphaned', 'settled'] as const

type BreakerMode = (typeof BREAKER_MODES)[number]
export type Rollup = (typeof ROLLUPS)[number]
export type NoticeKind = (typeof NOTICE_KINDS)[number]

const breakerSchema = z.strictObject({
  // One breaker per name, whatever job types call it.
  guards: name.describe('the dependency it guards'),
  mode: z.enum(BREAKER_MODES).describe('hold: jobs stay queued and spend nothing; fail-fast: they fail at once'),
  windowCalls: number.describe('at most this many of the newest calls are looked at, and none older than windowMs'),
  windowMs: number,
  minCalls: number.describe('fewer calls than this say nothing'),
  ratio: number.describe('opens when at least this share of them failed'),
  cooldownMs: number.describe('how long it stays open before it tries'),
  halfOpenProbes: number.describe('calls that may be under way at once while it tries'),
  probesToClose: number.describe('successes in a row that close it'),
  rampMs: number.describe('after closing, how long until full speed is allowed again'),
  code: name.nullable().describe('the failure code of a job that fails fast; BREAKER_OPEN when null'),
})

/** Retries may be at most `ratio` of first dispatches, and `perMinute` beside that; more of them wait. */
export const retryBudgetSchema = z.strictObject({ ratio: number, perMinute: number })

const channelNames = listOf(name)

export const flowFields = {
  breaker: breakerSchema.nullable(),
  concurrency: z
    .strictObject({ max: number.nullable(), perKey: number.nullable() })
    .describe('null: as many as there are slots; perKey counts jobs with the same limit key'),
  rate: z
    .strictObject({ max: number, perMs: number, burst: number, scope: z.enum(RATE_SCOPES) })
    .nullable()
    .describe('dispatches per time: max in perMs on average, at most burst at once'),
  backlog: z
    .strictObject({ max: number.nullable() })
    .describe('jobs of this type that may wait; more are refused at submission; null: any number'),
  rollup: z.enum(ROLLUPS).describe('what a batch of such jobs comes to when some failed'),
  notify: z
    .strictObject({ failed: channelNames, orphaned: channelNames, settled: channelNames, windowMs: number })
    .describe('names of channels, by what happened; one notice per cause is sent in each window'),
}

type FlowPolicy = DeepReadonly<z.infer<z.ZodObject<typeof flowFields>>>
export type BreakerPolicy = NonNullable<FlowPolicy['breaker']>
export type RatePolicy = NonNullable<FlowPolicy['rate']>
export type RetryBudgetPolicy = DeepReadonly<z.infer<typeof retryBudgetSchema>>
export type NotifyPolicy = FlowPolicy['notify']

export interface FlowPolicyInput {
  breaker?: {
    guards: string
    mode?: BreakerMode
    windowCalls?: number
    window?: Duration
    minCalls?: number
    ratio?: number
    cooldown?: Duration
    halfOpenProbes?: number
    probesToClose?: number
    ramp?: Duration
    code?: string | null
  } | null
  concurrency?: number | { max?: number | null; perKey?: number | null }
  rate?: { max: number; per?: Duration; burst?: number; scope?: (typeof RATE_SCOPES)[number] } | null
  backlog?: { max?: number | null }
  rollup?: Rollup
  notify?: { [Kind in NoticeKind]?: readonly string[] } & { window?: Duration }
}

const nameField = z.string().regex(/^[A-Za-z][\w.:-]{0,99}$/, 'must be a name of letters, digits and . _ : -')
const many = z.int().min(1).max(1_000_000)
const channels = z.array(nameField).max(20).default([])

export const FLOW_FIELDS = {
  breaker: {
    guards: nameField,
    mode: z.enum(BREAKER_MODES).default('hold'),
    windowCalls: many.default(20),
    window: durationField(SECOND_MS).default(2 * MINUTE_MS),
    minCalls: many.default(10),
    ratio: z.number().gt(0).max(1).default(0.5),
    cooldown: durationField(1).default(30 * SECOND_MS),
    halfOpenProbes: z.int().min(1).max(1_000).default(1),
    probesToClose: z.int().min(1).max(1_000).default(3),
    ramp: durationField().default(30 * SECOND_MS),
    code: z.string().nullable().default(null),
  },
  concurrency: { max: many.nullable().default(null), perKey: many.nullable().default(null) },
  rate: {
    max: many,
    per: durationField(1).default(SECOND_MS),
    burst: many.optional(),
    scope: z.enum(RATE_SCOPES).default('type'),
  },
  backlog: { max: many.nullable().default(null) },
  notify: {
    failed: channels,
    orphaned: channels,
    settled: channels,
    window: durationField().default(HOUR_MS),
  },
}

export const RETRY_BUDGET_FIELD = z
  .strictObject({
    ratio: z.number().min(0).max(10).default(0.1),
    perMinute: z.number().gt(0).max(1_000_000).default(60),
  })
  .nullable()
  .default(null)

export const FLOW_SECTIONS = {
  breaker: z
    .strictObject(FLOW_FIELDS.breaker)
    .transform(
      ({ window, cooldown, ramp, ...rest }): BreakerPolicy => ({
        ...rest,
        windowMs: window,
        cooldownMs: cooldown,
        rampMs: ramp,
      }),
    )
    .nullable()
    .default(null),
  concurrency: z.strictObject(FLOW_FIELDS.concurrency).prefault({}),
  rate: z
    .strictObject(FLOW_FIELDS.rate)
    .transform(({ max, per, burst, scope }): RatePolicy => ({ max, perMs: per, burst: burst ?? max, scope }))
    .nullable()
    .default(null),
  backlog: z.strictObject(FLOW_FIELDS.backlog).prefault({}),
  rollup: z.enum(ROLLUPS).default('partial'),
  notify: z
    .strictObject(FLOW_FIELDS.notify)
    .transform(({ window, ...kinds }): NotifyPolicy => ({ ...kinds, windowMs: window }))
    .prefault({}),
}
