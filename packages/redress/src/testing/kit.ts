import { App, type AppOptions } from '../app/app.ts'
import type { EventKind } from '../core/job/events.ts'
import { type Duration, durationMs } from '../core/text/duration.ts'
import { optionNames, refuseUnknownOptions } from '../core/text/options.ts'
import { type Chance, seededChance } from '../runtime/chance.ts'
import { VirtualClock } from '../runtime/clock.ts'
import { fillFromChance, idMaker } from '../runtime/id.ts'
import type { JobRow, Store } from '../store/contract/store.ts'
import { STEPS, type Step } from '../worker/attempt/steps.ts'
import type { WorkerOptions } from '../worker/options.ts'
import type { Worker } from '../worker/worker.ts'

/** The options of `testKit()`. */
export interface KitOptions extends Pick<AppOptions, 'log' | 'failureLog' | 'payloadBytesMax'> {
  /** The same seed gives the same ids, the same jitter and the same order of things. */
  seed?: number
  /** When the kit's time begins, in milliseconds since 1970. */
  startMs?: number
  /** Another store than one in memory. Its time must be the kit's. */
  store?: (params: { nowMs: () => number }) => Store
}

/** The options of `kit.crashingWorker()`. */
export interface CrashOptions extends Omit<WorkerOptions, 'store' | 'handlers' | 'probe'> {
  /** The worker falls dead when an attempt enters this step. */
  at: Step
  /** Which attempt that is, counted over all that come to this step in this worker. */
  nth?: number
  /** The crash may not happen at all. Without this, `kit.stop()` throws if it did not. */
  optional?: boolean
}

/** A crash that a test planned, and whether it happened. */
interface PlannedCrash {
  worker: string
  at: Step
  nth: number
  optional: boolean
  /** Attempts of this worker that entered the step. */
  entered: number
}

const OPTIONS = optionNames<KitOptions>({
  log: true,
  failureLog: true,
  payloadBytesMax: true,
  seed: true,
  startMs: true,
  store: true,
})
const WITHIN = optionNames<{ within?: Duration }>({ within: true })
/** Jobs that are looked at when the kit works out what happens next. */
const JOBS_MAX = 10_000
const HELD_MAX = 1_000
/** A worker of the kit is woken by the kit, not by itself. */
const NEVER_MS = 2 ** 31
/** Two renewals may fail before a lease is in danger; the kit lets none fail. */
const RENEW_AT_SHARE = 1 / 3
/** So often may jobs come back at one and the same moment before the kit says that they will do so for ever. */
const TURNS_MAX = 1_000

/**
 * An app over a store in memory, in a world where time stands still until the test moves it and chance is drawn from a
 * seed: what takes an hour in production takes a moment here, and happens the same way every time.
 */
export class TestKit {
  readonly app: App
  readonly clock: VirtualClock
  readonly chance: Chance
  /** They get jobs first. */
  readonly #others: Worker[] = []
  readonly #crashes: PlannedCrash[] = []
  #worker: Worker | null = null
  #workersMade = 0

  constructor(given: KitOptions = {}) {
    refuseUnknownOptions('testKit()', given, OPTIONS)
    const { seed = 1, startMs, store, ...options } = given
    this.clock = new VirtualClock(startMs)
    this.chance = seededChance(seed)
    // A chance of their own: the ids of a test must not depend on how often something else was drawn.
    const makeId = idMaker(() => this.clock.nowMs(), fillFromChance(seededChance(seed + 1)))
    const opened = store?.({ nowMs: () => this.clock.nowMs() }) ?? 'sqlite::memory:'
    this.app = new App({
      store: opened,
      clock: this.clock,
      chance: this.chance,
      makeId,
      hubPollMs: NEVER_MS,
      log: false,
      ...options,
    })
  }

  /** The worker that runs whatever the app has declared. It is made when it is first needed. */
  async worker(): Promise<Worker> {
    this.#worker ??= await this.#makeWorker('worker', {})
    // Also makes the workers pick up the newest types.
    await this.app.store()
    return this.#worker
  }

  /** A worker that gets the next jobs before any other, and falls dead when an attempt enters the given step, as if killed. */
  async crashingWorker({ at, nth = 1, optional = false, ...options }: CrashOptions): Promise<Worker> {
    if (!STEPS.includes(at)) throw new Error(`at: must be one of ${STEPS.join(', ')}; got ${String(at)}`)
    if (!Number.isSafeInteger(nth) || nth < 1) throw new Error(`nth: must be a whole number from 1; got ${String(nth)}`)
    const crash: PlannedCrash = { worker: '', at, nth, optional, entered: 0 }
    const probe = (step: Step) => (step === at && ++crash.entered === nth ? ('crash' as const) : undefined)
    const worker = await this.#makeWorker('crashing-worker', { ...options, probe })
    crash.worker = worker.id
    this.#crashes.push(crash)
    this.#others.push(worker)
    return worker
  }

  /** One turn of every worker: what is due is claimed and run, what ended is recorded, lost workers are noticed. */
  async tick(): Promise<void> {
    await this.#turn()
    const worker = await this.worker()
    await worker.maintain()
    await worker.runDuties()
    if ((await this.#ready()) !== '') await this.#turn()
  }

  /** Lets time go by: workers renew their leases, and whatever becomes due on the way happens at its time. */
  async advance(duration: Duration): Promise<void> {
    await this.#settle()
    for (let leftMs = durationMs(duration, 'advance'); leftMs > 0; ) {
      const stepMs = Math.min(leftMs, await this.#untilSomethingHappensMs())
      await this.clock.advance(stepMs, () => this.#settle())
      leftMs -= stepMs
    }
    await (await this.worker()).prune()
  }

  /**
   * Lets time go by until every job has ended. Orphans that were reported are left alone: they wait for a person, and
   * so would this.
   */
  async drain(options: { within?: Duration } = {}): Promise<void> {
    refuseUnknownOptions('kit.drain()', options, WITHIN)
    const { within = '30d' } = options
    await this.until('every job has ended', async () => (await this.#open()).length === 0, { within })
  }

  /** Lets time go by until the condition holds, and says which one when it does not come. */
  async until(
    what: string,
    condition: () => boolean | Promise<boolean>,
    options: { within?: Duration } = {},
  ): Promise<void> {
    refuseUnknownOptions('kit.until()', options, WITHIN)
    const { within = '1d' } = options
    let leftMs = durationMs(within, 'within')
    await this.#settle()
    while (!(await condition())) {
      const stepMs = Math.min(leftMs, await this.#untilSomethingHappensMs())
      if (stepMs <= 0) throw new Error(`waited ${within} in vain until ${what}\n${await this.#describeOpen()}`)
      await this.advance(stepMs)
      leftMs -= stepMs
    }
  }

  /** For handlers under test: waits in the kit's time. */
  sleep(duration: Duration): Promise<void> {
    return new Promise((resolve) => this.clock.setTimer(durationMs(duration, 'sleep'), resolve))
  }

  /** What happened to a job, in one word each: `['queued', 'processing', 'retry', ...]`. */
  async history(id: string): Promise<EventKind[]> {
    return (await this.app.jobs.events(id)).events.map((event) => event.kind)
  }

  /**
   * Ends everything at once, without waiting for handlers, which may never end. Throws if a planned crash never
   * happened: such a test proves nothing.
   */
  async stop(): Promise<void> {
    for (const worker of this.#others) worker.crash()
    this.#worker?.crash()
    await this.app.stop({ graceMs: 0 })
    const missed = this.#crashes.splice(0).filter(({ optional, entered, nth }) => !optional && entered < nth)
    if (missed.length > 0) throw new Error(missed.map(missedCrash).join('\n'))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  // ---- what happens next ------------------------------------------------------------------------------------------

  #makeWorker(name: string, options: Omit<WorkerOptions, 'store' | 'handlers'>): Promise<Worker> {
    const id = `${name}-${++this.#workersMade}`
    return this.app.makeWorker({ id, pollMs: NEVER_MS, ...options })
  }

  /** Queued, or running: orphans that were reported wait for a person. */
  async #open(): Promise<JobRow[]> {
    const store = await this.app.store()
    const queued = await store.jobs({ status: 'queued', limit: JOBS_MAX })
    const processing = await store.jobs({ status: 'processing', limit: JOBS_MAX })
    return [...queued, ...processing.filter((job) => job.orphanedAtMs === null)]
  }

  async #turn(): Promise<void> {
    const steady = await this.worker()
    for (const worker of [...this.#others, steady]) {
      await worker.tick()
      // The start of an attempt is recorded one turn after it begins.
      if (worker.held > 0) await worker.tick()
    }
  }

  /** Turns until nothing more happens at this moment: retries without a delay are made, too. */
  async #settle(): Promise<void> {
    let before = ''
    for (let turns = 0; turns < TURNS_MAX; turns++) {
      await this.tick()
      const ready = await this.#ready()
      // Jobs that stay ready have no worker with a free slot.
      if (ready === '' || ready === before) return
      before = ready
    }
    throw new Error(`jobs come back again and again without time going by\n${await this.#describeOpen()}`)
  }

  /** The jobs that could be claimed now, and how often each of them was. */
  async #ready(): Promise<string> {
    const store = await this.app.store()
    const types = new Set(this.app.types)
    const queued = await store.jobs({ status: 'queued', limit: JOBS_MAX })
    const ready = queued.filter((job) => types.has(job.type) && (job.dueAtMs ?? 0) <= this.clock.nowMs())
    return ready.map(({ id, attempt }) => `${id} ${attempt}`).join()
  }

  /** How far time may go before a lease must be renewed or is found to have run out. */
  async #untilSomethingMustBeDoneMs(): Promise<number> {
    const store = await this.app.store()
    const nowMs = this.clock.nowMs()
    const waits = [NEVER_MS]
    const isHeld = [await this.worker(), ...this.#others].some((worker) => worker.held > 0)
    for (const { lease, policy, claimedAtMs, orphanedAtMs } of await store.jobs({
      status: 'processing',
      limit: JOBS_MAX,
    })) {
      if (isHeld) waits.push(policy.lease.ttlMs * RENEW_AT_SHARE)
      if (orphanedAtMs !== null || lease === null || claimedAtMs === null) continue
      const { startTimeoutMs } = policy.lease
      if (startTimeoutMs !== null) waits.push(claimedAtMs + startTimeoutMs - nowMs)
      waits.push(lease.untilMs - nowMs)
    }
    for (const duty of this.app.duties) waits.push(((await duty.nextAtMs?.()) ?? Number.POSITIVE_INFINITY) - nowMs)
    return Math.ceil(Math.min(...waits.filter((wait) => wait > 0)))
  }

  async #untilSomethingHappensMs(): Promise<number> {
    const nowMs = this.clock.nowMs()
    const dues = (await this.#open()).flatMap(({ dueAtMs }) => (dueAtMs === null ? [] : [dueAtMs - nowMs]))
    // A job that a rate, a breaker or a pause holds starts when that allows it.
    const { jobs } = await this.app.jobs.list({ status: 'queued', limit: HELD_MAX })
    const holds = jobs.flatMap(({ held }) =>
      held.flatMap(({ until }) => (until === null ? [] : Date.parse(until) - nowMs)),
    )
    return Math.min(...[...dues, ...holds].filter((wait) => wait > 0), await this.#untilSomethingMustBeDoneMs())
  }

  async #describeOpen(): Promise<string> {
    const jobs = await this.#open()
    const lines = jobs
      .slice(0, 10)
      .map(({ id, type, status, attempt }) => `  ${type} ${id}: ${status}, attempt ${attempt}`)
    return [`${jobs.length} have not ended:`, ...lines].join('\n')
  }
}

function missedCrash({ worker, at, nth, entered }: PlannedCrash): string {
  const came = `${entered} of ${nth} attempts reached this step`
  const check =
    'Submit jobs that get there, with this worker free, before the kit is stopped; or give `optional: true`.'
  return `The planned crash of ${worker} at '${at}' never happened: ${came}. ${check}`
}

/** Makes a world for tests in which time and chance are yours. */
export function testKit(options?: KitOptions): TestKit {
  return new TestKit(options)
}
