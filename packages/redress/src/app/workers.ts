import { Metrics } from '../metrics/metrics.ts'
import { type Chance, systemChance } from '../runtime/chance.ts'
import type { Log } from '../runtime/log.ts'
import type { Store } from '../store/contract/store.ts'
import type { Handler } from '../worker/attempt/call-handler.ts'
import { type Duty, DutyLoop } from '../worker/duty.ts'
import { MAINTENANCE_MS, type WorkerOptions } from '../worker/options.ts'
import type { Worker } from '../worker/worker.ts'
import type { Channels } from './channels.ts'
import type { AppHost } from './host.ts'
import type { DeclaredTypes } from './jobs/declared.ts'

export type WorkOptions = Omit<WorkerOptions, 'store' | 'handlers'>

/** Loaded by a process that runs jobs or does maintenance; one that only submits needs none of it. */
const loadWorker = () => import('../worker/worker.ts')
type WorkerModule = Awaited<ReturnType<typeof loadWorker>>

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
  readonly #workers = new Set<Worker>()
  #maintenance: DutyLoop | null = null

  constructor(options: WorkersOptions) {
    this.#options = options
  }

  async make(options: WorkOptions): Promise<Worker> {
    const { host, types, duties } = this.#options
    const [store, module] = await Promise.all([host.store(), loadWorker()])
    return this.#make(module, store, types.handlers, duties, options)
  }

  async startMaintenance(options: Pick<WorkerOptions, 'log' | 'onOutcome'>): Promise<void> {
    const { host, types, channels } = this.#options
    const [store, module, { Maintenance }] = await Promise.all([
      host.store(),
      loadWorker(),
      import('../worker/leases/maintenance.ts'),
    ])
    const deliveries = types.handlers.filter(({ ownSlots }) => ownSlots !== null)
    if (deliveries.length > 0) {
      await this.#make(module, store, deliveries, channels.duties(), options).start()
      return
    }
    const { log = host.log } = options
    const maintenance = new Maintenance({ store, log, codesOf: (type) => types.get(type)?.handler.codes })
    const duty = { name: 'maintenance', everyMs: MAINTENANCE_MS, run: () => maintenance.reclaimStalled() }
    this.#maintenance = new DutyLoop(host.clock, log, duty)
    this.#maintenance.start()
  }

  #make(
    { Worker }: WorkerModule,
    store: Store,
    served: readonly Handler[],
    duties: readonly Duty[],
    options: WorkOptions,
  ): Worker {
    const { host, chance = systemChance, metrics, logTo } = this.#options
    const handlers = new Map(served.map((handler) => [handler.type, handler]))
    const { log = host.log } = options
    logTo(log)
    const listeners = Metrics.listeners(metrics, options)
    const worker = new Worker({ clock: host.clock, chance, log, duties, ...options, ...listeners, store, handlers })
    this.#workers.add(worker)
    return worker
  }

  async stop(options?: { graceMs?: number }): Promise<void> {
    this.#maintenance?.stop()
    await Promise.all([...this.#workers].map((worker) => worker.stop(options)))
  }
}
