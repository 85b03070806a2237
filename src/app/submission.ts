import { captureFailure, engineFailure } from '../core/capture.ts'
import type { DecidedFailure } from '../core/change.ts'
import type { Rule } from '../core/classify.ts'
import { durationMs } from '../core/duration.ts'
import { RedressError } from '../core/errors.ts'
import { noticesOfFailure } from '../core/notices.ts'
import type { Policy } from '../core/policy.ts'
import type { Taxonomy } from '../core/taxonomy.ts'
import type { MakeId } from '../runtime/id.ts'
import { currentTrace } from '../runtime/tracing.ts'
import type { DedupeScope, NewJob, Submitted } from '../store/store.ts'
import type { DedupeKey, SubmitManyOptions, SubmitOptions } from './job-type.ts'

const PRIORITY_MAX = 1_000_000
const DEDUPE_CHARS_MAX = 1_000
const OWNER_CHARS_MAX = 200
const LIMIT_KEY_CHARS_MAX = 200
const DEDUPE_SCOPES: readonly DedupeScope[] = ['live', 'always']
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

/** Options of a submission, checked and put in the store's words. */
export function newJob(type: string, payload: string, options: SubmitOptions, makeId: MakeId): NewJob {
  const { owner, priority = 0, delay, dedupe, id, batch, limitKey } = options
  if (!Number.isSafeInteger(priority) || Math.abs(priority) > PRIORITY_MAX) {
    throw invalid(`priority must be a whole number from -${PRIORITY_MAX} to ${PRIORITY_MAX}, not ${String(priority)}`)
  }
  checkOwnerAndId(options)
  if (batch !== undefined && (typeof batch !== 'string' || batch === ''))
    throw invalid('batch must be the id of a batch')
  checkLimitKey(limitKey)
  return {
    id: id ?? makeId(),
    type,
    payload,
    owner: owner ?? null,
    priority,
    delayMs: delay === undefined ? 0 : durationMs(delay, 'delay'),
    dedupe: dedupe === undefined ? null : toDedupe(dedupe),
    retriedFrom: null,
    rejected: null,
    batch: batch ?? null,
    limitKey: limitKey ?? null,
    trace: currentTrace(),
  }
}

/** For the span of a submission. */
export function factsOfSubmission(submitted: readonly Submitted[]): Record<string, string | number | boolean> {
  const [first] = submitted
  if (submitted.length !== 1 || first === undefined) return { 'messaging.batch.message_count': submitted.length }
  return { 'redress.job.id': first.id, 'redress.is_new': first.isNew }
}

/** The same of the operation: what it answers has the job, and with a dry run none. */
export function factsOfSubmitted(output: unknown): Record<string, string | number | boolean> {
  const { job, isDone } = output as { job: { id: string } | null; isDone: boolean }
  return job === null ? {} : { 'redress.job.id': job.id, 'redress.is_new': isDone }
}

export function checkOwnerAndId({ owner, id }: Pick<SubmitOptions, 'owner' | 'id'>): void {
  if (owner !== undefined && (typeof owner !== 'string' || owner === '' || owner.length > OWNER_CHARS_MAX)) {
    throw invalid(`owner must be a text of 1 to ${OWNER_CHARS_MAX} characters`)
  }
  if (id !== undefined && !UUID.test(id)) throw invalid('id must be a UUID in lower case')
}

function checkLimitKey(limitKey: unknown): void {
  if (limitKey === undefined) return
  if (typeof limitKey === 'string' && limitKey !== '' && limitKey.length <= LIMIT_KEY_CHARS_MAX) return
  throw invalid(`limitKey must be a text of 1 to ${LIMIT_KEY_CHARS_MAX} characters`)
}

/** Each with what its own options say; a refusal names the one it is about. */
export async function prepareMany<Input>(
  inputs: readonly Input[],
  { dedupe, limitKey, ...options }: SubmitManyOptions<Input>,
  prepare: (input: Input, options: SubmitOptions) => Promise<NewJob>,
): Promise<NewJob[]> {
  const jobs: NewJob[] = []
  for (const [i, input] of inputs.entries()) {
    const key = dedupe?.(input, i)
    const turn = typeof limitKey === 'function' ? limitKey(input, i) : limitKey
    const own = { ...(key !== undefined && { dedupe: key }), ...(turn !== undefined && { limitKey: turn }) }
    try {
      jobs.push(await prepare(input, { ...options, ...own }))
    } catch (error) {
      throw naming(error, i, inputs.length)
    }
  }
  return jobs
}

/** The same refusal, saying which of many inputs it is about. */
export function naming(error: unknown, index: number, count: number): unknown {
  if (!(error instanceof RedressError) || count === 1) return error
  const { code, action, problems, cause } = error
  const message = `Input ${index} (counted from 0) of ${count}: ${error.message} Nothing was submitted.`
  return new RedressError(code, message, { action, problems, cause })
}

function toDedupe(dedupe: NonNullable<SubmitOptions['dedupe']>): NewJob['dedupe'] {
  if (typeof dedupe !== 'object' || dedupe === null || isKeyParts(dedupe))
    return { key: packKey(dedupe), scope: 'live' }
  const { key, scope } = dedupe
  if (!DEDUPE_SCOPES.includes(scope)) {
    throw invalid(`the scope of a dedupe key must be one of ${DEDUPE_SCOPES.join(', ')}, not ${String(scope)}`)
  }
  return { key: packKey(key), scope }
}

const isKeyParts = (dedupe: object): dedupe is Exclude<DedupeKey, string> => Array.isArray(dedupe)

/** ['a', 'b,c'] and ['a,b', 'c'] must not be one key. */
function packKey(key: DedupeKey): string {
  // Checked although it is typed: null and NaN are the same in JSON, and a key that says nothing joins all jobs in one.
  const isKey = typeof key === 'string' || (Array.isArray(key) && key.length > 0 && key.every(isKeyPart))
  if (!isKey) throw invalid('a dedupe key must be a text, or a list of texts, numbers and nulls')
  const packed = typeof key === 'string' ? key : JSON.stringify(key)
  if (packed === '' || packed.length > DEDUPE_CHARS_MAX) {
    throw invalid(`a dedupe key must have 1 to ${DEDUPE_CHARS_MAX} characters, not ${packed.length}`)
  }
  return packed
}

const isKeyPart = (part: unknown): boolean => typeof part === 'string' || part === null || Number.isFinite(part)

const invalid = (message: string) => new RedressError('OPTION_INVALID', `${message}.`)

/** Recorded as a failed job, and told to whom its policy names. */
export function asRejected(job: NewJob, rejected: DecidedFailure, policy: Policy, nowMs: number): NewJob {
  const isForwardOnly = policy.forwardOnly
  const facts = { ...job, attempt: 0, spent: null, createdAtMs: nowMs, retriedFrom: null, isForwardOnly }
  const notices = noticesOfFailure(facts, rejected, policy)
  return { ...job, rejected, ...(notices.length > 0 && { notices }) }
}

/** The failure of a submission that is recorded instead of only refused (`reject: 'record'`). */
export function rejection(
  type: string,
  codes: Taxonomy,
  rules: readonly Rule[],
  thrown: unknown,
  nowMs: number,
): DecidedFailure {
  const stage = 'pre_dispatch'
  const failure =
    thrown instanceof RedressError
      ? engineFailure({
          code: 'INPUT_INVALID',
          stage,
          type,
          codes,
          detail: [thrown.message, ...thrown.problems].join('\n'),
          context: { problems: thrown.problems },
        })
      : captureFailure({ thrown, stage, type, codes, rules, nowMs }).failure
  return {
    ...failure,
    decision: {
      because: 'it was refused at submission and never dispatched',
      rule: 'reject = record',
      budget: { name: 'retry.max', before: 0, after: 1, max: 1 },
    },
  }
}

/** What the caller is told of a submission that is only refused. */
export function refusal({ type, codes, rules }: Refusing, thrown: unknown, nowMs: number): RedressError {
  if (thrown instanceof RedressError) return thrown
  const { failure } = captureFailure({ thrown, stage: 'pre_dispatch', type, codes, rules, nowMs })
  return new RedressError('SUBMISSION_REFUSED', `${failure.code}: ${failure.message}`, { cause: thrown })
}

interface Refusing {
  type: string
  codes: Taxonomy
  rules: readonly Rule[]
}
