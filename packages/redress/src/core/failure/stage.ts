import { z } from 'zod'
import { RedressError } from '../errors.ts'
import { type Backoff, type BackoffInput, backoffMs, readBackoff } from '../policy/backoff.ts'
import type { Policy } from '../policy/policy.ts'
import { DURATION_MS_MAX, type Duration, durationMs } from '../text/duration.ts'
import { isName } from '../text/names.ts'
import { optionNames, refuseUnknownOptions } from '../text/options.ts'
import { count, name } from '../views/fields.ts'
import type { Rule } from './classify.ts'
import type { FoundClass } from './taxonomy.ts'

/** The record of a failed try. */
interface FailedTry<Code extends string = string> {
  code: Code
  /** What the taxonomy says of the code; 'unknown' when no rule matched. */
  retry: FoundClass
  /** Which try it was, from 1. */
  number: number
}

/** How one part of an attempt is tried again within the attempt. */
export interface StageOptions<Code extends string = string> {
  /** Tries including the first; 1 when left out. */
  max?: number
  /** The wait between tries; none when left out. If an error has its own Retry-After, the longer of the two counts. */
  backoff?: BackoffInput | null
  /** The longest wait that an error's own Retry-After may ask for: the attempt holds its slot meanwhile. */
  retryAfterMax?: Duration
  /** How long one try may take. */
  timeout?: Duration
  /** Rules for this stage, asked before those of the job type. */
  classify?: readonly Rule<Code>[]
  /** Decides instead of the taxonomy whether to try again. */
  retryIf?(error: unknown, found: FailedTry<Code>): boolean
  /** `fail`: when the stage gives up, so does the job, whatever attempts it has left. `retry`: its policy decides. */
  exhausted?: 'fail' | 'retry'
  /** The attempt's code when all tries are used up; that of the last error when left out. */
  exhaustedCode?: Code
}

export interface CheckedStage {
  name: string
  max: number
  backoff: Backoff | null
  retryAfterMsMax: number
  timeoutMs: number | null
  isFinal: boolean
  exhaustedCode: string | null
}

const TRIES_MAX = 1000
const RETRY_AFTER_MS_DEFAULT = 60_000
const FIELDS = optionNames<StageOptions>({
  max: true,
  backoff: true,
  retryAfterMax: true,
  timeout: true,
  classify: true,
  retryIf: true,
  exhausted: true,
  exhaustedCode: true,
})

/** Every mistake in the options of a stage, named before its first try. */
export function checkStage(name: string, options: StageOptions, codes: object): CheckedStage {
  if (!isName(name)) {
    throw invalid(
      `${JSON.stringify(name)} is not a name for a stage: begin with a letter, then letters, digits and . _ : -`,
    )
  }
  refuseUnknownOptions(`The stage ${name}`, options, FIELDS)
  const { max = 1, backoff = null, retryAfterMax, timeout, exhausted = 'retry', exhaustedCode = null } = options
  const complain = (problem: string) => invalid(`stage ${name}: ${problem}`)
  if (!Number.isSafeInteger(max) || max < 1 || max > TRIES_MAX) {
    throw complain(`max must be a whole number from 1 to ${TRIES_MAX}, not ${String(max)}`)
  }
  if (exhausted !== 'fail' && exhausted !== 'retry') {
    throw complain(`exhausted must be 'fail' or 'retry', not ${JSON.stringify(exhausted)}`)
  }
  if (exhaustedCode !== null && !Object.hasOwn(codes, exhaustedCode)) {
    throw complain(`exhaustedCode: the taxonomy has no code ${exhaustedCode}`)
  }
  const timeoutMs = timeout === undefined ? null : durationMs(timeout, `stage ${name}: timeout`)
  if (timeoutMs === 0) throw complain('a timeout of nothing would leave no try any time')
  return {
    name,
    max,
    backoff: backoff === null ? null : readBackoff(backoff, `stage ${name}: backoff`),
    retryAfterMsMax:
      retryAfterMax === undefined ? RETRY_AFTER_MS_DEFAULT : durationMs(retryAfterMax, `stage ${name}: retryAfterMax`),
    timeoutMs,
    isFinal: exhausted === 'fail',
    exhaustedCode,
  }
}

const invalid = (message: string) => new RedressError('OPTION_INVALID', `${message}.`)

/** Why a stage does not try again. */
export type GaveUp =
  /** All tries are used up. */
  | 'exhausted'
  /** Trying again is useless: the code is never retried. */
  | 'final'
  /** `retryIf` said no. */
  | 'declined'
  /** The attempt's time would be over before the next try. */
  | 'no-time'

export type StageDecision = { kind: 'again'; delayMs: number } | { kind: 'give-up'; why: GaveUp }

export interface StageSoFar {
  stage: CheckedStage
  /** The try that just failed, from 1. */
  number: number
  retry: FoundClass
  retryAfterMs: number | null
  /** What `retryIf` answered; null where there is none. */
  wanted: boolean | null
  /** How much time the attempt has left. */
  leftMs: number
}

/** Called after a try failed. The class of the code decides, unless the author's `retryIf` does. */
export function decideStage(
  { stage, number, retry, retryAfterMs, wanted, leftMs }: StageSoFar,
  unknown: Policy['retry']['unknown'],
  chance: number,
): StageDecision {
  const giveUp = (why: GaveUp): StageDecision => ({ kind: 'give-up', why })
  if (wanted === false) return giveUp('declined')
  if (wanted === null && (retry === 'unknown' ? unknown : retry) !== 'transient') return giveUp('final')
  if (number >= stage.max) return giveUp('exhausted')
  const delayMs = delayFor(stage, number, retryAfterMs, chance)
  // Better the code of what really failed than that of a time limit which would only cut the wait short.
  return delayMs >= leftMs ? giveUp('no-time') : { kind: 'again', delayMs }
}

function delayFor(stage: CheckedStage, number: number, retryAfterMs: number | null, chance: number): number {
  const ownMs = stage.backoff === null ? 0 : backoffMs(stage.backoff, number - 1, chance).delayMs
  if (retryAfterMs === null || Number.isNaN(retryAfterMs)) return ownMs
  return Math.ceil(Math.max(ownMs, Math.min(retryAfterMs, stage.retryAfterMsMax, DURATION_MS_MAX)))
}

/** One failed try in the record of its stage; redacted and short. */
export interface TryRecord {
  try: number
  code: string
  said: string
  httpStatus?: number
  /** What the author said about it. */
  context?: unknown
}

/** What `failure.context.stage` says when a stage gave up. */
export interface StageRecord {
  name: string
  tries: number
  max: number
  /** `stopped`: a time limit of the whole attempt cut it short. */
  gaveUp: GaveUp | 'stopped'
  /** The newest tries, the last one last. */
  lastErrors: TryRecord[]
}

export const LAST_ERRORS_MAX = 5
export const TRY_CHARS_MAX = 200

/** All runs of one stage in one attempt, as its event keeps them: only where something was tried again or gave up. */
export const stageSummarySchema = z.strictObject({
  name,
  runs: count.describe('how often the stage was entered'),
  tries: count,
  max: count,
  succeeded: count,
  // Runs that gave up. Those that neither succeeded nor failed were cut short.
  failed: count,
  codes: z.record(name, count).describe('failed tries by code'),
})
export type StageSummary = z.infer<typeof stageSummarySchema>

const STAGES_MAX = 20
const CODES_MAX = 10
/** Stands for what did not fit. */
const REST = 'others'

/** Counts the stages of an attempt. Stages made in a loop share a line, and lines beyond the bound share the last. */
export class StageLog {
  readonly #byName = new Map<string, StageSummary>()

  begun({ name, max }: CheckedStage): StageSummary {
    const key = this.#byName.has(name) || this.#byName.size < STAGES_MAX ? name : REST
    const line = this.#byName.get(key) ?? { name: key, runs: 0, tries: 0, max, succeeded: 0, failed: 0, codes: {} }
    this.#byName.set(key, line)
    line.runs++
    line.max = Math.max(line.max, max)
    return line
  }

  /** null when no try of any stage failed: then there is nothing to tell. */
  summary(): StageSummary[] | null {
    const failing = [...this.#byName.values()].filter(({ codes }) => Object.keys(codes).length > 0)
    return failing.length === 0 ? null : failing.map((line) => ({ ...line, codes: { ...line.codes } }))
  }
}

export function countCode({ codes }: StageSummary, code: string): void {
  const isKnown = Object.hasOwn(codes, code)
  const name = isKnown || Object.keys(codes).length < CODES_MAX ? code : REST
  codes[name] = (Object.hasOwn(codes, name) ? (codes[name] ?? 0) : 0) + 1
}

/** 'download: 3 tries of 3, gave up (GW_5XX 2, TIMEOUT 1)'. */
export function stageInWords({ name, runs, tries, max, succeeded, failed, codes }: StageSummary): string {
  const each = runs === 1 ? `${tries} ${tries === 1 ? 'try' : 'tries'} of ${max}` : `${tries} tries in ${runs} runs`
  const cutShort = runs - succeeded - failed
  const ended =
    runs === 1
      ? failed === 1
        ? 'gave up'
        : succeeded === 1
          ? 'succeeded'
          : 'cut short'
      : `${failed} gave up${cutShort === 0 ? '' : `, ${cutShort} cut short`}`
  const found = Object.entries(codes).map(([code, count]) => `${code} ${count}`)
  return `${name}: ${each}, ${ended}${found.length === 0 ? '' : ` (${found.join(', ')})`}`
}
