import { RedressError } from '../core/errors.ts'
import { renderExplanation } from '../core/explain-text.ts'
import { isName } from '../core/name.ts'
import { refuseOwnType } from '../core/notices.ts'
import type { Policy } from '../core/policy.ts'
import type { Taxonomy } from '../core/taxonomy.ts'
import type { EventView, FailureView } from '../core/view-history.ts'
import type { RetryQuestion, RetryRefusal } from '../operations/admit-retry.ts'
import { admitted, type Caller } from '../operations/caller.ts'
import { CATALOG, type OperationName } from '../operations/catalog.ts'
import type { Intervened } from '../operations/interventions.ts'
import type { JobDetail, JobList } from '../operations/jobs.ts'
import { detailOf } from '../operations/jobs.ts'
import { type Context, type Operation, perform } from '../operations/operation.ts'
import { performForOwner } from '../operations/owner-view.ts'
import { OPERATIONS, type InputOf as OperationInput, type OutputOf } from '../operations/table.ts'
import { type Chance, systemChance } from '../runtime/chance.ts'
import { type Clock, systemClock } from '../runtime/clock.ts'
import { fillFromSystem, idMaker, type MakeId } from '../runtime/id.ts'
import { type Log, silentLog } from '../runtime/log.ts'
import { traceSubmission } from '../runtime/tracing.ts'
import type { AddedNotice } from '../store/notices.ts'
import type { NewJob, Store, Submitted } from '../store/store.ts'
import type { AsyncExecutor, Executor, SyncExecutor } from '../store/transactional.ts'
import { Chore } from '../worker/chore.ts'
import type { Duty } from '../worker/duty.ts'
import type { Handler } from '../worker/handler.ts'
import { Maintenance } from '../worker/maintenance.ts'
import { MAINTENANCE_MS, type WorkerOptions } from '../worker/options.ts'
import { Worker } from '../worker/worker.ts'
import { Batches } from './batches.ts'
import type { Channel } from './channel.ts'
import { Channels, type NotifyOptions } from './channels.ts'
import { DeadLetters, Replays } from './dead-letters.ts'
import { codesOf, type Declared, declaredOf } from './declared.ts'
import { Dependencies, type DependencyOptions } from './dependencies.ts'
import { dutiesOf } from './duties.ts'
import type { AppHost } from './host.ts'
import { Hub } from './hub.ts'
import type { JobDefinition, JobType, SubmitManyOptions, SubmitOptions } from './job-type.ts'
import { Metrics } from './metrics/metrics.ts'
import { defaultLocation, type Opened, openStore, refuseUnlogged, stopStore } from './open-store.ts'
import { packPayload } from './read-input.ts'
import { askLastSeen, askRetryHook } from './retry-hook.ts'
import { type ScheduleDefinition, Schedules } from './schedules.ts'
import {
  asRejected,
  factsOfSubmission,
  factsOfSubmitted,
  newJob,
  prepareMany,
  refusal,
  rejection,
} from './submission.ts'
import { type Pending, Transactions } from './transactions.ts'

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
  /** How often subscribers of `app.hub` are told what other processes did; 250 when left out. */
  hubPollMs?: number
}

const PAYLOAD_BYTES_MAX = 1024 * 1024

/** One program's view of a store: the job types it declares, and what it submits and runs. */
export class App {
  readonly #options: AppOptions
  readonly #clock: Clock
  #log: Log
  readonly #declared = new Map<string, Declared>()
  readonly codes = codesOf(this.#declared)
  readonly #workers = new Set<Worker>()
  readonly #makeId: MakeId
  readonly #locationDefault = defaultLocation()
  #opened: Opened | null = null
  #opening: Promise<Opened> | null = null
  #ready: Promise<Store> | null = null
  #isStopped = false
  #lookingAfter: Chore | null = null
  /** Jobs with a common outcome. */
  readonly batches: Batches
  /** Jobs set aside, and the replay of many of them. */
  readonly deadLetters: DeadLetters
  readonly replays: Replays
  readonly #transactions: Transactions
  readonly schedules: Schedules
  /** This process in numbers, for Prometheus. */
  readonly metrics: Metrics
  /** Live events of the store, for those who subscribe. */
  readonly hub: Hub
  readonly #channels: Channels
  readonly #dependencies: Dependencies
  /** What its workers do beside running jobs. */
  readonly duties: readonly Duty[]

  constructor(options: AppOptions = {}) {
    this.#options = options
    this.#clock = options.clock ?? systemClock
    this.#log = options.log ?? silentLog
    this.#makeId = options.makeId ?? idMaker(() => this.#clock.nowMs(), fillFromSystem)
    const host = this.#host()
    this.batches = new Batches(host)
    this.deadLetters = new DeadLetters(host)
    this.replays = new Replays(host)
    this.schedules = new Schedules(host)
    this.metrics = new Metrics(host, (type) => this.#declared.get(type)?.handler.policy.aggregates ?? true)
    this.hub = new Hub(host, options.hubPollMs)
    this.#transactions = new Transactions(host)
    this.#channels = new Channels(host, (name, definition, ownSlots) => void this.#declare(name, definition, ownSlots))
    this.#dependencies = new Dependencies(host, () =>
      [...this.#declared.values()].flatMap(({ handler }) => handler.policy.breaker?.guards ?? []),
    )
    this.duties = dutiesOf(host, this.schedules, this.#channels, this.#dependencies, this.metrics)
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
      prepare: (type, input, options) => this.#prepare(type, input, options),
      types: () => this.types,
      admitRetry: (question) => this.#admitRetry(question),
      perform: (name, input) => this.perform(name, input),
    }
  }

  get types(): string[] {
    return [...this.#declared.keys()]
  }

  /** Where the jobs are kept, in words that another app can be given; null when it was handed a store. */
  get location(): string | null {
    const { store } = this.#options
    return typeof store === 'object' ? null : (store ?? this.#locationDefault)
  }

  /** What was declared for a type, or null. */
  describe(type: string): { policy: Policy; codes: Taxonomy } | null {
    const handler = this.#declared.get(type)?.handler
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

  // biome-ignore lint/suspicious/noExplicitAny: it takes every job type, and what its handler says of it is not its business
  #declare(name: string, definition: JobDefinition<any, any, any, any>, ownSlots: number | null = null): JobType<any> {
    if (!isName(name))
      throw new RedressError(
        'OPTION_INVALID',
        `${JSON.stringify(name)} is not a name for a job type: begin with a letter, then letters, digits and . _ : -`,
      )
    if (this.#declared.has(name))
      throw new RedressError('TYPE_DECLARED_TWICE', `The job type ${name} was declared already.`)
    if (typeof definition?.run !== 'function')
      throw new RedressError('OPTION_INVALID', `The job type ${name} has no \`run\`: a function that does the work.`)
    const declared = declaredOf(name, definition, ownSlots)
    const { policy } = declared.handler
    this.#declared.set(name, declared)
    this.#ready = null
    return {
      name,
      policy,
      submit: (input, options) => this.submit(name, input, options),
      submitMany: (inputs, options) => this.submitMany(name, inputs, options),
      prepare: (input, options) => this.prepare(name, input, options),
      with: (input, options = {}) => ({ type: name, input, options }),
    }
  }

  /** Declares a way to tell somebody: what the policies' `notify` names. */
  channel(name: string, channel: Channel): void {
    this.#channels.add(name, channel)
  }

  /** Declares how to ask a dependency for its health: what its breaker tries before it risks a job. */
  dependency(name: string, options: DependencyOptions): void {
    this.#dependencies.declare(name, options)
  }

  /** Tells something of your own, by the same way and as surely as failures are told. */
  notify(kind: string, options: NotifyOptions): Promise<AddedNotice> {
    return this.#channels.notify(kind, options)
  }

  /** Declares a schedule: a job at times that a cron expression names. Every worker of every process looks after it. */
  // biome-ignore lint/suspicious/noExplicitAny: a job type that is given by name says nothing of its input
  schedule<Input = any>(name: string, definition: ScheduleDefinition<Input>): void {
    this.schedules.declare(name, definition)
    this.#ready = null
  }

  /** An id for a job that will be submitted with it: for what must be named before there is a job. */
  newId(): string {
    return this.#makeId()
  }

  async submit(type: string, input: unknown, options: SubmitOptions = {}): Promise<Submitted> {
    const store = await this.store()
    const submitted = await traceSubmission(
      type,
      async () => store.submit({ jobs: [await this.#prepare(type, input, options)] }),
      factsOfSubmission,
    )
    return submitted[0] as Submitted
  }

  async submitMany<Input>(
    type: string,
    inputs: readonly Input[],
    options: SubmitManyOptions<Input> = {},
  ): Promise<Submitted[]> {
    const store = await this.store()
    return traceSubmission(
      type,
      async () => {
        const jobs = await prepareMany(inputs, options, (input, own) => this.#prepare(type, input, own))
        return jobs.length === 0 ? [] : store.submit({ jobs })
      },
      factsOfSubmission,
    )
  }

  /** Checks a submission and makes it ready for `submitIn`. Nothing is submitted yet. */
  prepare(type: string, input: unknown, options: SubmitOptions = {}): Promise<Pending> {
    return this.#transactions.prepare(type, input, options)
  }

  /** Submits in the transaction that is open on a connection of yours: the jobs are there if it commits. */
  submitIn(database: SyncExecutor, pending: Pending | readonly Pending[]): Submitted[]
  submitIn(client: AsyncExecutor, pending: Pending | readonly Pending[]): Promise<Submitted[]>
  submitIn(executor: Executor, pending: Pending | readonly Pending[]): Submitted[] | Promise<Submitted[]> {
    return this.#transactions.submitIn(executor as SyncExecutor, pending)
  }

  /** Tells the workers of this app to look for work now, for instance after a long transaction of yours. */
  hint(): void {
    this.#opened?.store.hint()
  }

  /** Does one of the operations that every door offers: `app.perform('queues.list', {})`. */
  async perform<Name extends OperationName>(name: Name, input: OperationInput<Name>): Promise<OutputOf<Name>> {
    return (await this.#perform(name, input)) as OutputOf<Name>
  }

  /** The same for somebody whom a door has let in: only what their role, their scopes and their account allow. */
  async performAs(caller: Caller, name: OperationName, input: Readonly<Record<string, unknown>>): Promise<unknown> {
    const asked = admitted(caller, name, CATALOG[name], input)
    if (caller.role !== 'owner') return this.#perform(name, asked)
    return performForOwner(this.#perform.bind(this), name, asked, this.codes)
  }

  /** Throws unless this caller may run the operation and its subject exists. Called when the body cannot be parsed. */
  async refuseUnseen(caller: Caller, name: OperationName, input: Readonly<Record<string, unknown>>): Promise<void> {
    const { about } = OPERATIONS[name] as Operation
    await about?.(await this.store(), admitted(caller, name, CATALOG[name], input))
  }

  async #perform(name: OperationName, input: object): Promise<unknown> {
    const context = await this.#context()
    const run = () => perform(OPERATIONS[name] as Operation, context, input)
    const { type } = input as { type?: unknown }
    // What is no name cannot be one of a span either: those are looked through by people.
    return name === 'jobs.submit' && isName(type) ? traceSubmission(type, run, factsOfSubmitted) : run()
  }

  async #context(): Promise<Context> {
    return {
      store: await this.store(),
      prepare: (type, value, options) => this.#prepare(type, value, options),
      codesOf: (type) => this.#declared.get(type)?.handler.codes,
      ownerCodes: this.codes.forOwner,
      admitRetry: (question) => this.#admitRetry(question),
      lastSeen: (job) => askLastSeen(this.#declared.get(job.type), job, this.#clock),
      makeId: this.#makeId,
      probe: (name) => this.#dependencies.probeNow(name),
      inputOfSchedule: this.schedules.inputOf.bind(this.schedules),
    }
  }

  async #admitRetry(question: RetryQuestion): Promise<RetryRefusal | null> {
    const declared = this.#declared.get(question.type)
    if (declared === undefined || declared.admitRetry === null) return null
    return askRetryHook(declared.admitRetry, declared.handler, question, this.#clock)
  }

  async find(id: string): Promise<JobDetail | null> {
    const context = await this.#context()
    const job = await context.store.job({ id })
    return job === null ? null : detailOf(context, job)
  }

  /** The newest first. */
  list(filter: OperationInput<'jobs.list'> = {}): Promise<JobList> {
    return this.perform('jobs.list', filter)
  }

  async events(id: string): Promise<EventView[]> {
    return (await this.perform('jobs.events', { id })).events
  }

  async failures(id: string): Promise<FailureView[]> {
    return (await this.perform('jobs.failures', { id })).failures
  }

  /** Why it was retried or died, as text for a person; `perform('jobs.explain', { id })` gives the parts. */
  async explain(id: string): Promise<string> {
    return renderExplanation(await this.perform('jobs.explain', { id }))
  }

  /**
   * Retries in place or as a new job, depending on the policy. Only a new job can get another input or an id of your
   * own. A job that was already retried is refused, unless `again` is set.
   */
  retry(
    id: string,
    by: { actor: string; reason: string; input?: unknown; owner?: string; newId?: string; again?: boolean },
  ): Promise<Intervened> {
    return this.perform('jobs.retry', { id, ...by })
  }

  markFailed(id: string, by: { actor: string; reason: string }): Promise<Intervened> {
    return this.perform('jobs.mark-failed', { id, ...by })
  }

  /** A job that waits is cancelled; of one that runs, the worker is told. */
  cancel(id: string, by: { actor: string; reason: string; owner?: string }): Promise<Intervened> {
    return this.perform('jobs.cancel', { id, ...by })
  }

  /**
   * Says of a job that is over that a file of it was removed by retention: an event of its history, told once for each
   * reason. A submission with its dedupe key makes a new job from now on. False when there was nothing to say.
   */
  async expired(id: string, reason: string): Promise<boolean> {
    return (await this.store()).expire({ id, reason })
  }

  /** Begins to run the declared job types in this process. */
  async work(options: Omit<WorkerOptions, 'store' | 'handlers'> = {}): Promise<Worker> {
    const worker = await this.makeWorker(options)
    await worker.start()
    return worker
  }

  /**
   * Handles orphans and delivers notices through the channels declared here, until `stop`. Use it in a process that
   * serves HTTP but runs no jobs: without it, the end of the only worker would go unnoticed. Every worker does the
   * same.
   */
  async lookAfter(options: Pick<WorkerOptions, 'log' | 'tell'> = {}): Promise<void> {
    const store = await this.store()
    const handlers = this.#handlers().filter(({ ownSlots }) => ownSlots !== null)
    if (handlers.length > 0) {
      await this.#newWorker(store, handlers, this.#channels.duties(), options).start()
      return
    }
    const { log = this.#log } = options
    const codesOf = (type: string) => this.#declared.get(type)?.handler.codes
    const maintenance = new Maintenance({ store, log, codesOf })
    this.#lookingAfter = new Chore(this.#clock, log, 'maintenance', MAINTENANCE_MS, () =>
      maintenance.lookAfterStalled(),
    )
    this.#lookingAfter.start()
  }

  /** A worker that does nothing until it is told: for tests that call `tick`. */
  async makeWorker(options: Omit<WorkerOptions, 'store' | 'handlers'> = {}): Promise<Worker> {
    return this.#newWorker(await this.store(), this.#handlers(), this.duties, options)
  }

  #handlers(): Handler[] {
    return [...this.#declared.values()].map(({ handler }) => handler)
  }

  #newWorker(
    store: Store,
    served: readonly Handler[],
    duties: readonly Duty[],
    options: Omit<WorkerOptions, 'store' | 'handlers'>,
  ): Worker {
    const handlers = new Map(served.map((handler) => [handler.type, handler]))
    const { clock = systemClock, chance = systemChance } = this.#options
    const { log = this.#log } = options
    // What is told of the store goes where its worker's log goes.
    this.#log = log
    const told = Metrics.listeners(this.metrics, options)
    const worker = new Worker({ clock, chance, log, duties, ...options, ...told, store, handlers })
    this.#workers.add(worker)
    return worker
  }

  /** Lets workers finish, then lets go of the store. Safe to call twice. */
  async stop(options?: { graceMs?: number }): Promise<void> {
    this.#isStopped = true
    this.#lookingAfter?.stop()
    await Promise.all([...this.#workers].map((worker) => worker.stop(options)))
    // One that is just being opened must not be left open.
    await this.#opening?.catch(() => undefined)
    // After the workers, so that subscribers also get the last events.
    await this.hub.stop(options)
    if (this.#opened !== null) await stopStore(this.#opened.store, this.#clock, this.#log)
  }

  /** The store, opened and told about every job type declared so far. */
  store(): Promise<Store> {
    // A refusal is not kept: a store that was busy when the app began may answer the next call.
    this.#ready ??= this.#open().catch((error: unknown) => {
      this.#ready = null
      throw error
    })
    return this.#ready
  }

  async #open(): Promise<Store> {
    if (this.#isStopped) throw new RedressError('STORE_STOPPED', 'The app was stopped.')
    // Once, though a type that is declared meanwhile asks again: a second pool would be nobody's to stop.
    this.#opening ??= this.#openStore()
    const opened = await this.#opening.catch((error: unknown) => {
      this.#opening = null
      throw error
    })
    const { store } = opened
    const types = [...this.#declared.values()].map(({ handler, queue }) => ({
      name: handler.type,
      queue,
      policy: handler.policy,
    }))
    refuseUnlogged(opened, types)
    if (types.length > 0) await store.register({ types })
    await this.schedules.register(store)
    return store
  }

  async #openStore(): Promise<Opened> {
    const { store: location = this.#locationDefault, failureLog } = this.#options
    const tellLogBroken = (error: unknown) =>
      this.#log.error({ err: error }, 'the failure log cannot be written; jobs that need it are not claimed for now')
    const queuedAs = (type: string) => this.#declared.get(type)?.queuedAs ?? undefined
    const opened = await openStore(location, this.#clock, failureLog, tellLogBroken, queuedAs)
    this.#opened = { ...opened, store: Metrics.watch(this.metrics, opened.store) }
    return this.#opened
  }

  /** Everything that can be wrong with a submission is found here, before the store is asked. */
  async #prepare(type: string, input: unknown, options: SubmitOptions): Promise<NewJob> {
    refuseOwnType(type)
    const declared = this.#declared.get(type)
    // A type of another program: its worker checks the input before it runs.
    if (declared === undefined) return newJob(type, this.#pack(type, input), options, this.#makeId)
    const { handler, admit, limitKey } = declared
    const payload = this.#pack(type, input)
    let own = options
    try {
      // As it will be read back: a Date fits its schema today, and is a text when the worker gets it.
      const read = handler.readInput(JSON.parse(payload))
      if (read instanceof Promise) await read
      const value = read instanceof Promise ? await read : read
      await admit?.(value, options.owner ?? null)
      const key = limitKey === null ? undefined : await limitKey(value)
      if (key !== undefined) own = { ...options, limitKey: key as string }
    } catch (thrown) {
      if (handler.policy.reject === 'refuse') throw refusal(handler, thrown, this.#clock.nowMs())
      const rejected = rejection(type, handler.codes, handler.rules, thrown, this.#clock.nowMs())
      return asRejected(newJob(type, payload, options, this.#makeId), rejected, handler.policy, this.#clock.nowMs())
    }
    return newJob(type, payload, own, this.#makeId)
  }

  #pack(type: string, input: unknown): string {
    return packPayload(type, input, this.#options.payloadBytesMax ?? PAYLOAD_BYTES_MAX)
  }
}

export function redress(options?: AppOptions): App {
  return new App(options)
}
