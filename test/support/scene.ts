import { App, type AppOptions } from '../../packages/redress/src/app/app.ts'
import { type RebuiltState, rebuild } from '../../packages/redress/src/core/job/rebuild.ts'
import type { Status } from '../../packages/redress/src/core/job/states.ts'
import { VirtualClock } from '../../packages/redress/src/runtime/clock.ts'
import type { Log } from '../../packages/redress/src/runtime/log.ts'
import type { JobRow, Store, StoredFailure } from '../../packages/redress/src/store/contract/store.ts'
import { openSqlite } from '../../packages/redress/src/store/sqlite/store.ts'
import type { Worker } from '../../packages/redress/src/worker/worker.ts'
import { turns } from './until.ts'

export interface LogLine {
  level: keyof Log
  message: string
  fields: Record<string, unknown>
}

/** Keeps what was logged, for tests that ask what an operator would have seen. */
export function keepingLog(): Log & { lines: LogLine[] } {
  const lines: LogLine[] = []
  const at = (level: keyof Log) => (fields: object, message: string) => {
    lines.push({ level, message, fields: { ...fields } })
  }
  return { lines, debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

/** Its time can also go by while nothing wakes up, as it does in a process that is stopped or blocked. */
class SceneClock extends VirtualClock {
  #blockedMs = 0

  block(ms: number): void {
    this.#blockedMs += ms
  }

  override nowMs(): number {
    return super.nowMs() + this.#blockedMs
  }

  override monoMs(): number {
    return super.monoMs() + this.#blockedMs
  }
}

/** One store in memory, time that stands still until it is moved, and any number of apps ("processes") on the store. */
export class Scene {
  readonly clock = new SceneClock()
  readonly log = keepingLog()
  readonly store: Store
  readonly app: App
  readonly #workers: Worker[] = []

  constructor(options: Partial<AppOptions> = {}) {
    const { clock } = this
    this.store = openSqlite({ path: ':memory:', nowMs: () => clock.nowMs() })
    this.app = this.newApp(options)
  }

  /** Another program on the same store. */
  newApp(options: Partial<AppOptions> = {}): App {
    return new App({ store: this.store, clock: this.clock, chance: () => 0, log: this.log, ...options })
  }

  async worker(options: Parameters<App['makeWorker']>[0] = {}, app = this.app): Promise<Worker> {
    const worker = await app.makeWorker(options)
    this.#workers.push(worker)
    return worker
  }

  /** Time goes by for everybody; then each worker has one turn of its loop. */
  async pass(ms: number): Promise<void> {
    await this.clock.advance(ms, () => turns(3))
    for (const worker of this.#workers) await worker.tick()
  }

  async job(id: string): Promise<JobRow> {
    const row = await this.store.job({ id })
    if (row === null) throw new Error(`there is no job ${id}`)
    return row
  }

  async status(id: string): Promise<Status> {
    return (await this.job(id)).status
  }

  failures(id: string): Promise<StoredFailure[]> {
    return this.store.failures({ id })
  }

  async lastFailure(id: string): Promise<StoredFailure> {
    const failure = (await this.failures(id)).at(-1)
    if (failure === undefined) throw new Error(`job ${id} has not failed`)
    return failure
  }

  /** The history in words: 'queued processing complete'. */
  async story(id: string): Promise<string> {
    return (await this.store.events({ id })).map((event) => event.kind).join(' ')
  }

  /** What the row says, in the words of the history; equal to `rebuilt` or something was not recorded. */
  async standing(id: string): Promise<RebuiltState> {
    return standingOf(await this.job(id))
  }

  async rebuilt(id: string): Promise<RebuiltState> {
    return rebuild(await this.store.events({ id }))
  }

  async end(): Promise<void> {
    for (const worker of this.#workers) worker.crash()
    // The app's own view of it: there may be a failure log around it.
    await (await this.app.store()).stop()
    await this.store.stop()
  }
}

function standingOf(job: JobRow): RebuiltState {
  return {
    status: job.status,
    attempt: job.attempt,
    worker: job.lease?.worker ?? null,
    spent: job.spent,
    dueAtMs: job.dueAtMs,
    failure: job.failure,
    isOrphaned: job.orphanedAtMs !== null,
    isCancelRequested: job.cancelRequestedAtMs !== null,
  }
}
