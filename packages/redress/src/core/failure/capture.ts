import { redactAndClip, redactValue } from '../text/redact.ts'
import { classify, NO_RULE, type Rule } from './classify.ts'
import { asAttemptFailed, causesOf, chainOf, describe, type Facts, factsOf, retryAfterMs } from './facts.ts'
import { type CauseLink, type Failure, LAYER_OF_PHASE, type Phase } from './failure.ts'
import { fingerprint } from './fingerprint.ts'
import { type CodeSpec, ENGINE_CODES, type EngineCode, type FoundClass, type Taxonomy } from './taxonomy.ts'

export interface CaptureInput {
  thrown: unknown
  phase: Phase
  type: string
  /** The job type's codes together with the engine's; see withEngineCodes. */
  codes: Taxonomy
  rules: readonly Rule[]
  context?: Readonly<Record<string, unknown>> | undefined
  nowMs: number
}

export interface Captured {
  failure: Failure
  /** 'unknown' when no rule matched: then the policy's `retry.unknown` decides. */
  retry: FoundClass
  /** How long the other side asked us to wait. */
  retryAfterMs: number | null
}

/** Turns whatever was thrown into a record of the failure. Never throws: a failure that cannot be read is one still. */
export function captureFailure(input: CaptureInput): Captured {
  try {
    return capture(input)
  } catch (trouble) {
    const detail = `the thrown value could not be examined: ${describe(trouble)}`
    const failure = engineFailure({ code: 'UNKNOWN', phase: input.phase, type: input.type, detail })
    return { failure, retry: 'unknown', retryAfterMs: null }
  }
}

function capture({ thrown, phase, type, codes, rules, context, nowMs }: CaptureInput): Captured {
  const chain = chainOf(thrown)
  const facts = factsOf(thrown, phase, chain)
  const { code, rule } = classify(facts, rules, codes)
  const spec = specOf(code, codes)
  const declared = chain.map(asAttemptFailed).find((link) => link !== null)
  // What was said with a code belongs to that code.
  const own = declared?.code === code ? declared : undefined
  const note = own?.publicNote ? ` ${redactAndClip(own.publicNote, 200)}` : ''
  const detail = describe(thrown)
  const causes = causesOf(thrown, chain)
  return {
    failure: {
      phase: phase,
      layer: LAYER_OF_PHASE[phase],
      code,
      fault: spec.fault,
      message: spec.message + note,
      waiting: (spec.waiting ?? spec.message) + note,
      detail,
      context: { ...known(facts), ...authored(context), ...authored(declared?.context) },
      causes,
      rule,
      fingerprint: fingerprint({ type, code, message: storyOf(facts, causes), frames: detail.split('\n') }),
    },
    retry: own?.isFinal === true ? 'final' : rule === NO_RULE ? 'unknown' : spec.retry,
    retryAfterMs: retryAfterMs(facts, nowMs),
  }
}

function specOf(code: string, codes: Taxonomy): Readonly<CodeSpec> {
  const table = Object.hasOwn(codes, code) ? codes : (ENGINE_CODES as Taxonomy)
  return table[code] ?? ENGINE_CODES.UNKNOWN
}

/** "fetch failed" alone says nothing: what it failed of is further down the chain. */
function storyOf(facts: Facts, causes: readonly CauseLink[]): string {
  let story = `${facts.name}: ${facts.message}`
  for (const cause of causes) story += `\n${cause.name}: ${cause.message}`
  return story
}

function known(facts: Facts): Record<string, unknown> {
  const { errno, syscall, exitCode, signal, httpStatus, s3Code, subject, stderrTail } = facts
  const context: Record<string, unknown> = {}
  if (errno !== null) context.errno = errno
  if (syscall !== null) context.syscall = syscall
  if (exitCode !== null) context.exitCode = exitCode
  if (signal !== null) context.signal = signal
  if (httpStatus !== null) context.httpStatus = httpStatus
  if (s3Code !== null) context.s3Code = s3Code
  if (subject !== null) context.subject = subject
  if (stderrTail !== null) context.stderrTail = stderrTail
  return context
}

function authored(context: Readonly<Record<string, unknown>> | undefined): object | undefined {
  if (context === undefined) return undefined
  const copy = redactValue(context)
  return typeof copy === 'object' && copy !== null && !Array.isArray(copy) ? copy : { context: copy }
}

export interface EngineFailureInput {
  code: EngineCode
  /** A code of the author's for the same, where the policy names one. */
  as?: string | null
  phase: Phase
  type: string
  detail: string
  context?: Readonly<Record<string, unknown>> | undefined
  /** The job type's own rows may replace the engine's copy. */
  codes?: Taxonomy | undefined
}

export interface ImportedFailureInput {
  type: string
  /** The error as the other system kept it: its message, perhaps with a stack. */
  error: string
  context: Readonly<Record<string, unknown>>
  codes?: Taxonomy | undefined
}

/** The failure of a job that another system has run. Its groups follow the original error, not only the code. */
export function importedFailure({ type, error, context, codes }: ImportedFailureInput): Failure {
  const failure = engineFailure({ code: 'IMPORTED', phase: 'execution', type, detail: error, context, codes })
  const [message = '', ...frames] = failure.detail.split('\n')
  return {
    ...failure,
    rule: 'imported as failed',
    fingerprint: fingerprint({ type, code: failure.code, message, frames }),
  }
}

/** A failure without a thrown value: a lost worker, an operator's decision. Each code is one cause, so it is one group. */
export function engineFailure({ as, phase, type, detail, context, codes, ...engine }: EngineFailureInput): Failure {
  const code = as ?? engine.code
  const spec = specOf(code, codes ?? ENGINE_CODES)
  return {
    phase: phase,
    layer: LAYER_OF_PHASE[phase],
    code,
    fault: spec.fault,
    message: spec.message,
    waiting: spec.waiting ?? spec.message,
    detail: redactAndClip(detail, 4000),
    context: { ...authored(context) },
    causes: [],
    rule: 'decided by the engine',
    fingerprint: fingerprint({ type, code, message: '', frames: [] }),
  }
}
