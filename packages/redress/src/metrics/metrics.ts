import type { AppHost } from '../app/host.ts'
import type { BreakerStatus } from '../core/limits/breaker.ts'
import type { BreakerEvent } from '../store/contract/breakers.ts'
import type { TypeDepth } from '../store/contract/queues.ts'
import type { Store } from '../store/contract/store.ts'
import type { Duty } from '../worker/duty.ts'
import type { WorkerOptions } from '../worker/options.ts'
import { Activity } from './activity.ts'
import type { Registry } from './exposition.ts'
import { familiesOf } from './families.ts'
import { Tally, withTally } from './tally.ts'

type MetricsHost = Pick<AppHost, 'store' | 'clock' | 'log'>

type Listeners = Pick<WorkerOptions, 'onOutcome' | 'onLeaseLost' | 'onTry' | 'onStart' | 'onBlocked'>

/** Reading the store takes at most this share of the time, however large it is and however often it is scraped. */
const READING_SHARE_MAX = 1 / 20

/**
 * This process in numbers, as Prometheus reads them. Counters are this process's own, so that those of several can be
 * added; gauges are the store's, so they are the same in each.
 */
export class Metrics {
  readonly contentType = 'text/plain; version=0.0.4; charset=utf-8'
  readonly #host: MetricsHost
  /** Whether a policy lets more than counts be shown of its type. */
  readonly #mayAggregate: (type: string) => boolean
  readonly #activity: Activity
  readonly #tally: Tally
  readonly #reader = new StoreReader()
  #registry: Promise<Registry> | null = null
  #reading: StoreReading | null = null
  #staleAtMonoMs = Number.NEGATIVE_INFINITY

  constructor(host: MetricsHost, mayAggregate: (type: string) => boolean) {
    this.#host = host
    this.#mayAggregate = mayAggregate
    this.#activity = new Activity(host.clock)
    this.#tally = new Tally(this.#activity.tally)
  }

  /** The exposition, as `GET /metrics` answers it. */
  async text(): Promise<string> {
    const registry = await this.registry()
    await this.#readStore()
    return registry.metrics()
  }

  /** prom-client's registry, made for this app alone: metrics of your own can be added to it. */
  registry(): Promise<Registry> {
    this.#registry ??= this.#open()
    return this.#registry
  }

  async #open(): Promise<Registry> {
    // Loaded at the first scrape: most programs that submit a job are never scraped.
    const { expositionOf } = await import('./exposition.ts')
    const reading = () => this.#reading
    return expositionOf(familiesOf({ tally: this.#tally, reading, mayAggregate: this.#mayAggregate }))
  }

  async #readStore(): Promise<void> {
    const { clock, log } = this.#host
    const beganMonoMs = clock.monoMs()
    if (beganMonoMs < this.#staleAtMonoMs) return
    try {
      this.#reading = await this.#reader.read(await this.#host.store())
    } catch (error) {
      this.#reading = null
      log.error(
        { err: error },
        'the store could not be read for metrics; the counters of this process are still exposed',
      )
    }
    const nowMonoMs = clock.monoMs()
    this.#staleAtMonoMs = nowMonoMs + (nowMonoMs - beganMonoMs) / READING_SHARE_MAX
  }

  /** For the app: the listeners of its workers, which count first and then call those of the user. */
  static listeners(
    metrics: Metrics,
    { onOutcome, onLeaseLost, onTry, onStart, onBlocked }: Listeners,
  ): Required<Listeners> {
    const tally = metrics.#tally
    metrics.#activity.isWorked = true
    return {
      onOutcome: both(tally.ended, onOutcome),
      onLeaseLost: both(tally.lost, onLeaseLost),
      onTry: both(tally.tried, onTry),
      onStart: both(tally.activity.started, onStart),
      onBlocked: both(tally.blocked, onBlocked),
    }
  }

  /** For the app: the store, counting what goes through it. */
  static watch(metrics: Metrics, store: Store): Store {
    metrics.#activity.sendTo(store)
    return withTally(store, metrics.#tally, metrics.#host.clock, metrics.#activity)
  }

  /** For the app: what its workers do for the charts of the last day. */
  static duty(metrics: Metrics): Duty {
    return metrics.#activity.duty()
  }
}

function both<Facts extends unknown[]>(
  first: (...facts: Facts) => void,
  second: ((...facts: Facts) => void) | undefined,
): (...facts: Facts) => void {
  if (second === undefined) return first
  return (...facts) => {
    first(...facts)
    second(...facts)
  }
}

/** One reading of the store. */
export interface StoreReading {
  depths: readonly TypeDepth[]
  oldestReady: readonly { queue: string; seconds: number; isPaused: boolean }[]
  breakers: readonly { name: string; status: BreakerStatus; openMs: number }[]
}

/** How much of a breaker's history has been read, and what it came to. */
interface OpenTime {
  afterSeq: number
  openMs: number
  openSinceMs: number | null
}

const EVENTS_PER_STEP = 500

/** Reads the store for a scrape. Remembers how far it has read the histories of breakers, which only grow. */
class StoreReader {
  readonly #openTimes = new Map<string, OpenTime>()

  async read(store: Store): Promise<StoreReading> {
    const [depths, queues, breakers, nowMs] = await Promise.all([
      store.depths(),
      store.queues(),
      store.breakers(),
      store.nowMs(),
    ])
    return {
      depths,
      oldestReady: queues.map(({ name, types, paused }) => {
        const oldest = Math.min(nowMs, ...types.flatMap(({ oldestReadyAtMs }) => oldestReadyAtMs ?? []))
        return { queue: name, seconds: (nowMs - oldest) / 1000, isPaused: paused !== null }
      }),
      breakers: await Promise.all(
        breakers.map(async ({ name, state, forced }) => ({
          name,
          status: forced?.status ?? state.status,
          openMs: await this.#openMs(store, name, nowMs),
        })),
      ),
    }
  }

  async #openMs(store: Store, name: string, nowMs: number): Promise<number> {
    const time = this.#openTimes.get(name) ?? { afterSeq: 0, openMs: 0, openSinceMs: null }
    this.#openTimes.set(name, time)
    for (;;) {
      const events = await store.breakerEvents({ name, afterSeq: time.afterSeq, limit: EVENTS_PER_STEP })
      for (const event of events) countOpen(time, event)
      if (events.length < EVENTS_PER_STEP) break
    }
    return time.openMs + (time.openSinceMs === null ? 0 : Math.max(0, nowMs - time.openSinceMs))
  }
}

/** Each event says how the breaker stands after it. */
function countOpen(time: OpenTime, { seq, atMs, data }: BreakerEvent): void {
  if (seq <= time.afterSeq) return
  time.afterSeq = seq
  if (data.status === 'open') time.openSinceMs ??= atMs
  else if (time.openSinceMs !== null) {
    time.openMs += Math.max(0, atMs - time.openSinceMs)
    time.openSinceMs = null
  }
}
