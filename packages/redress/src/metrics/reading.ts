import type { BreakerStatus } from '../core/limits/breaker.ts'
import type { BreakerEvent } from '../store/contract/breakers.ts'
import type { TypeDepth } from '../store/contract/queues.ts'
import type { Store } from '../store/contract/store.ts'

/** What only the store knows, at one moment. */
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
export class StoreReader {
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
