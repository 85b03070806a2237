import { type BatchOutcome, NO_COUNTS } from '../core/batch.ts'
import { RedressError } from '../core/errors.ts'
import { ROLLUPS, type Rollup } from '../core/policy/flow.ts'
import { type Duration, durationMs } from '../core/text/duration.ts'
import { packInput } from '../core/text/json-value.ts'
import { optionNames, refuseUnknownOptions } from '../core/text/options.ts'
import type { BatchDetail } from '../operations/batches/batches.ts'
import type { NewBatch } from '../store/contract/batches.ts'
import type { NewJob, Submitted } from '../store/contract/store.ts'
import type { Duty } from '../worker/duty.ts'
import type { AppHost } from './host.ts'
import { type JobRequest, type JobType, REQUEST_FIELDS, type SubmitOptions } from './jobs/job-type.ts'
import type { BatchChild } from './jobs/outcome.ts'
import { checkOwnerAndId, naming } from './jobs/submission.ts'
import { operationsOf } from './subjects.ts'
/** A batch that this program made. */
export class Batch {
  readonly id: string
  /** False when a batch of the same id was there already; then nothing was made. */
  readonly isNew: boolean
  /** The answers to the submissions of `jobs`, in their order. */
  readonly jobs: readonly Submitted[]
  readonly #host: AppHost
  readonly #defaults: SubmitOptions

  constructor(host: AppHost, id: string, made: { isNew: boolean; jobs: Submitted[] }, owner?: string) {
    this.#host = host
    this.id = id
    this.isNew = made.isNew
    this.jobs = made.jobs
    this.#defaults = { ...(owner !== undefined && { owner }), batch: id }
  }

  /** Adds a job, as long as the batch is open. */
  async add<Input>(
    type: JobType<Input> | string,
    input: NoInfer<Input>,
    options: Omit<SubmitOptions, 'batch'> = {},
  ): Promise<Submitted> {
    const name = typeof type === 'string' ? type : type.name
    const job = await this.#host.prepare(name, input, { ...this.#defaults, ...options })
    const [submitted] = await (await this.#host.store()).submit({ jobs: [job] })
    return submitted as Submitted
  }

  /** No more jobs: from now on it is settled when all have ended. */
  seal(): Promise<void> {
    return sealBatch(this.#host, this.id)
  }

  find(): Promise<BatchDetail | null> {
    return findBatch(this.#host, this.id)
  }

  /** Its jobs of one type, newest first, each with its typed outcome. */
  results<Input, Output, Codes extends string>(
    type: JobType<Input, Output, Codes>,
  ): AsyncIterableIterator<BatchChild<Input, Output, Codes>> {
    return childrenOf(this.#host, this.id, type)
  }
}

/** The batches of an app: `app.batches`. */
export type Batches = ReturnType<typeof batchesOf>

export function batchesOf(host: AppHost) {
  return {
    ...operationsOf('batches', host),

    /** Makes a batch, with all its jobs or open for more. */
    // biome-ignore lint/suspicious/noExplicitAny: a job type that is given by name says nothing of its input
    async create<Settled = any>(name: string, options: BatchOptions<Settled> = {}): Promise<Batch> {
      const batch = newBatch(name, options, host.makeId)
      if (batch.onSettled !== null) await checkOnSettled(host, batch, batch.onSettled)
      const { owner, jobs: requests = [] } = options
      const jobs: NewJob[] = []
      for (const [i, request] of requests.entries()) {
        try {
          refuseUnknownOptions('A job of a batch', request, REQUEST_FIELDS)
          const { type, input, options: own } = request
          jobs.push(await host.prepare(type, input, { ...(owner !== undefined && { owner }), ...own }))
        } catch (error) {
          throw naming(error, i, requests.length)
        }
      }
      const made = await (await host.store()).openBatch({ batch, jobs })
      return new Batch(host, batch.id, made, owner)
    },

    /** Cheaper than `show`, which also counts the codes of its failed jobs. */
    find: (id: string) => findBatch(host, id),

    /** The sum of one field, wherever it is a number, over the results of its complete jobs: bytes, pages, rows. */
    async sum(id: string, field: string): Promise<number> {
      return (await host.store()).batchSum({ id, field })
    },

    /** The jobs of one type in a batch, newest first, each with its typed outcome. */
    results: <Input, Output, Codes extends string>(
      id: string,
      type: JobType<Input, Output, Codes>,
    ): AsyncIterableIterator<BatchChild<Input, Output, Codes>> => childrenOf(host, id, type),

    /** No more jobs. Sealing is idempotent. */
    seal: (id: string) => sealBatch(host, id),
  }
}

async function findBatch(host: AppHost, id: string): Promise<BatchDetail | null> {
  const store = await host.store()
  const batch = await store.batch({ id })
  if (batch === null) return null
  const { detailOfBatch } = await import('../operations/batches/batches.ts')
  return detailOfBatch(store, batch)
}

const CHILDREN_PER_PAGE = 100

async function* childrenOf<Input, Output, Codes extends string>(
  host: AppHost,
  id: string,
  type: JobType<Input, Output, Codes>,
): AsyncGenerator<BatchChild<Input, Output, Codes>, void> {
  if (typeof type?.name !== 'string') throw invalid('results() takes the id of a batch and a job type')
  const store = await host.store()
  if ((await store.batch({ id })) === null) throw new RedressError('BATCH_NOT_FOUND', `There is no batch ${id}.`)
  const { readOutcome } = await import('./jobs/read-outcome.ts')
  let beforeKey: number | undefined
  for (;;) {
    const filter = { batch: id, type: type.name, limit: CHILDREN_PER_PAGE }
    const page = await store.jobs({ ...filter, ...(beforeKey !== undefined && { beforeKey }) })
    for (const job of page) {
      const ended = await readOutcome(host, store, job).catch((error: unknown) => {
        if (error instanceof RedressError && error.code === 'JOB_NOT_FOUND') return 'deleted' as const
        throw error
      })
      if (ended === 'deleted') continue
      // One that was retried by a person while it was read waits again.
      const status = job.status === 'processing' ? 'processing' : 'queued'
      const outcome = ended?.() ?? { kind: 'unfinished', jobId: job.id, status }
      const child = { jobId: job.id, input: JSON.parse(job.payload), outcome }
      yield child as BatchChild<Input, Output, Codes>
    }
    beforeKey = page.at(-1)?.key
    if (page.length < CHILDREN_PER_PAGE) return
  }
}

async function sealBatch(host: AppHost, id: string): Promise<void> {
  const answer = await (await host.store()).sealBatch({ id })
  if (answer === 'not-found') throw new RedressError('BATCH_NOT_FOUND', `There is no batch ${id}.`)
}

/** Once it is settled it is too late to learn that the job which should follow is refused. */
async function checkOnSettled(
  host: AppHost,
  batch: NewBatch,
  { type, input }: NonNullable<NewBatch['onSettled']>,
): Promise<void> {
  const { id, name, owner } = batch
  const counts = { ...NO_COUNTS, total: 1, complete: 1 }
  const outcome: BatchOutcome = {
    id,
    name,
    owner,
    state: 'complete',
    settlement: 1,
    ...counts,
    data: JSON.parse(batch.data),
  }
  const options = owner === null ? {} : { owner }
  const job = await host.prepare(type, { ...(JSON.parse(input) as object), batch: outcome }, options)
  if (job.rejected === null) return
  throw new RedressError('OPTION_INVALID', `onSettled: a job of type ${type} would be refused: ${job.rejected.detail}`)
}

const EXPIRE_EVERY_MS = 5_000
const EXPIRE_PER_STEP = 500

/** No reader depends on it: a batch that is read past its expiry is shown as expired anyway. */
export function batchExpiry(host: AppHost): Duty {
  return {
    name: 'expiring batches',
    everyMs: EXPIRE_EVERY_MS,
    async run() {
      const store = await host.store()
      while ((await store.expireBatches({ limit: EXPIRE_PER_STEP })) === EXPIRE_PER_STEP);
    },
    nextAtMs: async () => (await host.store()).nextBatchExpiryMs(),
  }
}

/** The options of `app.batches.create(name, ...)`. */
/** The options of `app.batches.create()`. `Settled` is the input of the job of `onSettled`. */
// biome-ignore lint/suspicious/noExplicitAny: a job type that is given by name says nothing of its input
export interface BatchOptions<Settled = any> {
  /** Whose batch it is; its jobs are that owner's too, where they do not say otherwise. */
  owner?: string
  /** Its outcome when some jobs failed; as the policy of the first job's type says when left out. */
  rollup?: Rollup
  /** How long after its making it expires, for good. Never when left out. */
  expires?: Duration
  /** Anything of yours that JSON can hold. */
  data?: object
  /** A job that is submitted each time the batch is settled; it finds the outcome as `batch` in its input. */
  onSettled?: OnSettled<Settled>
  /** Channels that get a notice when it is settled; as the policy of the first job's type says when left out. */
  notify?: readonly string[]
  /** Its jobs, made together with it: all or none. They are all it will have, unless it stays `open`. */
  jobs?: readonly JobRequest[]
  /** Jobs may be added until it is sealed. True when no `jobs` are given. */
  open?: boolean
  /** A UUID of your own, so that you can make it again after an unknown answer without making a second one. */
  id?: string
}

const OPTIONS = optionNames<BatchOptions>({
  owner: true,
  rollup: true,
  expires: true,
  data: true,
  onSettled: true,
  notify: true,
  jobs: true,
  open: true,
  id: true,
})
const ON_SETTLED_FIELDS = optionNames<NonNullable<BatchOptions['onSettled']>>({ job: true, input: true })
/** A job that follows a batch. Its type takes the outcome of the batch as `batch`, beside what `input` gives it. */
interface OnSettled<Settled> {
  job: (JobType<Settled> & TakesBatch<Settled>) | string
  input?: Omit<NoInfer<Settled>, 'batch'>
}

/** Fits only types whose input has a `batch` that a BatchOutcome can be given for. */
type TakesBatch<Settled> = { batch: BatchOutcome } extends Pick<Settled, 'batch' & keyof Settled> ? unknown : never

const NAME_CHARS_MAX = 200
const DATA_BYTES_MAX = 64 * 1024
const CHANNEL_NAME = /^[A-Za-z][\w.:-]{0,99}$/

/** Checked, and put in the store's words. */
function newBatch(name: string, options: BatchOptions, makeId: () => string): NewBatch {
  refuseUnknownOptions('batches.create()', options, OPTIONS)
  const { owner, rollup, expires, data = {}, onSettled, notify, jobs, open = jobs === undefined, id } = options
  if (typeof name !== 'string' || name.trim() === '' || name.length > NAME_CHARS_MAX) {
    throw invalid(`the name of a batch must be a text of 1 to ${NAME_CHARS_MAX} characters`)
  }
  checkOwnerAndId(options)
  if (rollup !== undefined && !ROLLUPS.includes(rollup)) {
    throw invalid(`rollup must be one of ${ROLLUPS.join(', ')}, not ${String(rollup)}`)
  }
  if (jobs !== undefined && !Array.isArray(jobs)) throw invalid('jobs must be a list, each made with `with`')
  if (notify !== undefined && !Array.isArray(notify)) throw invalid('notify must be a list of names of channels')
  const expiresInMs = expires === undefined ? null : durationMs(expires, 'expires')
  if (expiresInMs === 0) throw invalid('expires: a batch must last longer than nothing')
  const strange = notify?.find((channel) => !CHANNEL_NAME.test(channel))
  if (strange !== undefined) throw invalid(`notify: ${JSON.stringify(strange)} is not the name of a channel`)
  const elsewhere = jobs?.findIndex((job) => job.options?.batch !== undefined) ?? -1
  if (elsewhere >= 0) throw invalid(`job ${elsewhere} (counted from 0) names a batch of its own`)
  return {
    id: id ?? makeId(),
    name,
    owner: owner ?? null,
    rollup: rollup ?? null,
    isSealed: !open,
    expiresInMs,
    data: packObject(data, 'data'),
    onSettled: onSettled === undefined ? null : toOnSettled(onSettled),
    notify: notify ?? null,
  }
}

function toOnSettled(onSettled: NonNullable<BatchOptions['onSettled']>): NewBatch['onSettled'] {
  refuseUnknownOptions('onSettled', onSettled, ON_SETTLED_FIELDS)
  const { job, input = {} } = onSettled
  const type = typeof job === 'string' ? job : job?.name
  if (typeof type !== 'string') throw invalid('onSettled.job must be a job type, or its name')
  if ('batch' in input) throw invalid('onSettled.input: `batch` is where the outcome goes')
  return { type, input: packObject(input, 'onSettled.input') }
}

function packObject(value: object, field: string): string {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw invalid(`${field} must be an object`)
  return packInput(field, value, DATA_BYTES_MAX)
}

const invalid = (message: string) => new RedressError('OPTION_INVALID', `${message}.`)
