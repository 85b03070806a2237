import { RedressError } from '../core/errors.ts'
import { renderExplanation } from '../core/explain/text.ts'
import type { Taxonomy } from '../core/failure/taxonomy.ts'
import { filesTypeOf } from '../core/job/deleted.ts'
import { refuseOwnType } from '../core/notice/notice.ts'
import type { Policy } from '../core/policy/policy.ts'
import { isName } from '../core/text/names.ts'
import { optionNames, refuseUnknownOptions } from '../core/text/options.ts'
import type { Schema } from '../core/text/schema.ts'
import { Metrics } from '../metrics/metrics.ts'
import { admitted, type Caller } from '../operations/caller.ts'
import { CATALOG, type OperationName } from '../operations/catalog.ts'
import { performForOwner } from '../operations/jobs/perform-for-owner.ts'
import type { Context } from '../operations/operation.ts'
import type { InputOf as OperationInput, OutputOf } from '../operations/table.ts'
import { type Chance, systemChance } from '../runtime/chance.ts'
import { type Clock, systemClock } from '../runtime/clock.ts'
import { fillFromSystem, idMaker, type MakeId } from '../runtime/id.ts'
import type { Log } from '../runtime/log.ts'
import type { AddedNotice } from '../store/contract/notices.ts'
import type { Store, Submitted } from '../store/contract/store.ts'
import type { AsyncExecutor, Executor, SyncExecutor } from '../store/contract/transactional.ts'
import { derivedId } from '../store/scripts/derived-id.ts'
import { traceSubmission } from '../tracing/tracing.ts'
import type { Attempt } from '../worker/attempt/attempt.ts'
import type { AddedBy, AnyMiddleware, Middleware, Next } from '../worker/attempt/middleware.ts'
import type { Duty } from '../worker/duty.ts'
import type { Worker } from '../worker/worker.ts'
import { type Batches, batchesOf } from './batches.ts'
import { type Channel, Channels, type NotifyOptions } from './channels.ts'
import { DefaultLog, logOf } from './default-log.ts'
import { Dependencies, type DependencyOptions } from './dependencies.ts'
import { dutiesOf } from './duties.ts'
import { Hub } from './events/hub.ts'
import { type AppEvents, addListener, type ListenOptions, type RemoveListener } from './events/listeners.ts'
import type { AppHost } from './host.ts'
import type { ImportAnswer, ImportJob } from './import/import-jobs.ts'
import { boundType } from './jobs/bound.ts'
import {
  type AnyContract,
  type AnyDefinition,
  checkImplementation,
  contractIn,
  isContract,
  type JobContract,
  type JobDefinition,
} from './jobs/contract.ts'
import { type DeclaredCodes, DeclaredTypes } from './jobs/declared.ts'
import { fileRemovalOf } from './jobs/file-removal.ts'
import type { JobType, SubmitManyOptions, SubmitOptions } from './jobs/job-type.ts'
import type { ResultOf } from './jobs/outcome.ts'
import { Results } from './jobs/results.ts'
import { factsOfSubmitted, PAYLOAD_BYTES_MAX, type PreparedJob, Submissions } from './jobs/submission.ts'
import { DeclaredSchedules } from './schedules/declared.ts'
import type { ScheduleDefinition } from './schedules/definition.ts'
import { planUpsert, type Schedules, schedulesOf } from './schedules/runtime.ts'
import { ScheduleTicker } from './schedules/ticker.ts'
import { signalGraceMs, stopOnSignals } from './signals.ts'
import { AppStore } from './store/app-store.ts'
import { type Operations, operationsOf } from './subjects.ts'
import { type MaintenanceOptions, Workers, type WorkOptions } from './workers.ts'

/** The options of `redress()`. All are optional. */
export interface AppOptions {
  /**
   * A store, or where one is: `sqlite:path/to/file.db`, `sqlite::memory:` or `postgres://user@host/database`. When left out:
   * REDRESS_STORE or DATABASE_URL of the environment, or else `sqlite:.redress/redress.db`.
   */
  store?: string | Store
  /** Where `audit: 'write-ahead'` puts its lines; beside the store's file when left out. */
  failureLog?: string
  payloadBytesMax?: number
  clock?: Clock
  chance?: Chance
  /**
   * A logger such as pino's, or `false` for none. When left out, failures, breaker changes, lost leases and orphans are
   * written to standard error: in words on a terminal, otherwise as JSON lines.
   */
  log?: Log | false
  makeId?: MakeId
  /** How often `app.hub` reads the events of other processes; 250 when left out. */
  hubPollMs?: number
}

const OPTIONS = optionNames<AppOptions>({
  store: true,
  failureLog: true,
  payloadBytesMax: true,
  clock: true,
  chance: true,
  log: true,
  makeId: true,
  hubPollMs: true,
})

interface StopOptions {
  /** How long handlers may finish; 30 s when left out. Then their jobs are requeued or failed, as their policies say. */
  graceMs?: number
}

const STOP_OPTIONS = optionNames<StopOptions>({ graceMs: true })

/** Loaded with the first operation: its schemas take more time and memory than everything else together. */
const loadTable = () => import('../operations/table.ts')

/**
 * One program's view of a store: the job types it declares, and what it submits and runs. `Locals` is what its
 * middleware adds to `attempt.locals`.
 */
export class App<Locals extends object = object> {
  readonly #clock: Clock
  #log: Log
  #forgetSignals: (() => void) | null = null
  readonly #makeId: MakeId
  readonly #types: DeclaredTypes
  readonly #boundTypes = new WeakMap<AnyContract, JobType<unknown>>()
  readonly #store: AppStore
  readonly #submissions: Submissions
  readonly #payloadBytesMax: number
  readonly #schedules: DeclaredSchedules
  readonly #channels: Channels
  readonly #dependencies: Dependencies
  readonly #workers: Workers
  readonly #results: Results
  /** Operations on single jobs: find, list, explain, retry, cancel. */
  readonly jobs: Operations<'jobs'> = operationsOf('jobs', this)
  /** Failures grouped by their cause. */
  readonly failures: Operations<'failures'> = operationsOf('failures', this)
  /** Failed jobs that were set aside with their input, for replay. */
  readonly deadLetters: Operations<'dead-letters'> = operationsOf('dead-letters', this)
  /** Replays of many dead letters at once. */
  readonly replays: Operations<'replays'> = operationsOf('replays', this)
  /** Jobs with a common outcome. */
  readonly batches: Batches
  /** Pauses and resumes queues. */
  readonly queues: Operations<'queues'> = operationsOf('queues', this)
  /** Breakers of dependencies. */
  readonly breakers: Operations<'breakers'> = operationsOf('breakers', this)
  /** Schedules: jobs at set times. */
  readonly schedules: Schedules
  /** Notices that were sent, and their deliveries. */
  readonly notices: Operations<'notices'> = operationsOf('notices', this)
  /** The audit trail: who changed what, and why. */
  readonly audit: Operations<'audit'> = operationsOf('audit', this)
  /** This process in numbers, for Prometheus. */
  readonly metrics: Metrics
  /** Live events of the store, for those who subscribe. */
  readonly hub: Hub
  /** The periodic tasks of its workers. */
  readonly duties: readonly Duty[]

  constructor(options: AppOptions = {}) {
    refuseUnknownOptions('redress()', options, OPTIONS)
    this.#clock = options.clock ?? systemClock
    this.#log = logOf(options.log)
    this.#makeId = options.makeId ?? idMaker(() => this.#clock.nowMs(), fillFromSystem)
    this.#types = new DeclaredTypes(this.#clock)
    const host = this.#host()
    const { clock, makeId, store } = host
    const types = this.#types
    this.#submissions = new Submissions({ store, clock, makeId, types, payloadBytesMax: options.payloadBytesMax })
    this.#payloadBytesMax = options.payloadBytesMax ?? PAYLOAD_BYTES_MAX
    this.batches = batchesOf(host)
    this.#schedules = new DeclaredSchedules(host)
    this.schedules = schedulesOf(host)
    this.metrics = new Metrics(host, (type) => types.get(type)?.facts.policy.aggregates ?? true)
    this.hub = new Hub(host, options.hubPollMs)
    this.#results = new Results(host, this.hub)
    this.#channels = new Channels(host, (name, definition, ownSlots) => {
      this.#declare(name, definition, ownSlots)
    })
    this.#dependencies = new Dependencies(host, () =>
      types.handlers.flatMap(({ policy }) => policy.breaker?.guards ?? []),
    )
    const ticker = new ScheduleTicker(host, this.#schedules, options.chance ?? systemChance)
    this.duties = dutiesOf(host, types, ticker, this.#channels, this.#dependencies, this.metrics)
    this.#store = new AppStore({
      store: options.store,
      failureLog: options.failureLog,
      clock,
      log: () => this.#log,
      withTally: (opened) => Metrics.watch(this.metrics, opened),
      queuedAs: (type) => types.get(type)?.queuedAs ?? undefined,
      types: () => types.facts.map(({ type, queue, policy }) => ({ name: type, queue, policy })),
      register: async (opened) => {
        await this.#schedules.register(opened)
        await this.#workers.follow()
      },
    })
    const { chance } = options
    const { metrics, duties } = this
    const logTo = (log: Log) => {
      this.#log = log
    }
    this.#workers = new Workers({ host, chance, types, channels: this.#channels, duties, metrics, logTo })
  }

  #host(): AppHost {
    const log = () => this.#log
    return {
      store: () => this.store(),
      clock: this.#clock,
      get log() {
        return log()
      },
      makeId: this.#makeId,
      prepare: (type, input, options) => this.#submissions.check(type, input, options),
      types: () => this.#types.handlers.map(({ type }) => type),
      admitRetry: (question) => this.#types.admitRetry(question),
      perform: (name, input) => this.perform(name, input),
    }
  }

  /** The names of the declared job types. */
  get types(): string[] {
    return this.#types.names
  }

  /** The failure codes of the declared types, as HTTP and the command line look them up. */
  get codes(): DeclaredCodes {
    return this.#types.codes
  }

  /** Where the jobs are kept, as another app can be given it; null when this app was given a store. */
  get location(): string | null {
    return this.#store.location
  }

  /** What was declared for a type, or null. */
  describe(type: string): { policy: Policy; codes: Taxonomy; input: Schema | undefined } | null {
    const declared = this.#types.get(type)
    if (declared === undefined) return null
    const { facts, contract } = declared
    return { policy: facts.policy, codes: facts.codes, input: contract.input }
  }

  /**
   * Adds a middleware around the handlers of this app. The first one is the outermost. It applies to all attempts that
   * begin from now on, also of types that are declared already. Returns this app, with the type of what it adds.
   */
  use<Returned extends Promise<unknown>>(
    middleware: (attempt: Attempt<string, Locals>, next: Next) => Returned,
  ): App<Locals & AddedBy<Returned>>
  use<Added extends object>(middleware: Middleware<Added, Locals>): App<Locals & Added>
  use(middleware: AnyMiddleware): unknown {
    this.#types.use(middleware)
    return this
  }

  /**
   * Declares a job type. With a name, everything is in the definition. With what `jobType()` made, the definition has only
   * the handler code; without a definition, this program submits jobs of the type and its workers do not run them.
   */
  job<
    // biome-ignore lint/suspicious/noExplicitAny: with `unknown`, a handler that does not say what it takes could use nothing
    Input = any,
    Stored = Input,
    const Codes extends string = never,
    Returned = unknown,
    Ran extends Returned = Returned,
    Kept = Ran,
  >(
    type: string | JobContract<Stored, Kept, Codes, Input, Returned>,
    definition?: JobDefinition<Input, Stored, Codes, Returned, Locals, Kept, Ran>,
  ): JobType<Stored, ResultOf<Kept>, Codes> {
    refuseOwnType(typeof type === 'string' ? type : type?.name)
    // biome-ignore lint/suspicious/noExplicitAny: one object serves every type; its types are those of this signature
    return this.#declare(type, definition ?? null) as JobType<any, any, any>
  }

  #declare(type: unknown, definition: AnyDefinition | null, ownSlots: number | null = null): JobType<unknown> {
    const contract = typeof type === 'string' ? contractIn(type, definition) : type
    if (!isContract(contract)) {
      throw new RedressError('OPTION_INVALID', 'app.job() takes the name of a job type, or what jobType() made.')
    }
    if (contract === type && definition !== null) checkImplementation(contract.name, definition)
    if (this.#types.declare(contract, definition, ownSlots)) {
      this.#store.changed()
      this.#workers.declared()
    }
    const removal = definition === null ? null : fileRemovalOf(contract, definition)
    if (removal !== null) this.#declare(filesTypeOf(contract.name), removal)
    return this.#bound(contract)
  }

  /** The same object each time. */
  #bound(contract: AnyContract): JobType<unknown> {
    const earlier = this.#boundTypes.get(contract)
    if (earlier !== undefined) return earlier
    const bound = boundType(contract, this, this.#results)
    this.#boundTypes.set(contract, bound)
    return bound
  }

  /**
   * Calls a listener for each event of this name from now on, whichever process it happens in. Events come in order and
   * one at a time. Returns a function that removes the listener.
   */
  on<Name extends keyof AppEvents>(
    name: Name,
    listener: (event: AppEvents[Name]) => unknown,
    options?: ListenOptions,
  ): RemoveListener {
    return addListener(this.hub, this.#host(), name, listener, options)
  }

  /** Declares a way to deliver notices: what the policies' `notify` names. */
  channel(name: string, channel: Channel): void {
    this.#channels.add(name, channel)
  }

  /** Declares a health probe of a dependency. Its breaker tries the probe before it risks a job. */
  dependency(name: string, options: DependencyOptions): void {
    this.#dependencies.declare(name, options)
  }

  /** Sends a notice of your own, as reliably as the notices of failures. */
  notify(kind: string, options: NotifyOptions): Promise<AddedNotice> {
    return this.#channels.notify(kind, options)
  }

  /** Declares a schedule: a job at each tick of an expression or a period. Any worker of this program takes its ticks. */
  // biome-ignore lint/suspicious/noExplicitAny: a job type that is given by name says nothing of its input
  schedule<Input = any>(name: string, definition: ScheduleDefinition<Input>): void {
    this.#schedules.declare(name, definition)
    this.#store.changed()
  }

  /** An id for a job that will be submitted with it: for what must be named before there is a job. */
  newId(): string {
    return this.#makeId()
  }

  /** The same id for the same parts: submitting with it twice makes one job. */
  idFrom(...parts: readonly (string | number)[]): string {
    return derivedId(...parts)
  }

  /** Submits a job by the name of its type; the type may be one of another program. */
  submit(type: string, input: unknown, options: SubmitOptions = {}): Promise<Submitted> {
    return this.#submissions.submit(type, input, options)
  }

  /** Submits many jobs of one type, by its name: all or none. */
  submitMany<Input>(
    type: string,
    inputs: readonly Input[],
    options: SubmitManyOptions<Input> = {},
  ): Promise<Submitted[]> {
    return this.#submissions.submitMany(type, inputs, options)
  }

  /** Checks a submission and makes it ready for `submitIn`. Nothing is submitted yet. */
  prepare(type: string, input: unknown, options: SubmitOptions = {}): Promise<PreparedJob> {
    return this.#submissions.prepare(type, input, options)
  }

  /** Submits in the transaction that is open on a connection of yours: the jobs are there if it commits. */
  submitIn(database: SyncExecutor, jobs: PreparedJob | readonly PreparedJob[]): Submitted[]
  submitIn(client: AsyncExecutor, jobs: PreparedJob | readonly PreparedJob[]): Promise<Submitted[]>
  submitIn(executor: Executor, jobs: PreparedJob | readonly PreparedJob[]): Submitted[] | Promise<Submitted[]> {
    return this.#submissions.submitIn(executor, jobs)
  }

  /**
   * Puts jobs of another job system into the store: jobs that wait, and jobs that have failed there. A repeated import adds
   * only what is missing. Answers for each job; a job that is refused does not stop the others.
   */
  async importJobs(jobs: readonly ImportJob[], options: { dryRun?: boolean } = {}): Promise<ImportAnswer[]> {
    refuseUnknownOptions('importJobs()', options, ['dryRun'])
    const { importJobs } = await import('./import/import-jobs.ts')
    const host = {
      store: () => this.store(),
      prepare: this.#submissions.check.bind(this.#submissions),
      describe: (type: string) => this.describe(type),
      payloadBytesMax: this.#payloadBytesMax,
    }
    return importJobs(host, jobs, { isDryRun: options.dryRun === true })
  }

  /** Tells the workers of this app to look for work now, for instance after a long transaction of yours. */
  wake(): void {
    this.#store.wake()
  }

  /** Does one of the operations that every door offers: `app.perform('queues.list', {})`. */
  async perform<Name extends OperationName>(name: Name, input: OperationInput<Name>): Promise<OutputOf<Name>> {
    return (await this.#perform(name, input)) as OutputOf<Name>
  }

  /** The same for an authenticated caller: only what their role, their scopes and their account allow. */
  async performAs(caller: Caller, name: OperationName, input: Readonly<Record<string, unknown>>): Promise<unknown> {
    const asked = admitted(caller, name, CATALOG[name], input)
    if (caller.role !== 'owner') return this.#perform(name, asked)
    return performForOwner(this.#perform.bind(this), name, asked, this.codes)
  }

  /** Throws unless this caller may run the operation and its subject exists. Called when the body cannot be parsed. */
  async refuseUnseen(caller: Caller, name: OperationName, input: Readonly<Record<string, unknown>>): Promise<void> {
    const { operationNamed } = await loadTable()
    const { about } = operationNamed(name)
    await about?.(await this.store(), admitted(caller, name, CATALOG[name], input))
  }

  async #perform(name: OperationName, input: object): Promise<unknown> {
    const [context, { operationNamed, perform }] = await Promise.all([this.#context(), loadTable()])
    const run = () => perform(operationNamed(name), context, input)
    const { type } = input as { type?: unknown }
    // Only valid type names become span names.
    return name === 'jobs.submit' && isName(type) ? traceSubmission(type, run, factsOfSubmitted) : run()
  }

  async #context(): Promise<Context> {
    return {
      store: await this.store(),
      prepare: (type, value, options) => this.#submissions.check(type, value, options),
      codesOf: (type) => this.#types.get(type)?.facts.codes,
      ownerCodes: this.codes.forOwner,
      admitRetry: (question) => this.#types.admitRetry(question),
      lastSeen: (job) => this.#types.lastSeen(job),
      makeId: this.#makeId,
      probe: (name) => this.#dependencies.probeNow(name),
      inputOfSchedule: this.#schedules.inputOf.bind(this.#schedules),
      planSchedule: (name, asked) => planUpsert(this.#host(), name, asked),
    }
  }

  /** Why it was retried or died, as text for a person; `app.jobs.explain(id)` gives the parts. */
  async explain(id: string): Promise<string> {
    return renderExplanation(await this.jobs.explain(id))
  }

  /**
   * Records that retention removed a file of a finished job, once per reason. From now on, a submission with the job's
   * dedupe key makes a new job. False when this was recorded before.
   */
  async markExpired(id: string, reason: string): Promise<boolean> {
    return (await this.store()).expire({ id, reason })
  }

  /**
   * Begins to run the declared job types in this process: all of them, or those that `queues` and `types` choose. A type
   * that is declared later is picked up under the same rules.
   */
  async work(options: WorkOptions = {}): Promise<Worker> {
    const graceMs = signalGraceMs(options?.signals)
    const worker = await this.makeWorker(options)
    // Before the first claim: an unhandled signal would kill the process while it holds a lease.
    if (graceMs !== null) {
      this.#forgetSignals ??= stopOnSignals({ graceMs, log: () => this.#log, stop: () => this.stop({ graceMs }) })
    }
    await worker.start()
    return worker
  }

  /** A worker that does nothing by itself: for tests that call `tick`. */
  makeWorker(options: WorkOptions = {}): Promise<Worker> {
    return this.#workers.make(options)
  }

  /** Handles orphans and delivers notices until `stop`, as every worker does: for a process that runs no jobs. */
  startMaintenance(options: MaintenanceOptions = {}): Promise<void> {
    return this.#workers.startMaintenance(options)
  }

  /** Lets workers finish, then stops the store. Safe to call twice. */
  async stop(options?: StopOptions): Promise<void> {
    refuseUnknownOptions('app.stop()', options, STOP_OPTIONS)
    try {
      const ended = this.#store.end()
      await this.#workers.stop(options)
      await ended
      // After the workers, so that subscribers also get the last events.
      await this.hub.stop(options)
      await this.#results.stop()
      await this.#store.stop()
    } finally {
      // Also after an error: a signal must not stop again what could not be stopped.
      this.#forgetSignals?.()
      this.#forgetSignals = null
    }
    if (this.#log instanceof DefaultLog) this.#log.flush()
  }

  /**
   * The store, opened, with every job type and schedule declared so far registered in it. Running workers have picked up
   * the types that they run.
   */
  store(): Promise<Store> {
    return this.#store.get()
  }
}

/** Makes an app: one program at a store. */
export function redress(options?: AppOptions): App {
  return new App(options)
}
