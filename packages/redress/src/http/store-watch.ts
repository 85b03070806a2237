import type { FastifyInstance } from 'fastify'
import type { App } from '../app/app.ts'
import { RedressError } from '../core/errors.ts'
import type { Clock, Timer } from '../runtime/clock.ts'
import type { Log } from '../runtime/log.ts'

const AGAIN_MS = 500
const AGAIN_MS_MAX = 5_000
const ANSWER_MS_MAX = 5_000
/** After this time, the store is checked for readiness. */
const LATE_MS = 1_000

/** The answer to every request meanwhile. The retry loop logs the cause once. */
export class StoreAway extends RedressError {
  constructor() {
    super('STORE_UNREACHABLE', 'The store cannot be reached; the server keeps trying.', {
      action: 'Wait as long as Retry-After says, then try again.',
    })
  }
}

/**
 * Whether the store is reachable. A server that starts before its database must not give up: it reports the
 * problem and retries. After the first answer, errors of the store show when it is lost.
 */
export class StoreWatch {
  readonly #app: App
  readonly #clock: Clock
  readonly #log: Log
  readonly firstUp: Promise<void>
  readonly #markUp: () => void
  #timer: Timer | null = null
  #looking: Promise<Readiness> | null = null
  #tries = 0
  #isStopped = false
  isUp = false
  /** For people; an error of ours, which names no secret. */
  why = 'It was not asked yet.'

  constructor(app: App, clock: Clock, log: Log) {
    this.#app = app
    this.#clock = clock
    this.#log = log
    const { promise, resolve } = Promise.withResolvers<void>()
    this.firstUp = promise
    this.#markUp = resolve
  }

  start(): void {
    void this.#ask()
  }

  stop(): void {
    this.#isStopped = true
    this.#timer?.cancel()
  }

  /**
   * Waits for a call to the store, but not for a lost store: a call can take half a minute to fail,
   * which is too long for a person. Only for reads, because an abandoned call may still be done.
   */
  async answered<T>(asked: Promise<T>): Promise<T> {
    // A late rejection of an abandoned call is ignored.
    asked.catch(() => undefined)
    for (;;) {
      const inTime = await withinMs(asked, LATE_MS)
      if (inTime !== null) return inTime.value
      const { isReady } = await Promise.race([asked.then(isThere, isThere), this.readiness()])
      if (!isReady) throw new StoreAway()
    }
  }

  /** Also detects a lost store: later requests are refused at once until it answers again. */
  readiness(): Promise<Readiness> {
    this.#looking ??= this.#look().finally(() => {
      this.#looking = null
    })
    return this.#looking
  }

  async #look(): Promise<Readiness> {
    if (!this.isUp) return { isReady: false, why: this.why }
    try {
      const answered = await Promise.race([this.#answers(), this.#tooLate()])
      if (answered !== null) return answered
      this.#lose('STORE_BUSY')
    } catch (error) {
      this.#lose(whyOf(error))
    }
    return { isReady: false, why: this.why }
  }

  #lose(why: string): void {
    this.why = why
    if (!this.isUp) return
    this.isUp = false
    this.#tries = 0
    void this.#ask()
  }

  async #answers(): Promise<Readiness> {
    await (await this.#app.store()).nowMs()
    return { isReady: true, why: 'the store answers' }
  }

  /** The check must end even if the network drops every packet. */
  #tooLate(): Promise<null> {
    return new Promise((resolve) => setTimeout(resolve, ANSWER_MS_MAX, null).unref())
  }

  async #ask(): Promise<void> {
    if (this.#isStopped) return
    try {
      await this.#answers()
      this.isUp = true
      this.#markUp()
    } catch (error) {
      this.why = whyOf(error)
      this.#log.error({ err: error, tries: ++this.#tries }, 'the store cannot be reached; will try again')
      const waitMs = Math.min(AGAIN_MS * 2 ** Math.min(this.#tries, 10), AGAIN_MS_MAX)
      this.#timer = this.#clock.setTimer(waitMs, () => void this.#ask())
    }
  }
}

const isThere = (): Readiness => ({ isReady: true, why: 'the store answers' })

/** null when the time is over first. */
async function withinMs<T>(asked: Promise<T>, ms: number): Promise<{ value: T } | null> {
  const { promise: late, resolve } = Promise.withResolvers<null>()
  const timer = setTimeout(resolve, ms, null)
  try {
    return await Promise.race([asked.then((value) => ({ value })), late])
  } finally {
    clearTimeout(timer)
  }
}

/** Its code only: the message may have a path or an address in it, and this is shown to everybody. */
const whyOf = (error: unknown): string => String((error as { code?: unknown }).code ?? 'STORE_FAILED')

export interface Readiness {
  isReady: boolean
  /** For the log and the page; without anything secret. */
  why: string
}

/**
 * `/healthz`: the process answers. `/readyz`: the store is reachable, so a load balancer may send requests. Both say no
 * more than that, because they need no sign-in.
 */
export function addHealth(server: FastifyInstance, ready: () => Promise<Readiness>): void {
  server.get('/healthz', async (_request, reply) => reply.header('cache-control', 'no-store').send({ status: 'ok' }))
  server.get('/readyz', async (_request, reply) => {
    const { isReady } = await ready()
    return reply
      .code(isReady ? 200 : 503)
      .header('cache-control', 'no-store')
      .send({ status: isReady ? 'ready' : 'not ready' })
  })
}
