import { RedressError } from '../core/errors.ts'
import type { NewJob, Store, Submitted } from '../store/store.ts'
import type { AsyncExecutor, Executor, SyncExecutor } from '../store/transactional.ts'
import type { AppHost } from './host.ts'
import type { SubmitOptions } from './job-type.ts'

/** A submission that was checked and is in no store yet: `submitIn` puts it there. */
export interface Pending {
  /** The job's, unless a twin with the same dedupe key is there already. */
  readonly id: string
  readonly type: string
}

interface Prepared {
  store: Store
  job: NewJob
}

/** Submits as part of the caller's own transaction: see docs/guides/transactional-submit.md. */
export class Transactions {
  readonly #host: AppHost
  /** Kept beside them: what was checked cannot be changed afterwards, and what was not checked cannot be submitted. */
  readonly #prepared = new WeakMap<Pending, Prepared>()

  constructor(host: AppHost) {
    this.#host = host
  }

  /** Everything that has to be waited for, so that the transaction itself need not wait. */
  async prepare(type: string, input: unknown, options: SubmitOptions): Promise<Pending> {
    const store = await this.#host.store()
    const job = await this.#host.prepare(type, input, options)
    const pending: Pending = Object.freeze({ id: job.id, type })
    this.#prepared.set(pending, { store, job })
    return pending
  }

  submitIn(executor: SyncExecutor, pending: Pending | readonly Pending[]): Submitted[]
  submitIn(executor: AsyncExecutor, pending: Pending | readonly Pending[]): Promise<Submitted[]>
  submitIn(executor: Executor, pending: Pending | readonly Pending[]): Submitted[] | Promise<Submitted[]> {
    const prepared = (isMany(pending) ? pending : [pending]).map((one) => this.#needed(one))
    const [first] = prepared
    if (first === undefined) return []
    const { store } = first
    if (store.submitIn === undefined) {
      throw new RedressError('TX_UNSUPPORTED', 'This store cannot submit in a transaction of yours.')
    }
    return store.submitIn({ executor, jobs: prepared.map(({ job }) => job) })
  }

  #needed(pending: Pending): Prepared {
    const prepared = this.#prepared.get(pending)
    if (prepared !== undefined) return prepared
    throw new RedressError(
      'OPTION_INVALID',
      'submitIn takes what `prepare` of this app answered with, and nothing else.',
    )
  }
}

const isMany = (pending: Pending | readonly Pending[]): pending is readonly Pending[] => Array.isArray(pending)
