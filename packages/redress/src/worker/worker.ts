import { hostname } from 'node:os'
import { systemChance } from '../runtime/chance.ts'
import { Alarm, type Clock } from '../runtime/clock.ts'
import type { Log } from '../runtime/log.ts'
import type { Store, WorkerKey } from '../store/contract/store.ts'
import { Cancelled, ShuttingDown } from './attempt/attempt.ts'
import type { Handler } from './attempt/call-handler.ts'
import type { Flight } from './attempt/flight.ts'
import { Attempts } from './attempt/steps.ts'
import { BreakerWatch } from './claim/breaker-watch.ts'
import { Intake } from './claim/intake.ts'
import { SlotPool, SlotPools } from './claim/slot-pool.ts'
import { DutyLoop } from './duty.ts'
import { Deadlines } from './leases/deadlines.ts'
import { LeaseKeeper } from './leases/lease-keeper.ts'
import { Maintenance, type MaintenanceReport } from './leases/maintenance.ts'
import { LoopWatch } from './loop-watch.ts'
import { type FullWorkerOptions, fullOptions, type WorkerOptions } from './options.ts'
import { beforeProcessExit, Recorder, recordAtExit, StartRecorder } from './recorder.ts'
import { Reporter } from './reporter.ts'
import { answerOrThrow, Trouble } from './store-calls.ts'

const STOP_SETTLE_MS = 250
/** How long a stopping worker goes on trying to record outcomes when its store does not take them. */
const STOP_RECORD_MS = 10_000

/**
 * Claims jobs, runs their handlers, and records what became of them. One `cycle` sends outcomes, claims more and
 * begins what fits; a poll, finished work and new work in this process each ask for one.
 */
export class Worker {
  readonly id: string
  readonly #options: FullWorkerOptions
  readonly #clock: Clock
  readonly #log: Log
  readonly #store: Store
  readonly #keeper: LeaseKeeper
  readonly #recorder: Recorder
  readonly #maintenance: Maintenance
  readonly #attempts: Attempts
  readonly #breakers: BreakerWatch
  readonly #starts: StartRecorder
  readonly #reporter: Reporter
  readonly #poll: Alarm
  readonly #deadlines: Deadlines
  readonly #loop: LoopWatch
  readonly #idle: IdleWatch
  readonly #duties: readonly DutyLoop[]
  readonly #held = new Map<number, Flight>()
  readonly #pools: SlotPools
  readonly #handlers = new Map<string, Handler>()
  readonly #listTrouble: Trouble
  /** How many of its types the store lists. */
  #listed = 0
  #key: WorkerKey | null = null
  #state: 'new' | 'running' | 'stopping' | 'stopped' | 'dead' = 'new'
  #isCycleScheduled = false
  #isListing = false
  #cancelling: Promise<void> | null = null
  #forgetWakes: () => void = () => undefined
  #forgetExit: () => void = () => undefined

  constructor(options: WorkerOptions) {
    const handlers = this.#handlers
    this.#options = { ...fullOptions(options), handlers }
    const { store, clock, log } = this.#options
    this.#store = store
    this.#clock = clock
    this.#log = log
    this.id = options.id ?? `${hostname()}:${process.pid}:${Math.floor(systemChance() * 2 ** 32).toString(36)}`
    this.#listTrouble = new Trouble(clock, log)
    const lost = (flight: Flight) => this.#attempts.lose(flight)
    this.#keeper = new LeaseKeeper(store, clock, log, lost)
    this.#recorder = new Recorder(store, clock, log, (flight, answer) => this.#attempts.recorded(flight, answer))
    this.#starts = new StartRecorder(store, clock, log, lost)
    this.#reporter = new Reporter(store, clock, log, lost, () => this.#scheduleCycle())
    this.#maintenance = new Maintenance({
      ...{ store, log, codesOf: (type) => handlers.get(type)?.codes },
      keepsOutcomeOf: ({ key, attempt }) => {
        const flight = this.#held.get(key)
        return flight?.lease.attempt === attempt && flight.state.kind === 'closing'
      },
    })
    this.#breakers = new BreakerWatch({
      ...this.#options,
      toSend: () => this.#scheduleCycle(),
      looked: () => this.#pools.begin(),
      // Jobs that wait here for a slot go back when their breaker shuts.
      changed: (breakers) => {
        for (const flight of this.#pools.takeWaiting((one) => breakers.refusal(one) !== null)) {
          this.#attempts.start(flight)
        }
      },
    })
    this.#pools = new SlotPools(this.#options.concurrency, this.#makePool)
    this.#idle = new IdleWatch(clock, () => this.#isIdle || this.#state === 'dead')
    this.#poll = new Alarm(clock, () => this.#onPoll())
    this.#deadlines = new Deadlines({
      ...{ clock, held: this.#held, lost },
      timedOut: (flight) => this.#attempts.endByTimeout(flight),
      stoodStill: () => void this.#keepLeases(),
    })
    this.#loop = new LoopWatch({
      ...{ clock, log, onBlocked: this.#options.onBlocked },
      running: () => [...this.#held.values()].filter(({ state }) => state.kind === 'running'),
    })
    this.#attempts = new Attempts({
      id: this.id,
      options: this.#options,
      held: this.#held,
      pools: this.#pools,
      breakers: this.#breakers,
      starts: this.#starts,
      recorder: this.#recorder,
      reporter: this.#reporter,
      deadlines: this.#deadlines,
      loop: this.#loop,
      key: () => this.#workerKey,
      isAlive: () => this.#isAlive,
      crash: () => this.crash(),
      scheduleCycle: () => this.#scheduleCycle(),
      ended: () => this.#idle.check(),
    })
    const duties = [
      { name: 'maintenance', everyMs: this.#options.maintenanceMs, run: () => this.maintain() },
      { name: 'pruning', everyMs: this.#options.pruneMs, run: () => this.prune() },
      ...this.#options.duties,
    ]
    this.#duties = duties.map((duty) => new DutyLoop(clock, log, duty))
    this.#serve([...options.handlers.values()])
  }

  get held(): number {
    return this.#held.size
  }

  /** The job types that it runs. */
  get types(): string[] {
    return [...this.#handlers.keys()]
  }

  /** Runs jobs of these types from now on, too: a program may declare types while it works. */
  serve(handlers: readonly Handler[]): void {
    const added = handlers.filter(({ type }) => !this.#handlers.has(type))
    if (added.length === 0 || (this.#state !== 'new' && this.#state !== 'running')) return
    this.#serve(added)
    if (this.#state !== 'running') return
    this.#log.info({ worker_id: this.id, types: added.map(({ type }) => type) }, 'the worker runs new job types, too')
    void this.#list()
    this.#wantWork()
  }

  #serve(handlers: readonly Handler[]): void {
    for (const handler of handlers) this.#handlers.set(handler.type, handler)
    this.#keeper.serve(handlers)
    this.#breakers.serve(handlers)
    this.#pools.serve(handlers)
  }

  /** Begins to work, until `stop`. */
  async start(): Promise<void> {
    await Promise.all([...this.#options.handlers.values()].map(({ isolated, type }) => isolated?.check(type)))
    await this.enlist()
    if (this.#state !== 'running') return
    const forgetWakes = this.#store.onWake(() => this.#wake())
    const offer = () => (this.#key === null ? null : this.#pools.offer(this.#key))
    const forgetOffers = this.#options.handOff ? this.#store.onSubmit?.(offer) : undefined
    this.#forgetWakes = () => {
      forgetWakes()
      forgetOffers?.()
    }
    this.#forgetExit = beforeProcessExit(this.#onProcessExit)
    for (const duty of this.#duties) duty.start()
    this.#wantWork()
  }

  /** Makes the worker known without starting its loop: tests drive it with `tick`. */
  async enlist(): Promise<void> {
    if (this.#state !== 'new') return
    this.#state = 'running'
    const { types } = this
    try {
      this.#key = await this.#store.enlist({ id: this.id, host: hostname(), pid: process.pid, types })
      this.#listed = types.length
    } catch (error) {
      // A caller that tries again must find a new worker, not one that claims to run and never does.
      if (this.#state === 'running') this.#state = 'new'
      throw error
    }
    this.#log.info({ worker_id: this.id, types }, 'worker started')
  }

  /** One turn of the loop: keep leases, stop what is over, claim what is due, and wait until nothing moves by itself. */
  async tick(): Promise<void> {
    await this.enlist()
    await this.#keepLeases()
    await this.#readCancellations()
    this.#wantWork()
    await this.#settled()
  }

  /** Reclaims jobs of lost workers. Own leases are renewed first: a suspended process must not reclaim its own jobs. */
  async maintain(): Promise<MaintenanceReport> {
    if (this.#key !== null && this.#isAlive) await this.#keeper.keep(this.#key, this.#held)
    return this.#maintenance.reclaimStalled()
  }

  prune(): Promise<number> {
    return this.#maintenance.prune()
  }

  /** Runs each duty once: for tests, which drive the worker by hand. */
  async runDuties(): Promise<void> {
    for (const duty of this.#options.duties) await duty.run()
  }

  /**
   * Stops claiming, gives back what has not begun, and lets handlers finish for `graceMs`. Then they are told through
   * their signal, and what has still not ended is requeued or failed, as its policy says.
   */
  async stop({ graceMs = 30_000 }: { graceMs?: number } = {}): Promise<void> {
    if (this.#state === 'stopped' || this.#state === 'dead') return
    const wasEnlisted = this.#state !== 'new'
    this.#state = 'stopping'
    this.#forgetWakes()
    for (const duty of this.#duties) duty.stop()
    if (wasEnlisted) {
      this.#attempts.giveBackAll()
      this.#scheduleCycle()
      // A store that never answers must not block the stop. Without a limit, only handlers are awaited.
      const isEnough = Number.isFinite(graceMs) ? undefined : () => [...this.#held.values()].every(hasEnded)
      await this.#idle.within(graceMs, isEnough)
      if (!this.#isIdle) await this.#endRunning()
      if (!this.#isAlive) return
      await this.#leave()
    }
    await Promise.all([...this.#options.handlers.values()].map(({ isolated }) => isolated?.end('idle')))
    this.#poll.cancel()
    this.#deadlines.cancel()
    this.#reporter.stop()
    this.#loop.stop()
    this.#forgetExit()
    this.#state = 'stopped'
    this.#log.info({ worker_id: this.id }, 'worker stopped')
  }

  async #leave(): Promise<void> {
    await this.#breakers.end(this.#clock.monoMs())
    const unrecorded = this.#recorder.end().length
    if (unrecorded > 0) {
      this.#log.error({ outcomes: unrecorded }, 'outcomes were not recorded before the worker stopped')
    }
    try {
      if (this.#key !== null) await answerOrThrow(this.#clock, this.#store.dismiss({ worker: this.#key }))
    } catch (error) {
      // Its leases expire anyway, and then other workers reclaim its jobs.
      this.#log.error({ err: error }, 'the worker could not say that it stopped')
    }
  }

  /** Stops dead, like a killed process: the worker writes and reports nothing more. */
  crash(): void {
    this.#state = 'dead'
    this.#forgetWakes()
    this.#poll.cancel()
    this.#deadlines.cancel()
    this.#loop.stop()
    for (const duty of this.#duties) duty.stop()
    this.#forgetExit()
    this.#breakers.crash()
    this.#reporter.stop()
    this.#recorder.end()
    this.#attempts.crash()
    this.#idle.check()
  }

  // ---- the loop -----------------------------------------------------------------------------------------------

  get #isAlive(): boolean {
    return this.#state === 'running' || this.#state === 'stopping'
  }

  get #workerKey(): WorkerKey {
    if (this.#key === null) throw new Error('the worker was not enlisted')
    return this.#key
  }

  get #isIdle(): boolean {
    return this.#held.size === 0 && this.#recorder.isIdle && !this.#pools.isClaiming
  }

  #wake(): void {
    this.#pools.wake()
    this.#scheduleCycle()
  }

  #wantWork(): void {
    this.#pools.want()
    this.#scheduleCycle()
  }

  readonly #makePool = (slots: number): SlotPool => {
    const { clock, pollMs } = this.#options
    return new SlotPool({
      ...{ clock, slots, pollMs },
      intake: new Intake({
        ...this.#options,
        onBreakers: (standings, askedMonoMs) => this.#breakers.update(standings, askedMonoMs),
      }),
      isRunning: () => this.#state === 'running',
      held: () => this.#held.values(),
      claimed: (flight) => this.#attempts.claimed(flight),
      begin: () => this.#pools.begin(),
      start: (flight) => this.#attempts.start(flight),
      mustLookFirst: () => this.#mustLookFirst(),
      scheduleCycle: () => this.#scheduleCycle(),
      poll: (withinMs) => this.#poll.setWithin(withinMs),
      changed: () => {
        if (this.#state === 'stopping') this.#attempts.giveBackAll()
        this.#idle.check()
      },
    })
  }

  #scheduleCycle(): void {
    if (this.#isCycleScheduled || !this.#isAlive) return
    this.#isCycleScheduled = true
    setImmediate(this.#cycle)
  }

  readonly #cycle = (): void => {
    this.#isCycleScheduled = false
    if (!this.#isAlive || this.#key === null) return
    this.#starts.send(this.#key)
    this.#reporter.send(this.#key)
    this.#recorder.send(this.#key)
    this.#breakers.send(this.#clock.monoMs())
    if (this.#state === 'running') this.#pools.claim(this.#key)
    else this.#poll.setWithin(this.#options.pollMs)
    this.#idle.check()
  }

  /** Renews leases, stops attempts whose time is over, and releases jobs that wait too long. */
  async #keepLeases(): Promise<void> {
    if (this.#key === null || !this.#isAlive) return
    await this.#keeper.keep(this.#key, this.#held)
    void this.#list()
    this.#deadlines.endOverdue()
    this.#attempts.giveBackWaiting()
    this.#mustLookFirst()
  }

  /** The list of workers follows what this one runs. Until it does, the jobs run all the same. */
  async #list(): Promise<void> {
    if (this.#handlers.size === this.#listed || this.#key === null || this.#isListing) return
    if (this.#listTrouble.isWaiting) return
    const { types } = this
    this.#isListing = true
    try {
      await answerOrThrow(this.#clock, this.#store.serve({ worker: this.#key, types }))
      this.#listed = types.length
      this.#listTrouble.ended()
    } catch (error) {
      this.#listTrouble.failed({ err: error, types }, 'the list of workers does not show new job types; will try again')
    }
    this.#isListing = false
  }

  async #readCancellations(): Promise<void> {
    if (this.#key === null || !this.#isAlive || this.#held.size === 0) return
    try {
      const cancellations = await answerOrThrow(this.#clock, this.#store.cancellations({ worker: this.#key }))
      for (const { key, attempt, actor, reason } of cancellations) {
        const flight = this.#held.get(key)
        if (flight?.lease.attempt === attempt) this.#attempts.cancel(flight, new Cancelled(actor, reason))
      }
    } catch (error) {
      this.#log.error({ err: error }, 'cancellations could not be read; will try again')
    }
  }

  #mustLookFirst(): boolean {
    return this.#breakers.isNeeded && this.#pools.isAnyWaiting && this.#breakers.looksFirst(this.#clock.monoMs())
  }

  /** At the end of the grace period: signal the handlers, wait a moment, then interrupt them. */
  async #endRunning(): Promise<void> {
    const running = [...this.#held.values()].filter(({ state }) => state.kind === 'running')
    for (const flight of running) flight.stop(new ShuttingDown())
    await this.#idle.within(STOP_SETTLE_MS)
    for (const flight of running) flight.interrupt(flight.stopReason)
    await this.#idle.within(STOP_RECORD_MS)
  }

  /** `process.exit` in a handler, or an uncaught error: outcomes are recorded synchronously if the store can do that. */
  readonly #onProcessExit = (exitCode: number): void => {
    if (!this.#isAlive || this.#key === null) return
    recordAtExit({
      store: this.#store,
      log: this.#log,
      worker: this.#key,
      held: [...this.#held.values()],
      unsent: this.#recorder.end(),
      exitCode,
      nowMonoMs: this.#clock.monoMs(),
    })
  }

  // ---- timers and waiting -------------------------------------------------------------------------------------

  #onPoll(): void {
    if (!this.#isAlive) return
    // These run in parallel: a slow answer of the store must not hold up the others.
    void this.#keepLeases()
    this.#cancelling ??= this.#readCancellations().finally(() => {
      this.#cancelling = null
    })
    this.#wantWork()
  }

  /** Turns the event loop until claims and closes are answered and only handlers that wait for something are left. */
  async #settled(): Promise<void> {
    for (let still = 0; still < 3; ) {
      await new Promise<void>((resolve) => setImmediate(resolve))
      const isMoving =
        this.#isCycleScheduled ||
        this.#isListing ||
        this.#pools.isClaiming ||
        !this.#starts.isIdle ||
        !this.#reporter.isIdle ||
        this.#recorder.isMoving ||
        this.#breakers.isMoving
      still = isMoving ? 0 : still + 1
    }
  }
}

const hasEnded = ({ state }: Flight): boolean => state.kind === 'closing' || state.kind === 'gone'

/** Waits until the worker holds no job and has no outcome to send. */
class IdleWatch {
  readonly #clock: Clock
  readonly #isIdle: () => boolean
  #waiting: { isEnough: () => boolean; wake: () => void }[] = []

  constructor(clock: Clock, isIdle: () => boolean) {
    this.#clock = clock
    this.#isIdle = isIdle
  }

  /** Something changed: wakes the waiting callers whose condition now holds. */
  check(): void {
    if (this.#waiting.length === 0) return
    const woken = this.#waiting.filter(({ isEnough }) => isEnough())
    this.#waiting = this.#waiting.filter((one) => !woken.includes(one))
    for (const { wake } of woken) wake()
  }

  /** Resolves when no work is left, when the caller's condition holds, or after `ms` of the clock. */
  async within(ms: number, isEnough = this.#isIdle): Promise<void> {
    if (isEnough()) return
    await new Promise<void>((resolve) => {
      const timer = Number.isFinite(ms) ? this.#clock.setTimer(ms, resolve) : null
      const wake = () => {
        timer?.cancel()
        resolve()
      }
      this.#waiting.push({ isEnough, wake })
    })
  }
}
