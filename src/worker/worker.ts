import { hostname } from 'node:os'
import { type Chance, systemChance } from '../runtime/chance.ts'
import { type Clock, systemClock } from '../runtime/clock.ts'
import { type Log, silentLog } from '../runtime/log.ts'
import type { Close, CloseAnswer, Lane, Store, WorkerKey } from '../store/store.ts'
import { Alarm } from './alarm.ts'
import { Chore } from './chore.ts'
import { Flight } from './flight.ts'
import type { Handler } from './handler.ts'
import { LeaseKeeper } from './lease-keeper.ts'
import { Maintenance, type MaintenanceReport } from './maintenance.ts'
import { changeForShutdown, closeForExit, release } from './outcome.ts'
import { Pipeline, type Step } from './pipeline.ts'
import { Prefetch } from './prefetch.ts'
import { Recorder } from './recorder.ts'
import { Cancelled, LeaseLost, ShuttingDown } from './signals.ts'

export interface WorkerOptions {
  store: Store
  handlers: ReadonlyMap<string, Handler>
  /** Handlers that run at once. */
  concurrency?: number
  /** Jobs claimed ahead of free slots: at most this many, and no more than the worker does in a tenth of a second. */
  prefetchMax?: number
  /** The longest wait for work submitted by another process. */
  pollMs?: number
  maintenanceMs?: number
  pruneMs?: number
  resultBytesMax?: number
  clock?: Clock
  chance?: Chance
  log?: Log
  id?: string
  /** Called after an outcome is durable. */
  tell?: (outcome: Told) => void
  /** Called as an attempt enters a step; answering 'crash' makes the worker fall dead there, as if killed. */
  probe?: (step: Step, attempt: { jobId: string; number: number }) => 'crash' | undefined
}

export interface Told {
  jobId: string
  type: string
  attempt: number
  answer: CloseAnswer
  change: Close['change']
}

const DEFAULTS = {
  concurrency: 10,
  prefetchMax: 500,
  pollMs: 100,
  maintenanceMs: 5_000,
  pruneMs: 600_000,
  resultBytesMax: 1024 * 1024,
}
/** A job claimed ahead that still has no slot after this long is better off with another worker. */
const BUFFERED_MS_MAX = 1_000
const BLOCKED_MS_WORTH_TELLING = 1_000
const STOP_SETTLE_MS = 250

/**
 * Claims jobs, runs their handlers, and records what became of them. One `cycle` sends outcomes, claims more and
 * begins what fits; a poll, finished work and new work in this process each ask for one.
 */
export class Worker {
  readonly id: string
  readonly #options: Required<Omit<WorkerOptions, 'tell' | 'probe' | 'id'>> & Pick<WorkerOptions, 'tell' | 'probe'>
  readonly #clock: Clock
  readonly #log: Log
  readonly #store: Store
  readonly #keeper: LeaseKeeper
  readonly #recorder: Recorder
  readonly #maintenance: Maintenance
  readonly #pipeline: Pipeline
  readonly #prefetch: Prefetch
  readonly #poll: Alarm
  readonly #chores: readonly Chore[]
  readonly #lanesAhead: Lane[]
  readonly #lanesOneByOne: Lane[]
  readonly #held = new Map<number, Flight>()
  #buffer: Flight[] = []
  #running = 0
  #startsToTell: Flight[] = []
  #key: WorkerKey | null = null
  #state: 'new' | 'running' | 'stopping' | 'stopped' | 'dead' = 'new'
  #isCycleScheduled = false
  #isClaiming = false
  #isFilling = false
  #hasWorkHint = false
  #forgetHint: () => void = () => undefined
  #whenQuiet: (() => void)[] = []

  constructor(options: WorkerOptions) {
    this.#options = { clock: systemClock, chance: systemChance, log: silentLog, ...DEFAULTS, ...options }
    const { store, clock, log, handlers } = this.#options
    this.#store = store
    this.#clock = clock
    this.#log = log
    this.id = options.id ?? `${hostname()}:${process.pid}:${Math.floor(systemChance() * 2 ** 32).toString(36)}`
    this.#keeper = new LeaseKeeper(store, log, (flight) => this.#lose(flight))
    this.#recorder = new Recorder(store, clock, log, (flight, close, answer) => this.#recorded(flight, close, answer))
    this.#maintenance = new Maintenance({ store, log, codesOf: (type) => handlers.get(type)?.codes })
    this.#pipeline = new Pipeline({
      clock,
      chance: this.#options.chance,
      resultBytesMax: this.#options.resultBytesMax,
      enter: (step, flight) => this.#enter(step, flight),
      tellStartNow: (flight) => this.#tellStartNow(flight),
      tellStartLater: (flight) => void this.#startsToTell.push(flight),
      close: (flight, change, nowMonoMs) => this.#close(flight, change, nowMonoMs),
    })
    this.#prefetch = new Prefetch(this.#options.prefetchMax)
    this.#poll = new Alarm(clock, (lateMs) => void this.#onPoll(lateMs))
    this.#chores = [
      new Chore(clock, log, 'maintenance', this.#options.maintenanceMs, () => this.maintain()),
      new Chore(clock, log, 'pruning', this.#options.pruneMs, () => this.prune()),
    ]
    const lanes = [...handlers.values()]
    const toLane = ({ type, policy }: Handler): Lane => ({ type, ttlMs: policy.lease.ttlMs })
    // What may not be given back at shutdown is never claimed before there is a slot for it.
    this.#lanesAhead = lanes.filter(({ policy }) => policy.shutdown === 'requeue').map(toLane)
    this.#lanesOneByOne = lanes.filter(({ policy }) => policy.shutdown === 'fail').map(toLane)
  }

  get held(): number {
    return this.#held.size
  }

  /** Begins to work, until `stop`. */
  async start(): Promise<void> {
    await this.enlist()
    if (this.#state !== 'running') return
    this.#forgetHint = this.#store.onWork(() => this.#hint())
    process.on('exit', this.#onProcessExit)
    for (const chore of this.#chores) chore.start()
    this.#scheduleCycle()
  }

  /** Makes the worker known without starting its loop: tests drive it with `tick`. */
  async enlist(): Promise<void> {
    if (this.#state !== 'new') return
    this.#state = 'running'
    this.#key = await this.#store.enlist({ id: this.id, host: hostname(), pid: process.pid })
    this.#log.info({ worker_id: this.id, types: [...this.#options.handlers.keys()] }, 'worker started')
  }

  /** One turn of the loop: keep leases, stop what is over, claim what is due, and wait until nothing moves by itself. */
  async tick(): Promise<void> {
    await this.enlist()
    await this.#housekeep()
    this.#scheduleCycle()
    await this.#settled()
  }

  /** Looks after jobs whose worker is gone. Own leases first: a process that was stopped for long must not rob itself. */
  async maintain(): Promise<MaintenanceReport> {
    if (this.#key !== null && this.#isAlive) await this.#keeper.keep(this.#key, this.#held, this.#clock.monoMs())
    return this.#maintenance.lookAfterStalled()
  }

  prune(): Promise<number> {
    return this.#maintenance.prune()
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
      this.#releaseBuffer(() => true, 'the worker stopped before it began')
      this.#scheduleCycle()
      await this.#quietWithin(graceMs)
      if (!this.#isQuiet) await this.#endRunning()
      if (this.#key !== null) await this.#store.dismiss({ worker: this.#key })
    }
    this.#poll.cancel()
    process.off('exit', this.#onProcessExit)
    this.#state = 'stopped'
    this.#log.info({ worker_id: this.id }, 'worker stopped')
  }

  /** Falls dead, as a killed process does: nothing more is written and nothing is told to anybody. */
  crash(): void {
    this.#state = 'dead'
    this.#forgetHint()
    this.#poll.cancel()
    for (const chore of this.#chores) chore.stop()
    process.off('exit', this.#onProcessExit)
    this.#recorder.takeUnsent()
    for (const flight of this.#held.values()) flight.state = 'gone'
    this.#held.clear()
    this.#buffer = []
    this.#wakeWaiters()
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
    return this.#held.size === 0 && this.#recorder.isIdle && !this.#isClaiming
  }

  #hint(): void {
    this.#hasWorkHint = true
    this.#scheduleCycle()
  }

  #scheduleCycle(): void {
    if (this.#isCycleScheduled || !this.#isAlive) return
    this.#isCycleScheduled = true
    setImmediate(this.#cycle)
  }

  readonly #cycle = (): void => {
    this.#isCycleScheduled = false
    if (!this.#isAlive || this.#key === null) return
    this.#tellStarts()
    this.#recorder.send(this.#key)
    if (this.#state === 'running') void this.#claim(this.#key)
    else this.#poll.setWithin(this.#options.pollMs)
    if (this.#isQuiet) this.#wakeWaiters()
  }

  /** Fills the buffer when it is half empty; the outcomes of the last jobs go to the store in the same commit. */
  async #claim(worker: WorkerKey): Promise<void> {
    if (this.#isClaiming) return
    const free = this.#options.concurrency - this.#running - this.#buffer.length
    const ahead = this.#prefetch.size
    if (free + ahead <= 0 || (free <= 0 && this.#buffer.length > ahead / 2)) {
      this.#poll.setWithin(this.#options.pollMs)
      return
    }
    this.#isClaiming = true
    this.#hasWorkHint = false
    const askedMonoMs = this.#clock.monoMs()
    let nextDueInMs = this.#options.pollMs
    let hasMore = false
    try {
      const claims = [{ lanes: this.#lanesAhead, max: free + ahead }]
      if (this.#lanesOneByOne.length > 0) claims.push({ lanes: this.#lanesOneByOne, max: Math.max(0, free) })
      const answers = await Promise.all(
        claims.map(({ lanes, max }) => this.#store.claim({ worker, lanes, max: lanes.length === 0 ? 0 : max })),
      )
      for (const [i, { nowMs, leases, nextDueAtMs }] of answers.entries()) {
        if (nextDueAtMs !== null) nextDueInMs = Math.min(nextDueInMs, nextDueAtMs - nowMs)
        if (leases.length > 0 && leases.length >= (claims[i]?.max ?? 0)) hasMore = true
        this.#prefetch.claimed(leases.length, askedMonoMs)
        for (const lease of leases) this.#take(new Flight(lease, this.#handlerOf(lease.type), nowMs, askedMonoMs))
      }
    } catch (error) {
      this.#log.error({ err: error }, 'claiming failed; will try again')
    }
    this.#isClaiming = false
    this.#begin()
    // A hint that came while we were asking may be about work that our answer could not contain.
    if (hasMore || this.#hasWorkHint) this.#scheduleCycle()
    else this.#poll.setWithin(Math.max(0, nextDueInMs))
    if (this.#isQuiet) this.#wakeWaiters()
  }

  #handlerOf(type: string): Handler {
    const handler = this.#options.handlers.get(type)
    if (handler === undefined) throw new Error(`claimed a job of type ${type}, for which this worker has no handler`)
    return handler
  }

  #take(flight: Flight): void {
    if (!this.#isAlive) return
    this.#held.set(flight.lease.key, flight)
    if (this.#enter('claim', flight)) this.#buffer.push(flight)
  }

  /** Begins buffered attempts while there are slots. A handler that ends at once frees its slot inside this loop. */
  #begin(): void {
    if (this.#isFilling) return
    this.#isFilling = true
    let next = 0
    while (this.#running < this.#options.concurrency && next < this.#buffer.length && this.#state === 'running') {
      this.#start(this.#buffer[next++] as Flight)
    }
    this.#buffer = next === this.#buffer.length ? [] : this.#buffer.slice(next)
    this.#isFilling = false
    if (this.#state === 'stopping') this.#releaseBuffer(() => true, 'the worker stopped before it began')
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
    this.#running++
    this.#pipeline.start(flight, nowMonoMs)
    if (flight.deadlineMonoMs < this.#poll.dueMonoMs) this.#poll.setWithin(flight.deadlineMonoMs - nowMonoMs)
  }

  async #tellStartNow(flight: Flight): Promise<boolean> {
    flight.isStartTold = true
    const { key, attempt } = flight.lease
    try {
      const { lost } = await this.#store.start({ worker: this.#workerKey, attempts: [{ key, attempt, agoMs: 0 }] })
      if (lost.length === 0) return true
    } catch (error) {
      // Nothing ran yet. The lease runs out by itself, and then the policy decides about a job that never started.
      this.#log.error({ err: error, job_id: flight.lease.id }, 'the start of an attempt could not be recorded')
    }
    this.#lose(flight)
    return false
  }

  #close(flight: Flight, change: Close['change'], nowMonoMs: number): void {
    const wasRunning = flight.state === 'running'
    flight.state = 'closing'
    const { key, attempt } = flight.lease
    const ranMs = flight.startedMonoMs === null ? null : nowMonoMs - flight.startedMonoMs
    if (!this.#enter('record', flight)) return
    this.#recorder.add(flight, { key, attempt, change, ranMs })
    if (wasRunning) this.#freeSlot()
    this.#scheduleCycle()
  }

  #freeSlot(): void {
    this.#running--
    this.#prefetch.done()
    this.#begin()
  }

  #recorded(flight: Flight, close: Close, answer: CloseAnswer): void {
    if (!this.#isAlive || !this.#enter('tell', flight)) return
    flight.state = 'gone'
    this.#forget(flight)
    if (answer === 'lost') {
      this.#log.warn(
        { job_id: flight.lease.id, attempt: close.attempt },
        'an outcome came after its lease was gone and does not count',
      )
    }
    if (this.#options.tell !== undefined) {
      const { id: jobId, type, attempt } = flight.lease
      this.#options.tell({ jobId, type, attempt, answer, change: close.change })
    }
    if (this.#isQuiet) this.#wakeWaiters()
  }

  #forget(flight: Flight): void {
    if (this.#held.get(flight.lease.key) === flight) this.#held.delete(flight.lease.key)
  }

  // ---- what can happen to an attempt from outside -------------------------------------------------------------

  /** Keeps leases, stops attempts whose time is over or that were cancelled, gives back what waits too long. */
  async #housekeep(): Promise<void> {
    if (this.#key === null || !this.#isAlive) return
    const nowMonoMs = this.#clock.monoMs()
    await this.#keeper.keep(this.#key, this.#held, nowMonoMs)
    for (const flight of [...this.#held.values()]) {
      if (flight.state === 'running' && flight.deadlineMonoMs <= nowMonoMs) this.#endByTimeout(flight)
    }
    this.#releaseBuffer((flight) => nowMonoMs - flight.claimedMonoMs > BUFFERED_MS_MAX, 'no slot became free')
    if (this.#held.size === 0) return
    try {
      for (const { key, attempt, actor, reason } of await this.#store.cancellations({ worker: this.#key })) {
        const flight = this.#held.get(key)
        if (flight?.lease.attempt === attempt) this.#cancel(flight, new Cancelled(actor, reason))
      }
    } catch (error) {
      this.#log.error({ err: error }, 'cancellations could not be read; will try again')
    }
  }

  #endByTimeout(flight: Flight): void {
    const timeout = this.#pipeline.timeoutOf(flight)
    flight.stop(timeout)
    const { id: job_id, type, attempt } = flight.lease
    this.#pipeline.settle(flight, { kind: 'failed', stage: 'execution', thrown: timeout })
    this.#log.warn(
      { job_id, type, attempt },
      'an attempt was stopped at its time limit; its handler may still be working',
    )
  }

  /** The handler decides how to stop; what it answers then is recorded as cancelled unless it succeeded first. */
  #cancel(flight: Flight, reason: Cancelled): void {
    if (flight.state === 'buffered') {
      this.#buffer = this.#buffer.filter((other) => other !== flight)
      this.#close(flight, { to: 'cancelled', note: reason.message }, this.#clock.monoMs())
    } else flight.stop(reason)
  }

  /** The job is not ours any more: stop the work, and write nothing. */
  #lose(flight: Flight): void {
    if (flight.state === 'gone') return
    const { id: job_id, type, attempt } = flight.lease
    this.#log.warn({ job_id, type, attempt, worker_id: this.id }, 'lease lost; the attempt is stopped')
    const wasRunning = flight.state === 'running'
    if (flight.state === 'buffered') this.#buffer = this.#buffer.filter((other) => other !== flight)
    flight.state = 'gone'
    this.#forget(flight)
    flight.stop(new LeaseLost())
    if (wasRunning) this.#freeSlot()
    this.#scheduleCycle()
  }

  #releaseBuffer(isChosen: (flight: Flight) => boolean, note: string): void {
    const chosen = this.#buffer.filter((flight) => isChosen(flight))
    if (chosen.length === 0) return
    this.#buffer = this.#buffer.filter((flight) => !chosen.includes(flight))
    const nowMonoMs = this.#clock.monoMs()
    for (const flight of chosen) {
      const { policy } = flight.handler
      const change =
        policy.shutdown === 'fail' ? changeForShutdown(flight, nowMonoMs, this.#options.chance()) : release(flight, note)
      this.#close(flight, change, nowMonoMs)
    }
  }

  /** At the end of the grace: tell the handlers, give them a moment, then decide for them. */
  async #endRunning(): Promise<void> {
    const running = [...this.#held.values()].filter((flight) => flight.state === 'running')
    for (const flight of running) flight.stop(new ShuttingDown())
    await this.#quietWithin(STOP_SETTLE_MS)
    for (const flight of running) {
      if (flight.state === 'running')
        this.#pipeline.settle(flight, { kind: 'failed', stage: 'execution', thrown: flight.stopReason })
    }
    await this.#quietWithin(Number.POSITIVE_INFINITY)
  }

  #tellStarts(): void {
    const starts = this.#startsToTell.filter((flight) => flight.state === 'running' && !flight.isStartTold)
    this.#startsToTell = []
    if (starts.length === 0) return
    const nowMonoMs = this.#clock.monoMs()
    const attempts = starts.map((flight) => {
      flight.isStartTold = true
      const { key, attempt } = flight.lease
      return { key, attempt, agoMs: nowMonoMs - (flight.startedMonoMs as number) }
    })
    this.#store.start({ worker: this.#workerKey, attempts }).then(
      ({ lost }) => {
        for (const flight of starts) if (lost.includes(flight.lease.key)) this.#lose(flight)
      },
      (error: unknown) => this.#log.error({ err: error }, 'starts could not be recorded'),
    )
  }

  /** `process.exit` in a handler, or an uncaught error: what a store can still write at once, it writes. */
  readonly #onProcessExit = (exitCode: number): void => {
    if (!this.#isAlive || this.#key === null || this.#store.closeNow === undefined) return
    const nowMonoMs = this.#clock.monoMs()
    const unsent = this.#recorder.takeUnsent().map((entry) => entry.close)
    const lost = [...this.#held.values()].flatMap((flight) => closeForExit(flight, exitCode, nowMonoMs))
    this.#store.closeNow({ worker: this.#key, closes: [...unsent, ...lost] })
  }

  // ---- timers and waiting -------------------------------------------------------------------------------------

  async #onPoll(lateMs: number): Promise<void> {
    if (!this.#isAlive) return
    if (lateMs > BLOCKED_MS_WORTH_TELLING) {
      const running = [...this.#held.values()].filter((flight) => flight.isWorking).map((flight) => flight.lease.id)
      this.#log.warn({ blocked_ms: Math.round(lateMs), running }, 'something held up the event loop of this worker')
    }
    await this.#housekeep()
    this.#scheduleCycle()
  }

  #wakeWaiters(): void {
    const waiters = this.#whenQuiet
    this.#whenQuiet = []
    for (const wake of waiters) wake()
  }

  /** Resolves when nothing is held any more, or after `ms` of the clock. */
  async #quietWithin(ms: number): Promise<void> {
    if (this.#isQuiet || this.#state === 'dead') return
    await new Promise<void>((resolve) => {
      const timer = Number.isFinite(ms) ? this.#clock.setTimer(ms, resolve) : null
      const wake = () => {
        if (!this.#isQuiet && this.#state !== 'dead') {
          this.#whenQuiet.push(wake)
          return
        }
        timer?.cancel()
        resolve()
      }
      this.#whenQuiet.push(wake)
    })
  }

  /** Turns the event loop until claims and closes are answered and only handlers that wait for something are left. */
  async #settled(): Promise<void> {
    for (let still = 0; still < 3; ) {
      await new Promise<void>((resolve) => setImmediate(resolve))
      still = this.#isCycleScheduled || this.#isClaiming || !this.#recorder.isIdle ? 0 : still + 1
    }
  }
}
