import { type BatchOutcome, NO_COUNTS } from '../core/batch.ts'
import { RedressError } from '../core/errors.ts'
import { ROLLUPS, type Rollup } from '../core/policy/flow.ts'
import { type Duration, durationMs } from '../core/text/duration.ts'
import type { BatchDetail } from '../operations/batches/batches.ts'
import type { NewBatch } from '../store/contract/batches.ts'
import type { NewJob, Submitted } from '../store/contract/store.ts'
import type { Duty } from '../worker/duty.ts'
import type { AppHost } from './host.ts'
import type { JobRequest, JobType, SubmitOptions } from './jobs/job-type.ts'
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
}

/** The batches of an app: `app.batches`. */
export type Batches = ReturnType<typeof batchesOf>

export function batchesOf(host: AppHost) {
  return {
    ...operationsOf('batches', host),

    /** Makes a batch, with all its jobs or open for more. */
    async create(name: string, options: BatchOptions = {}): Promise<Batch> {
      const batch = newBatch(name, options, host.makeId)
      if (batch.onSettled !== null) await checkOnSettled(host, batch, batch.onSettled)
      const { owner, jobs: requests = [] } = options
      const jobs: NewJob[] = []
      for (const [i, { type, input, options: own }] of requests.entries()) {
        try {
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

export interface BatchOptions {
  /** Whose batch it is; its jobs are that owner's too, where they do not say otherwise. */
  owner?: string
  /** Its outcome when some jobs failed; as the policy of the first job's type says when left out. */
  rollup?: Rollup
  /** How long after its making it expires, for good. Never when left out. */
  expires?: Duration
  /** Anything of yours that JSON can hold. */
  data?: object
  /** A job that is submitted each time the batch is settled; it finds the outcome as `batch` in its input. */
  onSettled?: { job: { readonly name: string } | string; input?: object }
  /** Channels that get a notice when it is settled; as the policy of the first job's type says when left out. */
  notify?: readonly string[]
  /** Its jobs, made together with it: all or none. They are all it will have, unless it stays `open`. */
  jobs?: readonly JobRequest[]
  /** Jobs may be added until it is sealed. True when no `jobs` are given. */
  open?: boolean
  /** A UUID of your own, so that you can make it again after an unknown answer without making a second one. */
  id?: string
}

const NAME_CHARS_MAX = 200
const DATA_CHARS_MAX = 64 * 1024
const CHANNEL_NAME = /^[A-Za-z][\w.:-]{0,99}$/

/** Checked, and put in the store's words. */
function newBatch(name: string, options: BatchOptions, makeId: () => string): NewBatch {
  if (typeof options !== 'object' || options === null) throw invalid('the options of a batch must be an object')
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

function toOnSettled({ job, input = {} }: NonNullable<BatchOptions['onSettled']>): NewBatch['onSettled'] {
  const type = typeof job === 'string' ? job : job?.name
  if (typeof type !== 'string') throw invalid('onSettled.job must be a job type, or its name')
  if ('batch' in input) throw invalid('onSettled.input: `batch` is where the outcome goes')
  return { type, input: packObject(input, 'onSettled.input') }
}

function packObject(value: object, field: string): string {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw invalid(`${field} must be an object`)
  let text: string
  try {
    text = JSON.stringify(value)
  } catch (error) {
    throw new RedressError('PAYLOAD_NOT_JSON', `${field} cannot be written as JSON.`, { cause: error })
  }
  if (text.length <= DATA_CHARS_MAX) return text
  throw new RedressError(
    'PAYLOAD_TOO_LARGE',
    `${field} has ${text.length} characters; at most ${DATA_CHARS_MAX} are taken.`,
  )
}

const invalid = (message: string) => new RedressError('OPTION_INVALID', `${message}.`)
