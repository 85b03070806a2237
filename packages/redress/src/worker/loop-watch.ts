import { AsyncLocalStorage } from 'node:async_hooks'
import { promiseHooks } from 'node:v8'
import { formatMs } from '../core/text/duration.ts'
import { Alarm, type Clock, systemClock } from '../runtime/clock.ts'
import type { Log } from '../runtime/log.ts'
import type { Flight } from './attempt/flight.ts'

const BEAT_MS = 200
/** A measured call that took this long is worth a warning. */
const MEASURED_MS_MIN = 500
/** A late beat can also come from a busy machine. */
const LATE_MS_MIN = 1_000
const WARN_EVERY_MS = 60_000
/** How long promises are measured after a block that several types can have caused. */
const TRACE_MS = 600_000
/** A process that used less of the processor while it stood still was suspended, or waited synchronously. */
const CPU_SHARE_MIN = 0.05

export interface LoopWatchOptions {
  clock: Clock
  log: Log
  running: () => Iterable<Flight>
  /** Called for each block that one type caused. */
  onBlocked?: ((type: string, ms: number) => void) | undefined
}

/**
 * Finds out which job type blocks the event loop, and warns about it. The first part of a handler, up to its first
 * `await`, is measured. A block in a later part makes a timer late. It was caused by the only type that runs, or by the
 * attempt that ends before the timer rings. If the process used no processor time, it may have been suspended, and no
 * type is blamed. Otherwise the warning names all types that ran, and promises are measured
 * for some minutes: that slows the process down, but names the type the next time.
 */
export class LoopWatch {
  readonly #options: LoopWatchOptions
  readonly #alarm: Alarm
  readonly #warnedMonoMs = new Map<string, number>()
  #dueMonoMs = Number.POSITIVE_INFINITY
  #cpuMs = 0
  /** Blocked time whose cause is known: all of it, and how much it was when the timer was set. */
  #knownMs = 0
  #knownMsAtBeat = 0
  #trace: PromiseTrace | null = null

  constructor(options: LoopWatchOptions) {
    this.#options = options
    this.#alarm = new Alarm(options.clock, (lateMs) => this.#beat(lateMs))
  }

  /** An attempt begins. In virtual time no timer is late, and a beat would only make long waits of a test slow. */
  began(): void {
    if (this.#options.clock === systemClock && this.#dueMonoMs === Number.POSITIVE_INFINITY) this.#arm()
  }

  /** True while promises are measured: handlers must then be called through `trace`. */
  get isTracing(): boolean {
    return this.#trace !== null
  }

  trace<T>(flight: Flight, call: () => T): T {
    return this.#trace === null ? call() : this.#trace.run(flight, call)
  }

  /** A call of the author's code took this long, and nothing else ran meanwhile. */
  measured(flight: Flight, ms: number): void {
    this.#knownMs += ms
    if (ms >= MEASURED_MS_MIN) this.#blame(flight, ms)
  }

  /** An attempt ends. If the timer is late by then, the last part of its handler is the cause. */
  ended(flight: Flight, nowMonoMs: number): void {
    const lateMs = nowMonoMs - this.#dueMonoMs - this.#knownMsSinceBeat
    if (lateMs < LATE_MS_MIN || flight.handler.isolated !== null) return
    // A suspended process is late, too: the beat reports it.
    if (this.#isIdle(lateMs)) return
    this.#knownMs += lateMs
    this.#blame(flight, lateMs)
    // Another attempt that waited for the same event can have ended first.
    if (this.#typesRunning().size > 1) this.#startTrace()
  }

  stop(): void {
    this.#alarm.cancel()
    this.#dueMonoMs = Number.POSITIVE_INFINITY
    this.#trace?.end()
    this.#trace = null
  }

  get #knownMsSinceBeat(): number {
    return this.#knownMs - this.#knownMsAtBeat
  }

  #arm(): void {
    this.#knownMsAtBeat = this.#knownMs
    this.#cpuMs = cpuMs()
    this.#dueMonoMs = this.#options.clock.monoMs() + BEAT_MS
    this.#alarm.setAt(this.#dueMonoMs)
  }

  #beat(lateMs: number): void {
    const unknownMs = lateMs - this.#knownMsSinceBeat
    if (unknownMs >= LATE_MS_MIN) this.#blockedBySome(unknownMs)
    if (this.#trace?.isOver(this.#options.clock.monoMs())) {
      this.#trace.end()
      this.#trace = null
    }
    this.#dueMonoMs = Number.POSITIVE_INFINITY
    for (const _ of this.#options.running()) {
      this.#arm()
      return
    }
  }

  #blockedBySome(ms: number): void {
    const types = this.#typesRunning()
    const [flight, ...others] = types.values()
    if (flight === undefined) {
      this.#warn([''], ms, {}, () => 'the event loop of this worker was blocked; no handler ran in it')
      return
    }
    const names = [...types.keys()]
    // A group has a limit of its own: the next warning must name the type.
    const group = names.join(', ')
    if (this.#isIdle(ms)) {
      this.#startTrace()
      const say = (took: string) =>
        `this worker stood still for ${took} and used almost no processor time. The process was suspended, or a handler of ${group} waited synchronously. ${EFFECT}`
      this.#warn([`idle ${group}`], ms, { types: names }, say)
      return
    }
    if (others.length === 0) {
      this.#blame(flight, ms)
      return
    }
    this.#startTrace()
    this.#warn(
      [`one of ${group}`],
      ms,
      { types: names },
      (took) =>
        `one of ${group} blocked the event loop of this worker for ${took}. ${EFFECT} If it happens again, the warning names the type.`,
    )
  }

  #blame(flight: Flight, ms: number): void {
    const { type, id: job_id, attempt } = flight.lease
    this.#options.onBlocked?.(type, ms)
    const doubt = this.#isIdle(ms) ? ` ${IDLE}` : ''
    const advice = flight.handler.isolated === null ? ' Run it with inThread().' : ''
    this.#warn(
      [type],
      ms,
      { type, job_id, attempt },
      (took) => `${type} blocked the event loop of this worker for ${took}. ${EFFECT}${advice}${doubt}`,
    )
  }

  /** Almost no processor time was used: the process was suspended, or it waited synchronously. */
  #isIdle(ms: number): boolean {
    return cpuMs() - this.#cpuMs < ms * CPU_SHARE_MIN
  }

  /** At most once a minute for each key: a type, or a group of types. */
  #warn(keys: readonly string[], ms: number, fields: object, say: (took: string) => string): void {
    const { clock, log } = this.#options
    const nowMonoMs = clock.monoMs()
    const isDue = (key: string) => nowMonoMs - (this.#warnedMonoMs.get(key) ?? -WARN_EVERY_MS) >= WARN_EVERY_MS
    if (!keys.some(isDue)) return
    for (const key of keys) this.#warnedMonoMs.set(key, nowMonoMs)
    const usedMs = Math.round(cpuMs() - this.#cpuMs)
    const blocked_ms = Math.round(ms)
    log.warn({ ...fields, blocked_ms, cpu_ms: usedMs }, say(formatMs(blocked_ms)))
  }

  /** One attempt of each type that runs in this thread. */
  #typesRunning(): Map<string, Flight> {
    const types = new Map<string, Flight>()
    for (const flight of this.#options.running()) {
      if (flight.handler.isolated === null) types.set(flight.lease.type, flight)
    }
    return types
  }

  #startTrace(): void {
    this.#trace ??= new PromiseTrace(
      this.#options.clock,
      () => this.#knownMs,
      (flight, ms) => this.measured(flight, ms),
    )
  }
}

const EFFECT = 'Meanwhile no other job and no lease of this process went on.'
const IDLE = 'It used almost no processor time: it waited synchronously, or the process was suspended.'

const cpuMs = (): number => {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}

/** Measures each continuation of a promise, and knows the attempt that it belongs to. */
class PromiseTrace {
  readonly #untilMonoMs: number
  readonly #context = new AsyncLocalStorage<Flight>()
  readonly #stops: readonly unknown[]

  /** `knownMs`: handlers that begin inside a continuation are measured on their own. */
  constructor(clock: Clock, knownMs: () => number, took: (flight: Flight, ms: number) => void) {
    this.#untilMonoMs = clock.monoMs() + TRACE_MS
    let flight: Flight | undefined
    let beganMonoMs = 0
    let knownMsBefore = 0
    this.#stops = [
      promiseHooks.onBefore(() => {
        flight = this.#context.getStore()
        beganMonoMs = clock.monoMs()
        knownMsBefore = knownMs()
      }),
      promiseHooks.onAfter(() => {
        if (flight === undefined) return
        const ms = clock.monoMs() - beganMonoMs - (knownMs() - knownMsBefore)
        if (ms >= MEASURED_MS_MIN) took(flight, ms)
      }),
    ]
  }

  run<T>(flight: Flight, call: () => T): T {
    return this.#context.run(flight, call)
  }

  isOver(nowMonoMs: number): boolean {
    return nowMonoMs > this.#untilMonoMs
  }

  end(): void {
    for (const stop of this.#stops) (stop as () => void)()
    this.#context.disable()
  }
}
