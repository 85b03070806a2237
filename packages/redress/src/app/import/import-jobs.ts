import { RedressError } from '../../core/errors.ts'
import { importedFailure } from '../../core/failure/capture.ts'
import type { Taxonomy } from '../../core/failure/taxonomy.ts'
import type { DecidedFailure } from '../../core/job/change.ts'
import type { Policy } from '../../core/policy/policy.ts'
import { isoTime } from '../../core/text/duration.ts'
import { packInput } from '../../core/text/json-value.ts'
import { refuseUnknownOptions } from '../../core/text/options.ts'
import type { NewJob, Store, Submitted } from '../../store/contract/store.ts'
import { derivedId } from '../../store/scripts/derived-id.ts'
import type { SubmitOptions } from '../jobs/job-type.ts'
import { newJob } from '../jobs/submission.ts'

/** A job of another system, as `app.importJobs` takes it. */
export interface ImportJob {
  type: string
  input: unknown
  /** The system it comes from: 'BullMQ'. */
  system: string
  /** What names the job there, such as its queue and its id: the same parts make the same job, however often it is imported. */
  source: readonly (string | number)[]
  /** For people: 'queue mail, job 17'. The parts of `source` when left out. */
  sourceText?: string
  owner?: string
  priority?: number
  /** Not before this time. */
  runAt?: Date
  dedupe?: string
  createdAt?: Date
  attemptsMade?: number
  /** If it has failed there for good: its error, with its stack if there is one. */
  failure?: { error: string; at?: Date }
}

/** What became of one job of `app.importJobs`. */
export type ImportAnswer =
  /** `isKeyTaken`: another job holds its dedupe key, so it was imported without the key. */
  | { kind: 'imported'; id: string; isKeyTaken: boolean; inputProblem: string | null }
  /** An earlier import made it. */
  | { kind: 'already'; id: string }
  /** It was not imported. */
  | { kind: 'refused'; code: string; message: string }

/** The app, as the import sees it. */
export interface ImportHost {
  store(): Promise<Store>
  prepare(type: string, input: unknown, options: SubmitOptions): Promise<NewJob>
  describe(type: string): { policy: Policy; codes: Taxonomy } | null
  payloadBytesMax: number
}

const FIELDS = [
  'type',
  'input',
  'system',
  'source',
  'sourceText',
  'owner',
  'priority',
  'runAt',
  'dedupe',
  'createdAt',
  'attemptsMade',
  'failure',
]
const PRIORITY_MAX = 1_000_000

/** Puts jobs of another system into the store. One job that cannot be imported does not stop the others. */
export async function importJobs(
  host: ImportHost,
  jobs: readonly ImportJob[],
  { isDryRun }: { isDryRun: boolean },
): Promise<ImportAnswer[]> {
  const store = await host.store()
  const policies = new Map((await store.types()).map(({ name, policy }) => [name, policy]))
  const answers: ImportAnswer[] = []
  const made: { job: NewJob; place: number; inputProblem: string | null }[] = []
  for (const [place, job] of jobs.entries()) {
    try {
      made.push({ place, ...(await prepared(host, policies, job)) })
    } catch (error) {
      if (!(error instanceof RedressError)) throw error
      answers[place] = { kind: 'refused', code: error.code, message: [error.message, ...error.problems].join(' ') }
    }
  }
  const submit = isDryRun ? onlyLookFor : ({ jobs }: { jobs: NewJob[] }) => store.submit({ jobs })
  const submitted = made.length === 0 ? [] : await submit({ jobs: made.map(({ job }) => job), store })
  const keyless: typeof made = []
  for (const [i, { job, place, inputProblem }] of made.entries()) {
    const { id, isNew } = submitted[i] as Submitted
    if (id !== job.id) keyless.push(made[i] as (typeof made)[number])
    else answers[place] = isNew ? { kind: 'imported', id, isKeyTaken: false, inputProblem } : { kind: 'already', id }
  }
  // The dedupe key belongs to another job, which is not this one: without its key, nothing is lost.
  if (keyless.length > 0) {
    const again = await submit({ jobs: keyless.map(({ job }) => ({ ...job, dedupe: null })), store })
    for (const [i, { job, place, inputProblem }] of keyless.entries()) {
      answers[place] = (again[i] as Submitted).isNew
        ? { kind: 'imported', id: job.id, isKeyTaken: true, inputProblem }
        : { kind: 'already', id: job.id }
    }
  }
  return answers
}

async function onlyLookFor({ jobs, store }: { jobs: NewJob[]; store: Store }): Promise<Submitted[]> {
  const found: Submitted[] = []
  for (const { id, rejected } of jobs) {
    const job = await store.job({ id })
    const status = job?.status ?? (rejected === null ? 'queued' : 'failed')
    found.push({ id, isNew: job === null, status })
  }
  return found
}

async function prepared(
  host: ImportHost,
  policies: ReadonlyMap<string, Policy>,
  job: ImportJob,
): Promise<{ job: NewJob; inputProblem: string | null }> {
  refuseUnknownOptions('importJobs()', job, FIELDS)
  const policy = policies.get(job.type)
  if (policy === undefined) throw new RedressError('TYPE_UNKNOWN', `No job type ${job.type} is declared.`)
  const { failure, runAt, dedupe, owner, priority } = job
  if (!Array.isArray(job.source) || job.source.length === 0) {
    throw new RedressError(
      'OPTION_INVALID',
      '`source` must name the job in its system with at least one text or number.',
    )
  }
  for (const [name, at] of Object.entries({ runAt, createdAt: job.createdAt, 'failure.at': failure?.at })) {
    if (at !== undefined && Number.isNaN(at.getTime()))
      throw new RedressError('OPTION_INVALID', `${name} is not a time.`)
  }
  const options: SubmitOptions = {
    id: derivedId('import', job.system, ...job.source),
    ...(owner !== undefined && { owner }),
    ...(priority !== undefined && { priority: Math.min(PRIORITY_MAX, Math.max(-PRIORITY_MAX, priority)) }),
    ...(dedupe !== undefined && { dedupe }),
    ...(runAt !== undefined && failure === undefined && { runAt }),
  }
  const from = `${job.system}, ${job.sourceText ?? job.source.join(' ')}`
  const origin = { from, attempts: job.attemptsMade ?? 0, deadLetter: policy.deadLetter }
  if (failure === undefined) {
    const checked = await host.prepare(job.type, job.input, options)
    // A type that records refused submissions: the job is still in its own system, so nothing needs a record.
    if (checked.rejected !== null) {
      throw new RedressError('INPUT_INVALID', `${checked.rejected.code}: ${checked.rejected.detail}`)
    }
    return { job: { ...checked, imported: origin }, inputProblem: null }
  }
  const payload = packInput(`The input of ${job.type}`, job.input, host.payloadBytesMax)
  const failed = newJob(job.type, payload, options, () => '')
  const rejected = failureOf(host, policy, job, failure, from)
  return { job: { ...failed, rejected, imported: origin }, inputProblem: await problemOf(host, job, options) }
}

function failureOf(
  host: ImportHost,
  policy: Policy,
  { type, system, source, createdAt, attemptsMade }: ImportJob,
  { error, at }: NonNullable<ImportJob['failure']>,
  from: string,
): DecidedFailure {
  const context = {
    importedFrom: system,
    source: source.join(' '),
    ...(attemptsMade !== undefined && { attemptsMade }),
    ...(createdAt !== undefined && { createdAt: isoTime(createdAt.getTime()) }),
    ...(at !== undefined && { failedAt: isoTime(at.getTime()) }),
  }
  const tried =
    attemptsMade === undefined ? '' : ` after ${attemptsMade} ${attemptsMade === 1 ? 'attempt' : 'attempts'}`
  return {
    ...importedFailure({ type, error, context, codes: host.describe(type)?.codes }),
    decision: {
      because: `it had failed${tried} before it was imported from ${from}`,
      rule: 'imported as failed',
      budget: { name: 'retry.max', before: 0, after: 0, max: policy.retry.max },
    },
  }
}

/** A failed job is imported although its input does not fit: the input may be the reason why it failed. */
async function problemOf(host: ImportHost, { type, input }: ImportJob, options: SubmitOptions): Promise<string | null> {
  try {
    const { rejected } = await host.prepare(type, input, options)
    return rejected?.detail ?? null
  } catch (error) {
    if (error instanceof RedressError) return [error.message, ...error.problems].join(' ')
    throw error
  }
}
