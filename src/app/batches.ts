import { RedressError } from '../core/errors.ts'
import { NO_COUNTS } from '../core/rollup.ts'
import type { BatchOutcome } from '../core/view-batch.ts'
import type { BatchActed } from '../operations/batch-acts.ts'
import { type BatchDetail, type BatchList, detailOfBatch } from '../operations/batches.ts'
import type { InputOf as OperationInput } from '../operations/table.ts'
import type { NewBatch } from '../store/batches.ts'
import type { By, NewJob, Submitted } from '../store/store.ts'
import type { Duty } from '../worker/duty.ts'
import { type BatchOptions, newBatch } from './batch-options.ts'
import type { AppHost } from './host.ts'
import type { JobType, SubmitOptions } from './job-type.ts'
import { naming } from './submission.ts'

/** A batch that this program made. */
export class Batch {
  readonly id: string
  /** False when a batch of the same id was there already; then nothing was made. */
  readonly isNew: boolean
  /** What became of the `jobs` it was made with, in their order. */
  readonly jobs: readonly Submitted[]
  readonly #batches: Batches
  readonly #host: AppHost
  readonly #defaults: SubmitOptions

  constructor(
    host: AppHost,
    batches: Batches,
    id: string,
    made: { isNew: boolean; jobs: Submitted[] },
    owner?: string,
  ) {
    this.#host = host
    this.#batches = batches
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
    return this.#batches.seal(this.id)
  }

  find(): Promise<BatchDetail | null> {
    return this.#batches.find(this.id)
  }
}

/** The batches of an app: `app.batches`. */
export class Batches {
  readonly #host: AppHost

  constructor(host: AppHost) {
    this.#host = host
  }

  /** Makes a batch, with all its jobs or open for more. */
  async create(name: string, options: BatchOptions = {}): Promise<Batch> {
    const batch = newBatch(name, options, this.#host.makeId)
    if (batch.onSettled !== null) await this.#checkOnSettled(batch, batch.onSettled)
    const { owner, jobs: requests = [] } = options
    const jobs: NewJob[] = []
    for (const [i, { type, input, options: own }] of requests.entries()) {
      try {
        jobs.push(await this.#host.prepare(type, input, { ...(owner !== undefined && { owner }), ...own }))
      } catch (error) {
        throw naming(error, i, requests.length)
      }
    }
    const made = await (await this.#host.store()).openBatch({ batch, jobs })
    return new Batch(this.#host, this, batch.id, made, owner)
  }

  async find(id: string): Promise<BatchDetail | null> {
    const store = await this.#host.store()
    const batch = await store.batch({ id })
    return batch === null ? null : detailOfBatch(store, batch)
  }

  /** The sum of one field, wherever it is a number, over the results of its complete jobs: bytes, pages, rows. */
  async sum(id: string, field: string): Promise<number> {
    return (await this.#host.store()).batchSum({ id, field })
  }

  /** The newest first. Its jobs: `app.list({ batch: id })`. */
  list(filter: OperationInput<'batches.list'> = {}): Promise<BatchList> {
    return this.#host.perform('batches.list', filter)
  }

  /** No more jobs. Sealing twice is sealing once. */
  async seal(id: string): Promise<void> {
    const answer = await (await this.#host.store()).sealBatch({ id })
    if (answer === 'not-found') throw new RedressError('BATCH_NOT_FOUND', `There is no batch ${id}.`)
  }

  /** Takes out what waits, and asks what runs to stop. */
  cancel(id: string, by: By): Promise<BatchActed> {
    return this.#host.perform('batches.cancel', { id, ...by })
  }

  /** Every failed job, each as its policy says. */
  retryFailed(id: string, by: By): Promise<BatchActed> {
    return this.#host.perform('batches.retry-failed', { id, ...by })
  }

  /** Once it is settled it is too late to learn that the job which should follow is refused. */
  async #checkOnSettled(batch: NewBatch, { type, input }: NonNullable<NewBatch['onSettled']>): Promise<void> {
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
    const job = await this.#host.prepare(type, { ...(JSON.parse(input) as object), batch: outcome }, options)
    if (job.rejected === null) return
    throw new RedressError(
      'OPTION_INVALID',
      `onSettled: a job of type ${type} would be refused: ${job.rejected.detail}`,
    )
  }
}

const EXPIRE_EVERY_MS = 5_000
const EXPIRE_PER_STEP = 500

/** Nobody waits for it: a batch that is read past its time is shown as expired all the same. */
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
