import { optionNames, refuseUnknownOptions } from '../core/text/options.ts'
import { Metrics } from '../metrics/metrics.ts'
import { type Chance, systemChance } from '../runtime/chance.ts'
import type { Log } from '../runtime/log.ts'
import type { Store } from '../store/contract/store.ts'
import { type Duty, DutyLoop } from '../worker/duty.ts'
import { MAINTENANCE_MS, type WorkerOptions } from '../worker/options.ts'
import { Trouble } from '../worker/store-calls.ts'
import type { Worker } from '../worker/worker.ts'
import type { Channels } from './channels.ts'
import { type Choose, chooserOf, type TypeChoice, withoutHandler } from './chosen-types.ts'
import { DefaultLog, logOf } from './default-log.ts'
import { outcomeLog } from './events/outcome-log.ts'
import type { AppHost } from './host.ts'
import type { DeclaredTypes } from './jobs/declared.ts'

/** The options of `app.work()`. All are optional. */
export interface WorkOptions extends Omit<WorkerOptions, 'store' | 'handlers' | 'log'>, TypeChoice {
  /** Where this worker logs, and its app from now on; that of the app when left out. `false`: nowhere. */
  log?: Log | false
  /**
   * What SIGTERM and SIGINT do in a program without its own listener: stop the app, then end the process with 143 or 130.
   * Running jobs have 25 s to finish, or `graceMs`. `false` leaves the signals alone.
   */
  signals?: boolean | { graceMs: number }
}
export type MaintenanceOptions = Pick<WorkOptions, 'log' | 'onOutcome'>

const WORK_OPTIONS = optionNames<WorkOptions>({
  queues: true,
  types: true,
  perType: true,
  concurrency: true,
  prefetchMax: true,
  pollMs: true,
  handOff: true,
  maintenanceMs: true,
  pruneMs: true,
  resultBytesMax: true,
  duties: true,
  clock: true,
  chance: true,
  log: true,
  id: true,
  onOutcome: true,
  onLeaseLost: true,
  onStart: true,
  onTry: true,
  onBlocked: true,
  probe: true,
  signals: true,
})
const MAINTENANCE_OPTIONS = optionNames<MaintenanceOptions>({ log: true, onOutcome: true })

/** Loaded by a process that runs jobs or does maintenance; one that only submits needs none of it. */
const loadWorker = () => import('../worker/worker.ts')
type WorkerModule = Awaited<ReturnType<typeof loadWorker>>

/** When new types could not be registered, because the store is down or a policy is locked. */
const PICK_UP_AGAIN_MS = 1_000

/** Deliveries of notices: the types with slots of their own. */
const deliveriesIn: Choose = (handlers) => handlers.filter(({ ownSlots }) => ownSlots !== null)

interface WorkersOptions {
  host: AppHost
  chance: Chance | undefined
  types: DeclaredTypes
  channels: Channels
  duties: readonly Duty[]
  metrics: Metrics
  /** From now on the app logs where its worker does. */
  logTo: (log: Log) => void
}

/** The workers of an app, and its maintenance where it runs no jobs. */
export class Workers {
  readonly #options: WorkersOptions
  readonly #workers = new Map<Worker, Choose>()
  #trouble: Trouble | null = null
  #maintenance: DutyLoop | null = null
  /** Makes the worker that delivers notices, for a process that began without channels. */
  #deliver: (() => Promise<void>) | null = null
  #isPickingUp = false
  #isStopped = false

  constructor(options: WorkersOptions) {
    this.#options = options
  }

  async make(options: WorkOptions): Promise<Worker> {
    refuseUnknownOptions('work()', options, WORK_OPTIONS)
    const { host, types, duties } = this.#options
    const choose = chooserOf(options, types)
    const [store, module] = await Promise.all([host.store(), loadWorker()])
    const worker = this.#make(module, store, choose, duties, options)
    const idle = withoutHandler(options, types, types.handlers)
    if (idle.length > 0) {
      host.log.warn({ types: idle }, 'this program has no handler for these job types: add `run` in app.job()')
    }
    // A type that was declared meanwhile is in the worker, and must be in the store as well.
    await host.store()
    return worker
  }

  /** A type was declared or implemented: the workers that run already must get it, if it is one of theirs. */
  declared(): void {
    if (this.#isPickingUp || this.#isStopped || (this.#workers.size === 0 && this.#deliver === null)) return
    this.#isPickingUp = true
    // Later: a program declares many types in a row.
    queueMicrotask(() => void this.#pickUp())
  }

  /** Opening the store again registers the new types in it, and then calls `follow`. */
  async #pickUp(): Promise<void> {
    const { host } = this.#options
    this.#isPickingUp = false
    if (this.#isStopped) return
    try {
      await host.store()
      this.#trouble?.ended()
    } catch (error) {
      if (this.#isStopped) return
      this.#trouble ??= new Trouble(host.clock, host.log)
      this.#trouble.failed({ err: error }, 'new job types could not be registered and do not run yet; will try again')
      this.#isPickingUp = true
      host.clock.setTimer(PICK_UP_AGAIN_MS, () => void this.#pickUp())
    }
  }

  /** Everything that is declared is in the store: running workers may claim jobs of new types. */
  async follow(): Promise<void> {
    const { types } = this.#options
    for (const [worker, choose] of this.#workers) worker.serve(choose(types.handlers))
    if (deliveriesIn(types.handlers).length > 0) await this.#deliver?.()
  }

  async startMaintenance(options: MaintenanceOptions): Promise<void> {
    refuseUnknownOptions('startMaintenance()', options, MAINTENANCE_OPTIONS)
    const { host, types, channels } = this.#options
    const [store, module, { Maintenance }] = await Promise.all([
      host.store(),
      loadWorker(),
      import('../worker/leases/maintenance.ts'),
    ])
    let worker: Worker | null = null
    const deliver = async (): Promise<void> => {
      worker ??= this.#make(module, store, deliveriesIn, channels.duties(), options)
      await worker.start()
      this.#deliver = null
      this.#maintenance?.stop()
    }
    if (deliveriesIn(types.handlers).length > 0) return deliver()
    this.#deliver = deliver
    const log = options.log === undefined ? host.log : logOf(options.log)
    const maintenance = new Maintenance({ store, log, codesOf: (type) => types.get(type)?.facts.codes })
    const duty = { name: 'maintenance', everyMs: MAINTENANCE_MS, run: () => maintenance.reclaimStalled() }
    this.#maintenance = new DutyLoop(host.clock, log, duty)
    this.#maintenance.start()
  }

  #make({ Worker }: WorkerModule, store: Store, choose: Choose, duties: readonly Duty[], options: WorkOptions): Worker {
    const { host, chance = systemChance, metrics, logTo, types } = this.#options
    const handlers = new Map(choose(types.handlers).map((handler) => [handler.type, handler]))
    const { signals: _, queues: _queues, types: _types, perType: _perType, log: given, ...own } = options
    const log = given === undefined ? host.log : logOf(given)
    logTo(log)
    const listeners = Metrics.listeners(metrics, withDefaultLog(log, own))
    const worker = new Worker({ clock: host.clock, chance, log, duties, ...own, ...listeners, store, handlers })
    this.#workers.set(worker, choose)
    return worker
  }

  async stop(options?: { graceMs?: number }): Promise<void> {
    this.#isStopped = true
    this.#maintenance?.stop()
    await Promise.all([...this.#workers.keys()].map((worker) => worker.stop(options)))
    // Also after a worker that fell dead in a test: its threads and processes must not outlive the app.
    await Promise.all(this.#options.types.handlers.map(({ isolated }) => isolated?.end('everything')))
  }
}

/** A program that names no log sees failures all the same, whatever else it does with outcomes. */
function withDefaultLog<Options extends Pick<WorkerOptions, 'onOutcome'>>(log: Log, options: Options): Options {
  if (!(log instanceof DefaultLog)) return options
  const tell = outcomeLog(log)
  const { onOutcome } = options
  return {
    ...options,
    onOutcome: (report) => {
      tell(report)
      onOutcome?.(report)
    },
  }
}
