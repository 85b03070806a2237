import { renderExplanation } from '../core/explain/text.ts'
import type { Taxonomy } from '../core/failure/taxonomy.ts'
import { refuseOwnType } from '../core/notice/notice.ts'
import type { Policy } from '../core/policy/policy.ts'
import { isName } from '../core/text/names.ts'
import { Metrics } from '../metrics/metrics.ts'
import { admitted, type Caller } from '../operations/caller.ts'
import { CATALOG, type OperationName } from '../operations/catalog.ts'
import { performForOwner } from '../operations/jobs/perform-for-owner.ts'
import type { Context, Operation } from '../operations/operation.ts'
import type { InputOf as OperationInput, OutputOf } from '../operations/table.ts'
import type { Chance } from '../runtime/chance.ts'
import { type Clock, systemClock } from '../runtime/clock.ts'
import { fillFromSystem, idMaker, type MakeId } from '../runtime/id.ts'
import { type Log, silentLog } from '../runtime/log.ts'
import type { AddedNotice } from '../store/contract/notices.ts'
import type { Store, Submitted } from '../store/contract/store.ts'
import type { AsyncExecutor, Executor, SyncExecutor } from '../store/contract/transactional.ts'
import { derivedId } from '../store/scripts/derived-id.ts'
import { traceSubmission } from '../tracing/tracing.ts'
import type { Duty } from '../worker/duty.ts'
import type { WorkerOptions } from '../worker/options.ts'
import type { Worker } from '../worker/worker.ts'
import { type Batches, batchesOf } from './batches.ts'
import { type Channel, Channels, type NotifyOptions } from './channels.ts'
import { Dependencies, type DependencyOptions } from './dependencies.ts'
import { dutiesOf } from './duties.ts'
import { Hub } from './events/hub.ts'
import type { AppHost } from './host.ts'
import { type AnyDefinition, type DeclaredCodes, DeclaredTypes } from './jobs/declared.ts'
import type { JobDefinition, JobType, SubmitManyOptions, SubmitOptions } from './jobs/job-type.ts'
import { factsOfSubmitted, type PreparedJob, Submissions } from './jobs/submission.ts'
import { DeclaredSchedules, type ScheduleDefinition } from './schedules.ts'
import { AppStore } from './store/app-store.ts'
import { operationsOf } from './subjects.ts'
import { Workers, type WorkOptions } from './workers.ts'

export interface AppOptions {
  /**
   * A store, or where one is: `sqlite:path/to/file.db` or `sqlite::memory:`. When left out, the environment's
   * REDRESS_STORE, or else `sqlite:.redress/redress.db`.
   */
  store?: string | Store
  /** Where `audit: 'write-ahead'` puts its lines; beside the store's file when left out. */
  failureLog?: string
  payloadBytesMax?: number
  clock?: Clock
  chance?: Chance
  log?: Log
  makeId?: MakeId
  /** How often `app.hub` reads the events of other processes; 250 when left out. */
  hubPollMs?: number
}

/** Loaded with the first operation: its schemas take more time and memory than everything else together. */
const loadTable = () => import('../operations/table.ts')

/** One program's view of a store: the job types it declares, and what it submits and runs. */
export class App {
  readonly #clock: Clock
  #log: Log
  readonly #makeId: MakeId
  readonly #types: DeclaredTypes
  readonly #store: AppStore
  readonly #submissions: Submissions
  readonly #schedules: DeclaredSchedules
  readonly #channels: Channels
  readonly #dependencies: Dependencies
  readonly #workers: Workers
  readonly jobs = operationsOf('jobs', this)
  /** Failures grouped by their cause. */
  readonly failures = operationsOf('failures', this)
  readonly deadLetters = operationsOf('dead-letters', this)
  readonly replays = operationsOf('replays', this)
  /** Jobs with a common outcome. */
  readonly batches: Batches
  readonly queues = operationsOf('queues', this)
  readonly breakers = operationsOf('breakers', this)
  readonly schedules = operationsOf('schedules', this)
  readonly notices = operationsOf('notices', this)
  readonly audit = operationsOf('audit', this)
  /** This process in numbers, for Prometheus. */
  readonly metrics: Metrics
  /** Live events of the store, for those who subscribe. */
  readonly hub: Hub
  /** The periodic tasks of its workers. */
  readonly duties: readonly Duty[]

  constructor(options: AppOptions = {}) {
    this.#clock = options.clock ?? systemClock
    this.#log = options.log ?? silentLog
    this.#makeId = options.makeId ?? idMaker(() => this.#clock.nowMs(), fillFromSystem)
    this.#types = new DeclaredTypes(this.#clock)
    const host = this.#host()
    const { clock, makeId, store } = host
    const types = this.#types
    this.#submissions = new Submissions({ store, clock, makeId, types, payloadBytesMax: options.payloadBytesMax })
    this.batches = batchesOf(host)
    this.#schedules = new DeclaredSchedules(host)
    this.metrics = new Metrics(host, (type) => types.get(type)?.handler.policy.aggregates ?? true)
    this.hub = new Hub(host, options.hubPollMs)
    this.#channels = new Channels(host, (name, definition, ownSlots) => void this.#declare(name, definition, ownSlots))
    this.#dependencies = new Dependencies(host, () =>
      types.handlers.flatMap(({ policy }) => policy.breaker?.guards ?? []),
    )
    this.duties = dutiesOf(host, this.#schedules, this.#channels, this.#dependencies, this.metrics)
    this.#store = new AppStore({
      store: options.store,
      failureLog: options.failureLog,
      clock,
      log: () => this.#log,
      withTally: (opened) => Metrics.watch(this.metrics, opened),
      queuedAs: (type) => types.get(type)?.queuedAs ?? undefined,
      types: () => types.handlers.map(({ type, queue, policy }) => ({ name: type, queue, policy })),
      register: (opened) => this.#schedules.register(opened),
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
      types: () => this.types,
      admitRetry: (question) => this.#types.admitRetry(question),
      perform: (name, input) => this.perform(name, input),
    }
  }

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
  describe(type: string): { policy: Policy; codes: Taxonomy } | null {
    const handler = this.#types.get(type)?.handler
    return handler === undefined ? null : { policy: handler.policy, codes: handler.codes }
  }

  /** Declares a job type. */
  // biome-ignore lint/suspicious/noExplicitAny: with `unknown`, a handler that does not say what it takes could use nothing
  job<Input = any, Stored = Input, const Codes extends string = never, Output = unknown>(
    name: string,
    definition: JobDefinition<Input, Stored, Codes, Output>,
  ): JobType<Stored> {
    refuseOwnType(name)
    return this.#declare(name, definition)
  }

  // biome-ignore lint/suspicious/noExplicitAny: what its handler takes is checked where `job` is called
  #declare(name: string, definition: AnyDefinition, ownSlots: number | null = null): JobType<any> {
    const { policy } = this.#types.declare(name, definition, ownSlots).handler
    this.#store.changed()
    return {
      name,
      policy,
      submit: (input, options) => this.submit(name, input, options),
      submitMany: (inputs, options) => this.submitMany(name, inputs, options),
      prepare: (input, options) => this.prepare(name, input, options),
      request: (input, options = {}) => ({ type: name, input, options }),
    }
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

  /** Declares a schedule: a job at each tick of a cron expression. Any worker of any process submits it. */
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

  submit(type: string, input: unknown, options: SubmitOptions = {}): Promise<Submitted> {
    return this.#submissions.submit(type, input, options)
  }

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
    const { OPERATIONS } = await loadTable()
    const { about } = OPERATIONS[name] as Operation
    await about?.(await this.store(), admitted(caller, name, CATALOG[name], input))
  }

  async #perform(name: OperationName, input: object): Promise<unknown> {
    const [context, { OPERATIONS, perform }] = await Promise.all([this.#context(), loadTable()])
    const run = () => perform(OPERATIONS[name] as Operation, context, input)
    const { type } = input as { type?: unknown }
    // Only valid type names become span names.
    return name === 'jobs.submit' && isName(type) ? traceSubmission(type, run, factsOfSubmitted) : run()
  }

  async #context(): Promise<Context> {
    return {
      store: await this.store(),
      prepare: (type, value, options) => this.#submissions.check(type, value, options),
      codesOf: (type) => this.#types.get(type)?.handler.codes,
      ownerCodes: this.codes.forOwner,
      admitRetry: (question) => this.#types.admitRetry(question),
      lastSeen: (job) => this.#types.lastSeen(job),
      makeId: this.#makeId,
      probe: (name) => this.#dependencies.probeNow(name),
      inputOfSchedule: this.#schedules.inputOf.bind(this.#schedules),
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

  /** Begins to run the declared job types in this process. */
  async work(options: WorkOptions = {}): Promise<Worker> {
    const worker = await this.makeWorker(options)
    await worker.start()
    return worker
  }

  /** A worker that does nothing by itself: for tests that call `tick`. */
  makeWorker(options: WorkOptions = {}): Promise<Worker> {
    return this.#workers.make(options)
  }

  /** Handles orphans and delivers notices until `stop`, as every worker does: for a process that runs no jobs. */
  startMaintenance(options: Pick<WorkerOptions, 'log' | 'onOutcome'> = {}): Promise<void> {
    return this.#workers.startMaintenance(options)
  }

  /** Lets workers finish, then stops the store. Safe to call twice. */
  async stop(options?: { graceMs?: number }): Promise<void> {
    const ended = this.#store.end()
    await this.#workers.stop(options)
    await ended
    // After the workers, so that subscribers also get the last events.
    await this.hub.stop(options)
    await this.#store.stop()
  }

  /** The store, opened, with every job type and schedule declared so far registered in it. */
  store(): Promise<Store> {
    return this.#store.get()
  }
}

export function redress(options?: AppOptions): App {
  return new App(options)
}
