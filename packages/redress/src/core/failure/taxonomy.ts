import { RedressError } from '../errors.ts'
import { FAULTS, type Fault } from './failure.ts'

/** What a code says about trying again, before the policy's budget is asked. */
export const RETRY_CLASSES = ['never', 'transient', 'dead-letter'] as const
type RetryClass = (typeof RETRY_CLASSES)[number]
/** What is known of one failure: `unknown` when no rule matched, `final` when the handler said that it is useless. */
export type FoundClass = RetryClass | 'unknown' | 'final'

/** One row of a taxonomy, as its author writes it. */
export interface CodeSpec {
  fault: Fault
  retry: RetryClass
  /** Shown when the job is failed for good. */
  message: string
  /** Shown while a retry is waiting; `message` when left out. */
  waiting?: string
  /** The status an HTTP door answers with when it refuses with this code. */
  http?: number
}

/** The failure codes of a job type, by their name. */
export type Taxonomy<Code extends string = string> = Readonly<Record<Code, Readonly<CodeSpec>>>

const CODE_NAME = /^[A-Z][A-Z0-9_]*$/
const COPY_CHARS_MAX = 200
const FIELDS: ReadonlySet<string> = new Set(['fault', 'retry', 'message', 'waiting', 'http'])

/** Declares the failure codes of a job type. Every mistake in the table is named at once, not one per start. */
export function failureCodes<const T extends Record<string, CodeSpec>>(table: T): Taxonomy<keyof T & string> {
  // JSON and plain JavaScript may bring anything.
  if (typeof table !== 'object' || table === null || Array.isArray(table)) {
    throw new RedressError('TAXONOMY_INVALID', 'the failure codes are not valid: they must be an object, { CODE: ... }')
  }
  const problems = Object.entries(table).flatMap(([code, spec]) => problemsOf(code, spec))
  if (problems.length > 0) {
    throw new RedressError('TAXONOMY_INVALID', `the failure codes are not valid: ${problems.join('; ')}`, { problems })
  }
  return frozen(table)
}

function frozen<Code extends string>(table: Record<Code, CodeSpec>): Taxonomy<Code> {
  const rows = Object.entries<CodeSpec>(table).map(([code, spec]) => [code, Object.freeze({ ...spec })])
  return Object.freeze(Object.fromEntries(rows))
}

function problemsOf(code: string, spec: CodeSpec): string[] {
  if (typeof spec !== 'object' || spec === null) return [`${code}: must be an object`]
  const problems: string[] = []
  if (!CODE_NAME.test(code)) problems.push(`${code}: a code is written in capitals, digits and _, such as GW_TIMEOUT`)
  if (!FAULTS.includes(spec.fault)) problems.push(`${code}.fault: must be one of ${FAULTS.join(', ')}`)
  if (!RETRY_CLASSES.includes(spec.retry)) problems.push(`${code}.retry: must be one of ${RETRY_CLASSES.join(', ')}`)
  if (!isOneLine(spec.message)) problems.push(`${code}.message: must be one line of 1 to ${COPY_CHARS_MAX} characters`)
  if (spec.waiting !== undefined && !isOneLine(spec.waiting)) {
    problems.push(`${code}.waiting: must be one line of 1 to ${COPY_CHARS_MAX} characters`)
  }
  if (spec.http !== undefined && !(Number.isInteger(spec.http) && spec.http >= 400 && spec.http <= 599)) {
    problems.push(`${code}.http: must be a status from 400 to 599`)
  }
  for (const field of Object.keys(spec)) {
    if (!FIELDS.has(field)) problems.push(`${code}.${field}: is not a field of a failure code`)
  }
  return problems
}

function isOneLine(text: unknown): boolean {
  return typeof text === 'string' && text.trim() !== '' && text.length <= COPY_CHARS_MAX && !/[\r\n]/.test(text)
}

/** The codes the engine itself uses. An author's row of the same name replaces the copy and the retry class. */
export const ENGINE_CODES = failureCodes({
  UNKNOWN: {
    fault: 'unknown',
    // A placeholder: when no rule matched, the policy's `retry.unknown` decides (see captureFailure).
    retry: 'transient',
    message: 'Something went wrong that we did not foresee.',
    waiting: 'Something went wrong that we did not foresee. We will try again.',
  },
  TIMEOUT: {
    fault: 'unknown',
    retry: 'transient',
    http: 504,
    message: 'The work took longer than it may.',
    waiting: 'The work took longer than it may. We will try again.',
  },
  TOTAL_TIMEOUT: {
    fault: 'unknown',
    retry: 'never',
    http: 504,
    message: 'The job ran out of the time it had in all.',
    waiting: 'The job ran out of the time it had in all.',
  },
  INPUT_INVALID: {
    fault: 'caller',
    retry: 'never',
    http: 422,
    message: 'The input is not valid. Correct it and submit again.',
    waiting: 'The input is not valid. Correct it and submit again.',
  },
  UNKNOWN_TYPE: {
    fault: 'system',
    retry: 'never',
    message: 'No worker here knows this type of job.',
    waiting: 'No worker here knows this type of job yet.',
  },
  RESULT_INVALID: {
    fault: 'code',
    retry: 'never',
    message: 'The work was done, but its result cannot be stored.',
    waiting: 'The work was done, but its result cannot be stored.',
  },
  OUTPUT_INVALID: {
    fault: 'code',
    // The work was done: the same code would do it again and return the same.
    retry: 'never',
    message: 'The work was done, but its output is not what this type of job declares.',
    waiting: 'The work was done, but its output is not what this type of job declares. We will produce it again.',
  },
  VERIFICATION_FAILED: {
    fault: 'unknown',
    // Not retried unless the author's taxonomy says so: an output that failed its check is a finding, not an accident.
    retry: 'never',
    message: 'The work was done, but its output did not pass verification.',
    waiting: 'The output did not pass verification. We will produce it again.',
  },
  WORKER_LOST: {
    fault: 'system',
    retry: 'transient',
    message: 'The worker doing this job disappeared before it finished.',
    waiting: 'The worker doing this job disappeared. Another one will take it.',
  },
  NEVER_STARTED: {
    fault: 'system',
    retry: 'transient',
    message: 'A worker claimed this job but never started it.',
    waiting: 'A worker claimed this job but never started it. Another one will take it.',
  },
  MEMORY_LIMIT: {
    fault: 'code',
    // A warm thread or process can be full of what earlier jobs left behind; the next try gets a new one.
    retry: 'transient',
    message: 'The work needed more memory than it may use.',
    waiting: 'The work needed more memory than it may use. We will try again.',
  },
  HANDLER_CRASHED: {
    fault: 'code',
    retry: 'transient',
    message: 'The program that does this work ended before it had finished.',
    waiting: 'The program that does this work ended before it had finished. We will try again.',
  },
  HANDLER_NOT_LOADED: {
    fault: 'operator',
    // The next deployment mends it, without a change of the job.
    retry: 'transient',
    message: 'The program that does this work could not be loaded.',
    waiting: 'The program that does this work could not be loaded. We will try again.',
  },
  QUARANTINED: {
    fault: 'code',
    retry: 'dead-letter',
    message: 'This job was set aside because its workers died again and again.',
    waiting: 'This job was set aside because its workers died again and again.',
  },
  SHUTDOWN: {
    fault: 'system',
    retry: 'transient',
    message: 'The worker was shut down before it finished this job.',
    waiting: 'The worker was shut down before it finished. The job will be taken up again.',
  },
  MARKED_FAILED: {
    fault: 'operator',
    retry: 'never',
    message: 'An operator marked this job as failed.',
    waiting: 'An operator marked this job as failed.',
  },
  LOG_FAILED: {
    fault: 'system',
    retry: 'never',
    message: 'The outcome could not be written to the failure log, so the job does not count as done.',
    waiting: 'The outcome could not be written to the failure log, so the job does not count as done.',
  },
  TTL_EXPIRED: {
    fault: 'system',
    retry: 'never',
    http: 504,
    message: 'The job waited longer than it may, so it was not begun. Submit it again if it is still needed.',
    waiting: 'The job waited longer than it may, so it was not begun. Submit it again if it is still needed.',
  },
  BREAKER_OPEN: {
    fault: 'dependency',
    retry: 'never',
    http: 503,
    message: 'A service that this job needs is failing at the moment, so it was not tried. Submit it again later.',
    waiting: 'A service that this job needs is failing at the moment.',
  },
  SNOOZE_REFUSED: {
    fault: 'code',
    retry: 'never',
    message: 'The job asked to be put off in a way its policy does not allow.',
    waiting: 'The job asked to be put off in a way its policy does not allow.',
  },
  IMPORTED: {
    fault: 'unknown',
    retry: 'never',
    message: 'This job had failed before it was imported from another system.',
    waiting: 'This job had failed before it was imported from another system.',
  },
  CODE_UNDECLARED: {
    fault: 'code',
    retry: 'never',
    message: 'The job failed for a reason its own table of failures does not name.',
    waiting: 'The job failed for a reason its own table of failures does not name.',
  },
})

export type EngineCode = keyof typeof ENGINE_CODES

export function withEngineCodes<Code extends string>(taxonomy: Taxonomy<Code>): Taxonomy<Code | EngineCode> {
  return Object.freeze({ ...ENGINE_CODES, ...taxonomy })
}
