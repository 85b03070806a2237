import { RedressError } from '../../core/errors.ts'
import { durationMs, formatMs } from '../../core/text/duration.ts'
import { refuseUnknownOptions } from '../../core/text/options.ts'
import type { Store } from '../../store/contract/store.ts'
import { answerOrThrow, answerWithin } from '../../worker/store-calls.ts'
import { type Hub, nextTurn } from '../events/hub.ts'
import type { HubEvent } from '../events/hub-events.ts'
import type { Subscription } from '../events/subscription.ts'
import type { AppHost } from '../host.ts'
import { WAIT_OPTIONS, type WaitOptions } from './job-type.ts'
import type { Outcome } from './outcome.ts'
import { readOutcome } from './read-outcome.ts'

/** How many jobs are read at once. */
const READS_MAX = 32
/** After the store did not answer it is asked again, less and less often. */
const ASK_AGAIN_MS_MIN = 250
const ASK_AGAIN_MS_MAX = 5_000
/** How long `stop` reads the jobs that are still waited for. */
const STOP_MS_MAX = 1_000
/** Events are taken off at once, so this many never wait. */
const BUFFER_MAX = 10_000
const ENDED: ReadonlySet<unknown> = new Set(['complete', 'failed', 'cancelled'])

interface Waiter {
  type: string
  isOver?: boolean
  resolve(outcome: Outcome): void
  reject(error: unknown): void
}

/**
 * Waits for the ends of jobs. However many callers wait, there is one subscription to the hub, and one entry per job.
 * An event only says that a job must be read: the row decides. So a lost event, a gap or a new connection costs a read
 * of the jobs that are waited for, and nothing else.
 */
export class Results {
  readonly #host: AppHost
  readonly #hub: Hub
  readonly #waiting = new Map<string, Set<Waiter>>()
  /** Jobs to be read. */
  readonly #unread = new Set<string>()
  #reading: Promise<void> | null = null
  #subscription: Subscription | null = null
  #isListening = false
  /** From now on no end of a job is missed. */
  #isReady = false
  #stopping: Promise<void> | null = null

  constructor(host: AppHost, hub: Hub) {
    this.#host = host
    this.#hub = hub
  }

  /** How a job of this type ends. */
  async wait(type: string, id: string, options: WaitOptions = {}): Promise<Outcome> {
    return this.plan(`result() of ${type}`, options)(type, id)
  }

  /** Checks the options before there is a job; the time counts from now. */
  plan(of: string, options: WaitOptions): (type: string, id: string) => Promise<Outcome> {
    refuseUnknownOptions(of, options, WAIT_OPTIONS)
    const timeoutMs = timeoutOf(options)
    const { signal } = options
    if (signal !== undefined && !(signal instanceof AbortSignal)) throw invalid('signal must be an AbortSignal')
    signal?.throwIfAborted()
    const { clock } = this.#host
    const startedMonoMs = clock.monoMs()
    return async (type, id) => {
      if (typeof id !== 'string' || id === '') throw invalid('The id of a job must be a text')
      signal?.throwIfAborted()
      const { promise, resolve, reject } = Promise.withResolvers<Outcome>()
      const waiter: Waiter = { type, resolve, reject }
      const leftMs = (timeoutMs ?? 0) - (clock.monoMs() - startedMonoMs)
      const timer = timeoutMs === null ? null : clock.setTimer(leftMs, () => reject(tooLong(id, timeoutMs)))
      const abort = () => reject(signal?.reason)
      signal?.addEventListener('abort', abort, { once: true })
      // A store that cannot be opened is refused at once, as it is for a submission.
      this.#host.store().then(() => this.#add(id, waiter), reject)
      try {
        return await promise
      } finally {
        timer?.cancel()
        signal?.removeEventListener('abort', abort)
        waiter.isOver = true
        this.#remove(id, waiter)
      }
    }
  }

  /** Reads what is still waited for once more, and ends all waits. */
  stop(): Promise<void> {
    this.#stopping ??= this.#stop()
    return this.#stopping
  }

  async #stop(): Promise<void> {
    if (this.#waiting.size > 0) {
      this.#readAll()
      await answerWithin(this.#host.clock, STOP_MS_MAX, this.#reading ?? Promise.resolve())
    }
    for (const [id, waiters] of this.#waiting) for (const { reject } of waiters) reject(stopped(id))
    this.#unread.clear()
    void this.#subscription?.return()
  }

  #add(id: string, waiter: Waiter): void {
    if (waiter.isOver) return
    if (this.#stopping !== null) {
      waiter.reject(stopped(id))
      return
    }
    const others = this.#waiting.get(id) ?? new Set()
    this.#waiting.set(id, others.add(waiter))
    // Before the subscription is ready the end of the job could be missed; all jobs are read when it is.
    if (this.#isReady) this.#read(id)
    else if (!this.#isListening) void this.#listen()
  }

  #remove(id: string, waiter: Waiter): void {
    const waiters = this.#waiting.get(id)
    waiters?.delete(waiter)
    if (waiters?.size === 0) this.#waiting.delete(id)
    if (this.#waiting.size > 0) return
    this.#isReady = false
    void this.#subscription?.return()
  }

  async #listen(): Promise<void> {
    this.#isListening = true
    while (this.#waiting.size > 0 && this.#stopping === null) {
      const subscription = this.#hub.subscribe({ topics: ['*'], bufferMax: BUFFER_MAX })
      this.#subscription = subscription
      await subscription.ready
      this.#isReady = !subscription.isEnded
      this.#readAll()
      for await (const event of subscription) this.#heard(event)
      this.#isReady = false
      // Its end: the store is stopped, or this process was too slow to take the events, or the last caller has left.
    }
    this.#isListening = false
  }

  #heard({ id, event, topics, data }: HubEvent): void {
    if (id === null) {
      if (event === 'end' && (data as { reason: string }).reason === 'stopped') void this.stop()
      else this.#readAll()
      return
    }
    const { status } = (data ?? {}) as { status?: unknown }
    if (!ENDED.has(status) && event !== 'job.deleted') return
    for (const topic of topics) if (topic.startsWith('job:')) this.#read(topic.slice('job:'.length))
  }

  #readAll(): void {
    for (const id of this.#waiting.keys()) this.#read(id)
  }

  #read(id: string): void {
    if (!this.#waiting.has(id)) return
    this.#unread.add(id)
    this.#reading ??= this.#readUnread().finally(() => {
      this.#reading = null
    })
  }

  async #readUnread(): Promise<void> {
    let askAgainMs = ASK_AGAIN_MS_MIN
    while (this.#unread.size > 0) {
      // Between two turns, so that the events of one page are read together, and other work goes on.
      await nextTurn()
      const ids: string[] = []
      for (const id of this.#unread) {
        ids.push(id)
        this.#unread.delete(id)
        if (ids.length === READS_MAX) break
      }
      const errors = (await Promise.all(ids.map((id) => this.#readOne(id)))).filter((error) => error !== null)
      if (errors.length === 0) {
        askAgainMs = ASK_AGAIN_MS_MIN
        continue
      }
      if (this.#stopping !== null) return
      this.#host.log.error(
        { err: errors[0], jobs: errors.length },
        'jobs that are waited for cannot be read; will try again',
      )
      await new Promise<void>((resolve) => this.#host.clock.setTimer(askAgainMs, resolve))
      askAgainMs = Math.min(ASK_AGAIN_MS_MAX, askAgainMs * 2)
    }
  }

  /** Answers with the store's error, after which the job must be read again. */
  async #readOne(id: string): Promise<unknown> {
    if (!this.#waiting.has(id)) return null
    try {
      const store = await this.#host.store()
      const job = await answerOrThrow(this.#host.clock, store.job({ id }))
      if (job === null) throw new RedressError('JOB_NOT_FOUND', `There is no job ${id}.`, { jobId: id })
      for (const { type, reject } of this.#waiting.get(id) ?? []) {
        if (type !== job.type) reject(ofOtherType(job, type))
      }
      const outcomeOf = await this.#outcomeOf(store, job)
      if (outcomeOf === null) return null
      for (const { type, resolve } of this.#waiting.get(id) ?? []) if (type === job.type) resolve(outcomeOf())
      return null
    } catch (error) {
      const code = error instanceof RedressError ? error.code : null
      if (code === 'JOB_NOT_FOUND') {
        for (const { reject } of this.#waiting.get(id) ?? []) reject(error)
        return null
      }
      if (code === 'STORE_STOPPED') {
        void this.stop()
        return null
      }
      this.#unread.add(id)
      return error
    }
  }

  #outcomeOf(store: Store, job: Parameters<typeof readOutcome>[2]): ReturnType<typeof readOutcome> {
    return answerOrThrow(this.#host.clock, readOutcome(this.#host, store, job))
  }
}

function timeoutOf({ timeout }: WaitOptions): number | null {
  if (timeout === undefined) return null
  const ms = durationMs(timeout, 'timeout')
  if (ms > 0) return ms
  throw new RedressError('OPTION_INVALID', 'timeout must be longer than zero.', {
    action: 'To look at a job without waiting, use find(id).',
  })
}

const tooLong = (id: string, timeoutMs: number): RedressError =>
  new RedressError('WAIT_TIMEOUT', `Job ${id} did not end within ${formatMs(timeoutMs)}. The job goes on.`, {
    jobId: id,
  })

const stopped = (id: string): RedressError =>
  new RedressError('STORE_STOPPED', `The app was stopped before job ${id} ended.`, {
    action: 'The job goes on: wait for it again in a program that runs.',
    jobId: id,
  })

/** A result of another type would have other types than those that the caller sees. */
export const ofOtherType = (job: { id: string; type: string }, type: string): RedressError =>
  new RedressError('OPTION_INVALID', `Job ${job.id} is of type ${job.type}, not ${type}.`, {
    action: `Ask the job type ${job.type}, or app.jobs.`,
    jobId: job.id,
  })

const invalid = (message: string) => new RedressError('OPTION_INVALID', `${message}.`)
