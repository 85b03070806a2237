import { resolve } from 'node:path'
import { captureFailure } from '../core/capture.ts'
import { checkRules } from '../core/classify.ts'
import { RedressError } from '../core/errors.ts'
import { policy as makePolicy } from '../core/policy.ts'
import { type Taxonomy, withEngineCodes } from '../core/taxonomy.ts'
import { type Chance, systemChance } from '../runtime/chance.ts'
import { type Clock, systemClock } from '../runtime/clock.ts'
import { fillFromSystem, idMaker, type MakeId } from '../runtime/id.ts'
import { type Log, silentLog } from '../runtime/log.ts'
import { openSqlite } from '../store/sqlite/store.ts'
import type { NewJob, Store, Submitted } from '../store/store.ts'
import { failWith } from '../worker/attempt.ts'
import type { Handler } from '../worker/handler.ts'
import { Worker, type WorkerOptions } from '../worker/worker.ts'
import type { AnySchema, InputOf, JobDefinition, JobType, SubmitManyOptions, SubmitOptions } from './job-type.ts'
import { packPayload, readInput } from './read-input.ts'
import { newJob, rejection } from './submission.ts'

export interface AppOptions {
  /** A store, or where one is: `sqlite:path/to/file.db` or `sqlite::memory:`. */
  store?: string | Store
  payloadBytesMax?: number
  clock?: Clock
  chance?: Chance
  log?: Log
  makeId?: MakeId
}

const STORE_DEFAULT = 'sqlite:.redress/redress.db'
const PAYLOAD_BYTES_MAX = 1024 * 1024
const TYPE_NAME = /^[a-zA-Z][\w.:-]{0,99}$/

interface Declared {
  handler: Handler
  queue: string
  admit: ((input: unknown, owner: string | null) => unknown) | null
}

/** One program's view of a store: the job types it declares, and what it submits and runs. */
export class App {
  readonly #options: AppOptions
  readonly #clock: Clock
  readonly #declared = new Map<string, Declared>()
  readonly #workers = new Set<Worker>()
  readonly #makeId: MakeId
  #store: Store | null = null
  #ready: Promise<Store> | null = null
  #isStopped = false

  constructor(options: AppOptions = {}) {
    this.#options = options
    this.#clock = options.clock ?? systemClock
    this.#makeId = options.makeId ?? idMaker(() => this.#clock.nowMs(), fillFromSystem)
  }

  get types(): string[] {
    return [...this.#declared.keys()]
  }

  /** Declares a job type. */
  job<S extends AnySchema = AnySchema, const Codes extends string = never, Output = unknown>(
    name: string,
    definition: JobDefinition<S, Codes, Output>,
  ): JobType<InputOf<S>> {
    if (!TYPE_NAME.test(name))
      throw new RedressError(
        'OPTION_INVALID',
        `${JSON.stringify(name)} is not a name for a job type: use letters, digits and . _ : -`,
      )
    if (this.#declared.has(name))
      throw new RedressError('TYPE_DECLARED_TWICE', `The job type ${name} was declared already.`)
    const codes: Taxonomy = withEngineCodes<string>(definition.codes ?? {})
    const rules = definition.classify ?? []
    checkRules(rules, codes)
    const policy = makePolicy(definition.policy)
    const { admit, verify } = definition
    this.#declared.set(name, {
      queue: definition.queue ?? 'default',
      admit:
        admit === undefined
          ? null
          : (input, owner) =>
              admit(input as never, {
                type: name,
                owner,
                fail: (code, options) => {
                  throw failWith(code, options)
                },
              }),
      handler: {
        type: name,
        policy,
        codes,
        rules,
        readInput: (payload) => readInput(name, definition.input, payload),
        // Bound, not wrapped: a wrapper would stand in every stack.
        run: definition.run.bind(definition) as Handler['run'],
        verify: (verify?.bind(definition) as Handler['verify'] | undefined) ?? null,
      },
    })
    this.#ready = null
    return {
      name,
      policy,
      submit: (input, options) => this.submit(name, input, options),
      submitMany: (inputs, options) => this.submitMany(name, inputs, options),
    }
  }

  async submit(type: string, input: unknown, options: SubmitOptions = {}): Promise<Submitted> {
    const store = await this.store()
    const [submitted] = await store.submit({ jobs: [await this.#prepare(type, input, options)] })
    return submitted as Submitted
  }

  async submitMany<Input>(
    type: string,
    inputs: readonly Input[],
    { dedupe, ...options }: SubmitManyOptions<Input> = {},
  ): Promise<Submitted[]> {
    const store = await this.store()
    const jobs: NewJob[] = []
    for (const [i, input] of inputs.entries()) {
      const key = dedupe?.(input, i)
      jobs.push(await this.#prepare(type, input, key === undefined ? options : { ...options, dedupe: key }))
    }
    return jobs.length === 0 ? [] : store.submit({ jobs })
  }

  /** Begins to run the declared job types in this process. */
  async work(options: Omit<WorkerOptions, 'store' | 'handlers'> = {}): Promise<Worker> {
    const worker = await this.makeWorker(options)
    await worker.start()
    return worker
  }

  /** A worker that does nothing until it is told: for tests that call `tick`. */
  async makeWorker(options: Omit<WorkerOptions, 'store' | 'handlers'> = {}): Promise<Worker> {
    const store = await this.store()
    const handlers = new Map([...this.#declared].map(([name, { handler }]) => [name, handler]))
    const { clock = systemClock, chance = systemChance, log = silentLog } = this.#options
    const worker = new Worker({ clock, chance, log, ...options, store, handlers })
    this.#workers.add(worker)
    return worker
  }

  /** Lets workers finish, then lets go of the store. Safe to call twice. */
  async stop(options?: { graceMs?: number }): Promise<void> {
    this.#isStopped = true
    await Promise.all([...this.#workers].map((worker) => worker.stop(options)))
    await this.#store?.stop()
  }

  /** The store, opened and told about every job type declared so far. */
  store(): Promise<Store> {
    this.#ready ??= this.#open()
    return this.#ready
  }

  async #open(): Promise<Store> {
    if (this.#isStopped) throw new RedressError('STORE_STOPPED', 'The app was stopped.')
    this.#store ??= openStore(this.#options.store ?? STORE_DEFAULT, this.#clock)
    const types = [...this.#declared.values()].map(({ handler, queue }) => ({
      name: handler.type,
      queue,
      policy: handler.policy,
    }))
    if (types.length > 0) await this.#store.register({ types })
    return this.#store
  }

  /** Everything that can be wrong with a submission is found here, before the store is asked. */
  async #prepare(type: string, input: unknown, options: SubmitOptions): Promise<NewJob> {
    const declared = this.#declared.get(type)
    // A type of another program: its worker checks the input before it runs.
    if (declared === undefined) return newJob(type, this.#pack(type, input), options, this.#makeId)
    const { handler, admit } = declared
    const payload = this.#pack(type, input)
    try {
      const read = handler.readInput(input)
      if (read instanceof Promise) await read
      await admit?.(read instanceof Promise ? await read : read, options.owner ?? null)
    } catch (thrown) {
      if (handler.policy.reject === 'refuse') throw this.#refusal(handler, thrown)
      const rejected = rejection(type, handler.codes, handler.rules, thrown, this.#clock.nowMs())
      return { ...newJob(type, payload, options, this.#makeId), rejected }
    }
    return newJob(type, payload, options, this.#makeId)
  }

  #pack(type: string, input: unknown): string {
    return packPayload(type, input, this.#options.payloadBytesMax ?? PAYLOAD_BYTES_MAX)
  }

  #refusal({ type, codes, rules }: Handler, thrown: unknown): RedressError {
    if (thrown instanceof RedressError) return thrown
    const { failure } = captureFailure({
      thrown,
      stage: 'pre_dispatch',
      type,
      codes,
      rules,
      nowMs: this.#clock.nowMs(),
    })
    return new RedressError('SUBMISSION_REFUSED', `${failure.code}: ${failure.message}`, { cause: thrown })
  }
}

function openStore(store: string | Store, clock: Clock): Store {
  if (typeof store !== 'string') return store
  const path = /^sqlite:(.+)$/.exec(store)?.[1]
  if (path === undefined) {
    throw new RedressError(
      'OPTION_INVALID',
      `${JSON.stringify(store)} is not a store: write sqlite:path/to/file.db or sqlite::memory:.`,
    )
  }
  return openSqlite({ path: path === ':memory:' ? path : resolve(path), nowMs: () => clock.nowMs() })
}

export function redress(options?: AppOptions): App {
  return new App(options)
}
