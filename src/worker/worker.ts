import { hostname } from 'node:os'
import { AttemptStuck } from '../core/attempt-failed.ts'
import { systemChance } from '../runtime/chance.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Log } from '../runtime/log.ts'
import type { Close, CloseAnswer, Store, WorkerKey } from '../store/store.ts'
import { Alarm } from './alarm.ts'
import { BreakerWatch } from './breaker-watch.ts'
import { Chore } from './chore.ts'
import { Deadlines } from './deadlines.ts'
import type { Flight } from './flight.ts'
import type { Handler } from './handler.ts'
import { Intake } from './intake.ts'
import { LeaseKeeper } from './lease-keeper.ts'
import { Maintenance, type MaintenanceReport } from './maintenance.ts'
import { toldOf } from './notices.ts'
import { type FullWorkerOptions, fullOptions, type WorkerOptions } from './options.ts'
import { changeForShutdown, release } from './outcome.ts'
import { answerOrThrow } from './patience.ts'
import { Pipeline, type Step } from './pipeline.ts'
import { beforeProcessExit, recordAtExit } from './process-exit.ts'
import { Quiet } from './quiet.ts'
import { Recorder } from './recorder.ts'
import { Cancelled, LeaseLost, ShuttingDown } from './signals.ts'
import { SlotPool, SlotPools } from './slot-pool.ts'
import { StartTeller } from './start-teller.ts'
import { tellLost, tellOutcome } from './tell.ts'

/** A job claimed ahead that still has no slot after this long is better off with another worker. */
const BUFFERED_MS_MAX = 1_000
/** How long a job that may be what kills its workers waits while another such job runs. */
const SUSPECT_WAIT_MS = 10_000
const BLOCKED_MS_WORTH_TELLING = 1_000
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
  readonly #pipeline: Pipeline
  readonly #breakers: BreakerWatch | null
  readonly #starts: StartTeller
  readonly #poll: Alarm
  readonly #deadlines: Deadlines
  readonly #quiet: Quiet
  readonly #chores: readonly Chore[]
  readonly #held = new Map<number, Flight>()
  readonly #pools: SlotPools
  #key: WorkerKey | null = null
  #state: 'new' | 'running' | 'stopping' | 'stopped' | 'dead' = 'new'
  #isCycleScheduled = false
  #cancelling: Promise<void> | null = null
  #forgetHint: () => void = () => undefined
  #forgetExit: () => void = () => undefined

  constructor(options: WorkerOptions) {
    this.#options = fullOptions(options)
    const { store, clock, log, handlers, chance, resultBytesMax, tellStart, tellTry } = this.#options
    this.#store = store
    this.#clock = clock
    this.#log = log
    this.id = options.id ?? `${hostname()}:${process.pid}:${Math.floor(systemChance() * 2 ** 32).toString(36)}`
    const shortestMs = Math.min(...[...handlers.values()].map(({ policy }) => policy.lease.ttlMs))
    this.#keeper = new LeaseKeeper(store, clock, log, shortestMs, (flight) => this.#lose(flight))
    this.#recorder = new Recorder(store, clock, log, (flight, close, answer) => this.#recorded(flight, close, answer))
    this.#maintenance = new Maintenance({ store, log, codesOf: (type) => handlers.get(type)?.codes })
    this.#pipeline = new Pipeline({
      ...{ clock, chance, resultBytesMax, tellStart, tellTry },
      enter: (step, flight) => this.#enter(step, flight),
      tellStartNow: (flight) => this.#starts.tellNow(this.#workerKey, flight),
      tellStartLater: (flight) => this.#starts.tellLater(this.#workerKey, flight),
      heldUp: (flight, ms) => this.#forgive(flight, ms),
      close: (flight, change, nowMonoMs) => this.#close(flight, change, nowMonoMs),
    })
    this.#breakers = BreakerWatch.of({
      ...this.#options,
      toSend: () => this.#scheduleCycle(),
      looked: () => this.#pools.begin(),
      // Jobs that wait here for a slot go back when their breaker shuts.
      changed: (breakers) =>
        this.#pools.takeWaiting((flight) => breakers.refusal(flight) !== null).map((one) => this.#start(one)),
    })
    this.#pools = new SlotPools(handlers.values(), this.#options.concurrency, this.#makePool)
    this.#starts = new StartTeller(store, clock, log, (flight) => this.#lose(flight))
    this.#quiet = new Quiet(clock, () => this.#isQuiet || this.#state === 'dead')
    this.#poll = new Alarm(clock, (lateMs) => this.#onPoll(lateMs))
    this.#deadlines = new Deadlines({
      ...{ clock, held: this.#held },
      lost: (flight) => this.#lose(flight),
      timedOut: (flight) => this.#endByTimeout(flight),
      stoodStill: () => void this.#keepLeases(),
    })
    this.#chores = [
      new Chore(clock, log, 'maintenance', this.#options.maintenanceMs, () => this.maintain()),
      new Chore(clock, log, 'pruning', this.#options.pruneMs, () => this.prune()),
      ...this.#options.duties.map(({ name, everyMs, run }) => new Chore(clock, log, name, everyMs, run)),
    ]
  }

  get held(): number {
    return this.#held.size
  }

  /** Begins to work, until `stop`. */
  async start(): Promise<void> {
    await this.enlist()
    if (this.#state !== 'running') return
    this.#forgetHint = this.#store.onWork(() => this.#hint())
    this.#forgetExit = beforeProcessExit(this.#onProcessExit)
    for (const chore of this.#chores) chore.start()
    this.#wantWork()
  }

  /** Makes the worker known without starting its loop: tests drive it with `tick`. */
  async enlist(): Promise<void> {
    if (this.#state !== 'new') return
    this.#state = 'running'
    const types = [...this.#options.handlers.keys()]
    try {
      this.#key = await this.#store.enlist({ id: this.id, host: hostname(), pid: process.pid, types })
    } catch (error) {
      // Whoever tries again must find a worker that is not known yet, not one that seems to run and never does.
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

  /** Looks after jobs whose worker is gone. Own leases first: a process that was stopped for long must not rob itself. */
  async maintain(): Promise<MaintenanceReport> {
    if (this.#key !== null && this.#isAlive) await this.#keeper.keep(this.#key, this.#held)
    return this.#maintenance.lookAfterStalled()
  }

  prune(): Promise<number> {
    return this.#maintenance.prune()
  }

  /** Each of them once: for tests, which drive the worker by hand. */
  async doDuties(): Promise<void> {
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
    this.#forgetHint()
    for (const chore of this.#chores) chore.stop()
    if (wasEnlisted) {
      this.#releaseBuffer('the worker stopped before it began')
      this.#scheduleCycle()
      // A store that never answers must not block the stop. Without a limit, only handlers are awaited.
      const isEnough = Number.isFinite(graceMs) ? undefined : () => [...this.#held.values()].every(hasEnded)
      await this.#quiet.within(graceMs, isEnough)
      if (!this.#isQuiet) await this.#endRunning()
      if (!this.#isAlive) return
      await this.#leave()
    }
    this.#poll.cancel()
    this.#deadlines.cancel()
    this.#forgetExit()
    this.#state = 'stopped'
    this.#log.info({ worker_id: this.id }, 'worker stopped')
  }

  async #leave(): Promise<void> {
    await this.#breakers?.end(this.#clock.monoMs())
    const unrecorded = this.#recorder.end().length
    if (unrecorded > 0) {
      this.#log.error({ outcomes: unrecorded }, 'outcomes were not recorded before the worker stopped')
    }
    try {
      if (this.#key !== null) await answerOrThrow(this.#clock, this.#store.dismiss({ worker: this.#key }))
    } catch (error) {
      // Its leases run out all the same, and its silence says the rest.
      this.#log.error({ err: error }, 'the worker could not say that it stopped')
    }
  }

  /** Falls dead, as a killed process does: nothing more is written and nothing is told to anybody. */
  crash(): void {
    this.#state = 'dead'
    this.#forgetHint()
    this.#poll.cancel()
    this.#deadlines.cancel()
    for (const chore of this.#chores) chore.stop()
    this.#forgetExit()
    this.#breakers?.crash()
    this.#recorder.end()
    for (const flight of this.#held.values()) flight.state = 'gone'
    this.#held.clear()
    this.#pools.clear()
    this.#quiet.look()
  }

  // ---- the loop -----------------------------------------------------------------------------------------------

  get #isAlive(): boolean {
    return this.#state === 'running' || this.#state === 'stopping'
  }

  get #workerKey(): WorkerKey {
    if (this.#key === null) throw new Error('the worker was not enlisted')
    return this.#key
  }

  get #isQuiet(): boolean {
    return this.#held.size === 0 && this.#recorder.isIdle && !this.#pools.isClaiming
  }

  #hint(): void {
    this.#pools.hint()
    this.#scheduleCycle()
  }

  #wantWork(): void {
    this.#pools.want()
    this.#scheduleCycle()
  }

  readonly #makePool = (served: readonly Handler[], slots: number): SlotPool => {
    const { clock, log, pollMs, prefetchMax, handlers } = this.#options
    return new SlotPool({
      ...{ clock, slots, pollMs },
      intake: new Intake(this.#store, clock, log, handlers, served, prefetchMax, (standings, askedMonoMs) =>
        this.#breakers?.learn(standings, askedMonoMs),
      ),
      isRunning: () => this.#state === 'running',
      held: () => this.#held.values(),
      claimed: (flight) => this.#take(flight),
      begin: () => this.#pools.begin(),
      start: (flight) => this.#start(flight),
      mustLookFirst: () => this.#mustLookFirst(),
      turn: () => this.#scheduleCycle(),
      poll: (withinMs) => this.#poll.setWithin(withinMs),
      changed: () => {
        if (this.#state === 'stopping') this.#releaseBuffer('the worker stopped before it began')
        this.#quiet.look()
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
    this.#recorder.send(this.#key)
    this.#breakers?.send(this.#clock.monoMs())
    if (this.#state === 'running') this.#pools.claim(this.#key)
    else this.#poll.setWithin(this.#options.pollMs)
    this.#quiet.look()
  }

  #take(flight: Flight): void {
    const earlier = this.#held.get(flight.lease.key)
    // Every claim has a new number: this worker already holds the lease, and a search for lost claims found it again.
    if (!this.#isAlive || earlier?.lease.attempt === flight.lease.attempt) return
    // The job was taken back and leased to this worker again. The earlier handler must not run beside this one.
    if (earlier !== undefined) this.#lose(earlier)
    this.#held.set(flight.lease.key, flight)
    this.#deadlines.watch(flight.trustedUntilMonoMs)
    if (this.#enter('claim', flight)) this.#pools.of(flight).line.add(flight)
  }

  // ---- one attempt, step by step ------------------------------------------------------------------------------

  /** False when the worker is dead, or falls dead at this step. */
  #enter(step: Step, flight: Flight): boolean {
    const { probe } = this.#options
    if (probe?.(step, { jobId: flight.lease.id, number: flight.lease.attempt }) === 'crash') this.crash()
    return this.#isAlive
  }

  #start(flight: Flight): void {
    if (flight.state !== 'buffered' || !this.#enter('start', flight)) return
    const nowMonoMs = this.#clock.monoMs()
    const refusal = this.#breakers?.refusal(flight) ?? null
    if (refusal !== null) {
      this.#close(flight, refusal, nowMonoMs)
      return
    }
    this.#pools.of(flight).take()
    this.#pipeline.start(flight, nowMonoMs)
    this.#deadlines.watch(flight.endMonoMs)
  }

  #close(flight: Flight, change: Close['change'], nowMonoMs: number): void {
    const wasRunning = flight.state === 'running'
    flight.state = 'closing'
    const { key, attempt, batch } = flight.lease
    const ranMs = flight.startedMonoMs === null ? null : nowMonoMs - flight.startedMonoMs
    if (!this.#enter('record', flight)) return
    if (flight.callEpoch !== null) this.#breakers?.ended(flight, change, nowMonoMs)
    const told = toldOf(flight.lease, change, flight.handler.policy, this.id)
    this.#recorder.add(flight, { key, attempt, batch, change, ranMs, ...told })
    // Where the record comes first, it also comes before this slot's next job (P66).
    if (wasRunning && flight.handler.policy.audit === 'write-ahead') flight.keepsSlot = true
    else if (wasRunning) this.#pools.of(flight).free()
    this.#pools.of(flight).want()
    this.#scheduleCycle()
  }

  #freeKeptSlot(flight: Flight): void {
    if (!flight.keepsSlot) return
    flight.keepsSlot = false
    this.#pools.of(flight).free()
  }

  #recorded(flight: Flight, close: Close, answer: CloseAnswer): void {
    if (!this.#isAlive || !this.#enter('tell', flight)) return
    flight.state = 'gone'
    this.#forget(flight)
    this.#freeKeptSlot(flight)
    const breaker = this.#breakers?.statusOf(flight.handler.policy) ?? null
    tellOutcome({ flight, close, answer, breaker, to: this.#options, log: this.#log })
    this.#quiet.look()
  }

  #forget(flight: Flight): void {
    if (this.#held.get(flight.lease.key) === flight) this.#held.delete(flight.lease.key)
    // Only now, when its outcome is safe: the next one may kill us before it could be recorded.
    const pool = this.#pools.of(flight)
    if (pool.line.ended(flight)) pool.beginSoon()
  }

  // ---- what can happen to an attempt from outside -------------------------------------------------------------

  /** Renews leases, stops attempts whose time is over, and releases jobs that wait too long. */
  async #keepLeases(): Promise<void> {
    if (this.#key === null || !this.#isAlive) return
    await this.#keeper.keep(this.#key, this.#held)
    this.#deadlines.endOverdue()
    this.#giveBackWaiting(this.#clock.monoMs())
    this.#mustLookFirst()
  }

  async #readCancellations(): Promise<void> {
    if (this.#key === null || !this.#isAlive || this.#held.size === 0) return
    try {
      const cancellations = await answerOrThrow(this.#clock, this.#store.cancellations({ worker: this.#key }))
      for (const { key, attempt, actor, reason } of cancellations) {
        const flight = this.#held.get(key)
        if (flight?.lease.attempt === attempt) this.#cancel(flight, new Cancelled(actor, reason))
      }
    } catch (error) {
      this.#log.error({ err: error }, 'cancellations could not be read; will try again')
    }
  }

  /** Neighbours must not pay for a handler that held them up: the time they lost is not counted. */
  #forgive(blocking: Flight, ms: number): void {
    for (const flight of this.#held.values()) if (flight !== blocking) flight.deadlineMonoMs += ms
  }

  #endByTimeout(flight: Flight): void {
    const reason = this.#pipeline.endOf(flight)
    flight.stop(reason)
    const { id: job_id, type, attempt } = flight.lease
    this.#pipeline.settle(flight, { kind: 'failed', stage: 'execution', thrown: reason })
    const isStuck = reason instanceof AttemptStuck
    const what = isStuck ? 'a stuck attempt was taken back' : 'an attempt was stopped at its time limit'
    const fields = { job_id, type, attempt, ...(isStuck && { count: 1 }) }
    this.#log.warn(fields, `${what}; its handler may still be working`)
  }

  /** The handler decides how to stop; what it answers then is recorded as cancelled unless it succeeded first. */
  #cancel(flight: Flight, reason: Cancelled): void {
    if (flight.state === 'buffered') {
      this.#pools.takeWaiting((other) => other === flight)
      this.#close(flight, { to: 'cancelled', note: reason.message }, this.#clock.monoMs())
    } else flight.stop(reason)
  }

  /** The job is not ours any more: stop the work, and write nothing. */
  #lose(flight: Flight): void {
    if (flight.state === 'gone') return
    tellLost(flight, this.id, this.#options.tellLost, this.#log)
    const wasRunning = flight.state === 'running'
    if (flight.state === 'buffered') this.#pools.takeWaiting((other) => other === flight)
    flight.state = 'gone'
    this.#forget(flight)
    flight.stop(new LeaseLost())
    if (wasRunning) this.#pools.of(flight).free()
    this.#freeKeptSlot(flight)
    this.#pools.of(flight).want()
    this.#scheduleCycle()
  }

  #giveBackWaiting(nowMonoMs: number): void {
    const hasWaited = ({ claimedMonoMs, handler }: Flight) =>
      nowMonoMs - claimedMonoMs > BUFFERED_MS_MAX && !handler.policy.forwardOnly
    for (const flight of this.#pools.takeWaiting(hasWaited)) {
      const change = flight.isSuspect
        ? release(flight, 'another job that may be what kills its workers runs first', SUSPECT_WAIT_MS)
        : release(flight, 'no slot became free')
      this.#close(flight, change, nowMonoMs)
    }
  }

  #mustLookFirst(): boolean {
    return this.#breakers !== null && this.#pools.isAnyWaiting && this.#breakers.looksFirst(this.#clock.monoMs())
  }

  #releaseBuffer(note: string): void {
    const nowMonoMs = this.#clock.monoMs()
    for (const flight of this.#pools.takeWaiting(() => true)) {
      const { policy } = flight.handler
      const change =
        policy.shutdown === 'fail'
          ? changeForShutdown(flight, nowMonoMs, this.#options.chance())
          : release(flight, note)
      this.#close(flight, change, nowMonoMs)
    }
  }

  /** At the end of the grace: tell the handlers, give them a moment, then decide for them. */
  async #endRunning(): Promise<void> {
    const running = [...this.#held.values()].filter((flight) => flight.state === 'running')
    for (const flight of running) flight.stop(new ShuttingDown())
    await this.#quiet.within(STOP_SETTLE_MS)
    for (const flight of running) {
      if (flight.state === 'running')
        this.#pipeline.settle(flight, { kind: 'failed', stage: 'execution', thrown: flight.stopReason })
    }
    await this.#quiet.within(STOP_RECORD_MS)
  }

  /** `process.exit` in a handler, or an uncaught error: what a store can still write at once, it writes. */
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

  #onPoll(lateMs: number): void {
    if (!this.#isAlive) return
    if (lateMs > BLOCKED_MS_WORTH_TELLING) {
      const running = [...this.#held.values()].filter((flight) => flight.isWorking).map((flight) => flight.lease.id)
      this.#log.warn({ blocked_ms: Math.round(lateMs), running }, 'something held up the event loop of this worker')
    }
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
        this.#isCycleScheduled || this.#pools.isClaiming || !this.#starts.isIdle || this.#recorder.isMoving
      still = isMoving || this.#breakers?.isMoving ? 0 : still + 1
    }
  }
}

const hasEnded = ({ state }: Flight): boolean => state === 'closing' || state === 'gone'
