import { RedressError } from '../../core/errors.ts'
import { captureFailure, engineFailure } from '../../core/failure/capture.ts'
import type { Rule } from '../../core/failure/classify.ts'
import type { Taxonomy } from '../../core/failure/taxonomy.ts'
import type { DecidedFailure } from '../../core/job/change.ts'
import { noticesOfFailure, refuseOwnType } from '../../core/notice/notice.ts'
import type { Policy } from '../../core/policy/policy.ts'
import { durationMs } from '../../core/text/duration.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { MakeId } from '../../runtime/id.ts'
import type { DedupeScope, NewJob, Store, Submitted } from '../../store/contract/store.ts'
import type { Executor } from '../../store/contract/transactional.ts'
import { currentTrace, traceSubmission } from '../../tracing/tracing.ts'
import type { DeclaredTypes } from './declared.ts'
import type { DedupeKey, SubmitManyOptions, SubmitOptions } from './job-type.ts'

const PAYLOAD_BYTES_MAX = 1024 * 1024
const PRIORITY_MAX = 1_000_000
const DEDUPE_CHARS_MAX = 1_000
const OWNER_CHARS_MAX = 200
const LIMIT_KEY_CHARS_MAX = 200
const DEDUPE_SCOPES: readonly DedupeScope[] = ['live', 'always']
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

/** A submission that was checked and is in no store yet: `submitIn` puts it there. */
export interface PreparedJob {
  /** The job's, unless a twin with the same dedupe key is there already. */
  readonly id: string
  readonly type: string
}

interface Prepared {
  store: Store
  job: NewJob
}

interface SubmissionsOptions {
  store: () => Promise<Store>
  clock: Clock
  makeId: MakeId
  types: DeclaredTypes
  payloadBytesMax: number | undefined
}

/** Checks jobs and submits them, also in a transaction of the caller: see docs/guides/jobs/transactional-submit.md. */
export class Submissions {
  readonly #options: SubmissionsOptions
  /** Kept beside them: a prepared job cannot be changed afterwards, and nothing else can be submitted. */
  readonly #prepared = new WeakMap<PreparedJob, Prepared>()

  constructor(options: SubmissionsOptions) {
    this.#options = options
  }

  async submit(type: string, input: unknown, options: SubmitOptions): Promise<Submitted> {
    const store = await this.#options.store()
    const submit = async () => store.submit({ jobs: [await this.check(type, input, options)] })
    const submitted = await traceSubmission(type, submit, factsOfSubmission)
    return submitted[0] as Submitted
  }

  async submitMany<Input>(
    type: string,
    inputs: readonly Input[],
    options: SubmitManyOptions<Input>,
  ): Promise<Submitted[]> {
    const store = await this.#options.store()
    const submit = async () => {
      const jobs = await checkMany(inputs, options, (input, own) => this.check(type, input, own))
      return jobs.length === 0 ? [] : store.submit({ jobs })
    }
    return traceSubmission(type, submit, factsOfSubmission)
  }

  /** Finds everything that can be wrong with a submission, before the store is asked. */
  async check(type: string, input: unknown, options: SubmitOptions): Promise<NewJob> {
    const { clock, makeId, types, payloadBytesMax = PAYLOAD_BYTES_MAX } = this.#options
    refuseOwnType(type)
    const declared = types.get(type)
    const payload = packPayload(type, input, payloadBytesMax)
    // A type of another program: its worker checks the input before it runs.
    if (declared === undefined) return newJob(type, payload, options, makeId)
    const { handler, admit, limitKey } = declared
    let own = options
    try {
      // As it will be read back: a Date fits its schema today, and is a text when the worker gets it.
      const read = handler.readInput(JSON.parse(payload))
      const value = read instanceof Promise ? await read : read
      await admit?.(value, options.owner ?? null)
      const key = limitKey === null ? undefined : await limitKey(value)
      if (key !== undefined) own = { ...options, limitKey: key as string }
    } catch (thrown) {
      if (handler.policy.reject === 'refuse') throw refusal(handler, thrown, clock.nowMs())
      const rejected = rejection(type, handler.codes, handler.rules, thrown, clock.nowMs())
      return asRejected(newJob(type, payload, options, makeId), rejected, handler.policy, clock.nowMs())
    }
    return newJob(type, payload, own, makeId)
  }

  /** Waits for everything that takes time, so that the caller's transaction need not wait. */
  async prepare(type: string, input: unknown, options: SubmitOptions): Promise<PreparedJob> {
    const store = await this.#options.store()
    const job = await this.check(type, input, options)
    const prepared: PreparedJob = Object.freeze({ id: job.id, type })
    this.#prepared.set(prepared, { store, job })
    return prepared
  }

  submitIn(executor: Executor, jobs: PreparedJob | readonly PreparedJob[]): Submitted[] | Promise<Submitted[]> {
    const prepared = (isMany(jobs) ? jobs : [jobs]).map((one) => this.#needed(one))
    const [first] = prepared
    if (first === undefined) return []
    const { store } = first
    if (store.submitIn === undefined) {
      throw new RedressError('TX_UNSUPPORTED', 'This store cannot submit in a transaction of yours.')
    }
    return store.submitIn({ executor, jobs: prepared.map(({ job }) => job) })
  }

  #needed(job: PreparedJob): Prepared {
    const prepared = this.#prepared.get(job)
    if (prepared !== undefined) return prepared
    throw new RedressError(
      'OPTION_INVALID',
      'submitIn takes what `prepare` of this app answered with, and nothing else.',
    )
  }
}

const isMany = (jobs: PreparedJob | readonly PreparedJob[]): jobs is readonly PreparedJob[] => Array.isArray(jobs)

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
function factsOfSubmission(submitted: readonly Submitted[]): Record<string, string | number | boolean> {
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
async function checkMany<Input>(
  inputs: readonly Input[],
  { dedupe, limitKey, ...options }: SubmitManyOptions<Input>,
  check: (input: Input, options: SubmitOptions) => Promise<NewJob>,
): Promise<NewJob[]> {
  const jobs: NewJob[] = []
  for (const [i, input] of inputs.entries()) {
    const key = dedupe?.(input, i)
    const ownLimitKey = typeof limitKey === 'function' ? limitKey(input, i) : limitKey
    const own = {
      ...(key !== undefined && { dedupe: key }),
      ...(ownLimitKey !== undefined && { limitKey: ownLimitKey }),
    }
    try {
      jobs.push(await check(input, { ...options, ...own }))
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

/** Recorded as a failed job, with the notices of its policy. */
function asRejected(job: NewJob, rejected: DecidedFailure, policy: Policy, nowMs: number): NewJob {
  const isForwardOnly = policy.forwardOnly
  const facts = { ...job, attempt: 0, spent: null, createdAtMs: nowMs, retriedFrom: null, isForwardOnly }
  const notices = noticesOfFailure(facts, rejected, policy)
  return { ...job, rejected, ...(notices.length > 0 && { notices }) }
}

/** The failure of a submission that is recorded instead of only refused (`reject: 'record'`). */
function rejection(
  type: string,
  codes: Taxonomy,
  rules: readonly Rule[],
  thrown: unknown,
  nowMs: number,
): DecidedFailure {
  const phase = 'pre_dispatch'
  const failure =
    thrown instanceof RedressError
      ? engineFailure({
          code: 'INPUT_INVALID',
          phase,
          type,
          codes,
          detail: [thrown.message, ...thrown.problems].join('\n'),
          context: { problems: thrown.problems },
        })
      : captureFailure({ thrown, phase, type, codes, rules, nowMs }).failure
  return {
    ...failure,
    decision: {
      because: 'it was refused at submission and never dispatched',
      rule: 'reject = record',
      budget: { name: 'retry.max', before: 0, after: 1, max: 1 },
    },
  }
}

/** The error for the caller of a submission that is refused without a record. */
function refusal({ type, codes, rules }: Refusing, thrown: unknown, nowMs: number): RedressError {
  if (thrown instanceof RedressError) return thrown
  const { failure } = captureFailure({ thrown, phase: 'pre_dispatch', type, codes, rules, nowMs })
  return new RedressError('SUBMISSION_REFUSED', `${failure.code}: ${failure.message}`, { cause: thrown })
}

interface Refusing {
  type: string
  codes: Taxonomy
  rules: readonly Rule[]
}

/** Payloads are kept as JSON text of bounded size. */
export function packPayload(type: string, value: unknown, bytesMax: number): string {
  let text: string | undefined
  try {
    text = JSON.stringify(value)
  } catch (error) {
    throw new RedressError('PAYLOAD_NOT_JSON', `The input of ${type} cannot be written as JSON.`, { cause: error })
  }
  if (text === undefined) {
    throw new RedressError('PAYLOAD_NOT_JSON', `The input of ${type} is ${typeof value}, which JSON cannot hold.`)
  }
  // At most three bytes per UTF-16 unit: only a long text must be measured.
  if (text.length * 3 > bytesMax && Buffer.byteLength(text) > bytesMax) {
    const bytes = Buffer.byteLength(text)
    throw new RedressError(
      'PAYLOAD_TOO_LARGE',
      `The input of ${type} has ${bytes} bytes; at most ${bytesMax} are taken.`,
    )
  }
  return text
}
