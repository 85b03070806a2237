import { RedressError } from '../../core/errors.ts'
import { captureFailure, engineFailure } from '../../core/failure/capture.ts'
import type { Rule } from '../../core/failure/classify.ts'
import type { Taxonomy } from '../../core/failure/taxonomy.ts'
import type { DecidedFailure } from '../../core/job/change.ts'
import { PRIORITY_MAX } from '../../core/job/record.ts'
import { isSingletonKey } from '../../core/limits/singleton.ts'
import { noticesOfFailure, refuseOwnType } from '../../core/notice/notice.ts'
import type { Policy } from '../../core/policy/policy.ts'
import { durationMs } from '../../core/text/duration.ts'
import { type DateInValue, dateNotReadBack, dateRefused, packInput } from '../../core/text/json-value.ts'
import { refuseUnknownOptions } from '../../core/text/options.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { MakeId } from '../../runtime/id.ts'
import type { NewJob, Store, Submitted } from '../../store/contract/store.ts'
import type { Executor } from '../../store/contract/transactional.ts'
import { currentTrace, traceSubmission } from '../../tracing/tracing.ts'
import type { DeclaredTypes } from './declared.ts'
import {
  type OptionPerInput,
  SUBMIT_MANY_OPTIONS,
  SUBMIT_OPTIONS,
  type SubmitManyOptions,
  type SubmitOptions,
} from './job-type.ts'
import { mergeOf, refuseNul } from './merge-options.ts'

export const PAYLOAD_BYTES_MAX = 1024 * 1024
const OWNER_CHARS_MAX = 200
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

  /** The types whose claims compare singletons. */
  readonly #singletons = new Set<string>()

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
    refuseUnknownOptions('submitMany()', options, SUBMIT_MANY_OPTIONS)
    if (!Array.isArray(inputs)) throw invalid('The inputs of submitMany() must be a list')
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
    refuseUnknownOptions('A submission', options, SUBMIT_OPTIONS)
    refuseOwnType(type)
    const declared = types.get(type)
    const what = `The input of ${type}`
    const dates: DateInValue[] = []
    const payload = packInput(what, input, payloadBytesMax, dates)
    // A type of another program: its worker checks the input before it runs.
    if (declared === undefined) {
      if (dates[0] !== undefined) throw dateRefused(what, dates[0])
      return this.#ready(newJob(type, payload, options, makeId))
    }
    const { facts, implemented, limitKey } = declared
    let own = options
    let lostDate: DateInValue | null = null
    try {
      // As it will be read back: a Date fits its schema today, and is a text when the worker gets it.
      const read = facts.readInput(JSON.parse(payload))
      const value = read instanceof Promise ? await read : read
      lostDate = dates.length === 0 ? null : dateNotReadBack(dates, value)
      if (lostDate !== null) throw dateRefused(what, lostDate)
      await implemented?.admit?.(value, options.owner ?? null)
      const key = limitKey === null ? undefined : await limitKey(value)
      if (key !== undefined) own = { ...options, limitKey: key as string }
    } catch (thrown) {
      // A wrong program, not a wrong input: there is nothing to record.
      if (lostDate !== null) throw thrown
      const asked = implemented?.handler ?? facts
      if (asked.policy.reject === 'refuse') throw refusal(asked, thrown, clock.nowMs())
      const rejected = rejection(type, asked.codes, asked.rules, thrown, clock.nowMs())
      return asRejected(newJob(type, payload, options, makeId), rejected, asked.policy, clock.nowMs())
    }
    return this.#ready(newJob(type, payload, own, makeId))
  }

  /** Before the first job that must run alone, the claims of its type are told to compare. */
  async #ready(job: NewJob): Promise<NewJob> {
    if (!isSingletonKey(job.limitKey) || this.#singletons.has(job.type)) return job
    const store = await this.#options.store()
    if (await store.enforceSingletons({ type: job.type })) this.#singletons.add(job.type)
    return job
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
  const { owner, priority = 0, delay, id, batch } = options
  if (!Number.isSafeInteger(priority) || Math.abs(priority) > PRIORITY_MAX) {
    throw invalid(`priority must be a whole number from -${PRIORITY_MAX} to ${PRIORITY_MAX}, not ${String(priority)}`)
  }
  checkOwnerAndId(options)
  if (batch !== undefined && (typeof batch !== 'string' || batch === ''))
    throw invalid('batch must be the id of a batch')
  return {
    id: id ?? makeId(),
    type,
    payload,
    owner: owner ?? null,
    priority,
    delayMs: delay === undefined ? 0 : durationMs(delay, 'delay'),
    retriedFrom: null,
    rejected: null,
    batch: batch ?? null,
    ...mergeOf(options),
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
  if (owner !== undefined) refuseNul(owner, 'owner')
  if (id !== undefined && !UUID.test(id)) throw invalid('id must be a UUID in lower case')
}

/** Each with what its own options say; a refusal names the one it is about. */
async function checkMany<Input>(
  inputs: readonly Input[],
  options: SubmitManyOptions<Input>,
  check: (input: Input, options: SubmitOptions) => Promise<NewJob>,
): Promise<NewJob[]> {
  const jobs: NewJob[] = []
  for (const [i, input] of inputs.entries()) {
    try {
      jobs.push(await check(input, optionsFor(options, input, i)))
    } catch (error) {
      throw naming(error, i, inputs.length)
    }
  }
  return jobs
}

const PER_INPUT: readonly OptionPerInput[] = ['dedupe', 'debounce', 'throttle', 'singleton', 'limitKey']

function optionsFor<Input>(options: SubmitManyOptions<Input>, input: Input, index: number): SubmitOptions {
  const own: Record<string, unknown> = { ...options }
  for (const name of PER_INPUT) {
    const given = options[name]
    if (given === undefined) continue
    const isForEach = typeof given === 'function'
    // A key of several inputs would make one job of them all.
    if (!isForEach && typeof given !== 'string') throw perInput(name)
    if (!isForEach && (name === 'dedupe' || name === 'debounce' || name === 'throttle')) throw perInput(name)
    const value = isForEach ? given(input, index) : given
    if (value === undefined) delete own[name]
    else own[name] = value
  }
  return own as SubmitOptions
}

const perInput = (name: OptionPerInput): RedressError =>
  invalid(`${name} of submitMany() must be a function of the input: ${name}: (input, index) => ...`)

/** The same refusal, saying which of many inputs it is about. */
export function naming(error: unknown, index: number, count: number): unknown {
  if (!(error instanceof RedressError) || count === 1) return error
  const { code, action, problems, cause } = error
  const message = `Input ${index} (counted from 0) of ${count}: ${error.message} Nothing was submitted.`
  return new RedressError(code, message, { action, problems, cause })
}

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
