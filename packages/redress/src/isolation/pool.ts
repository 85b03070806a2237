import { existsSync } from 'node:fs'
import { AttemptTimeout, HandlerCrashed, HandlerNotLoaded, MemoryLimit } from '../core/failure/attempt-failed.ts'
import type { ProgressGiven } from '../core/job/reports.ts'
import { ResultInvalid } from '../core/job/result.ts'
import { formatMs } from '../core/text/duration.ts'
import { systemClock, type Timer } from '../runtime/clock.ts'
import { Attempt, ShuttingDown } from '../worker/attempt/attempt.ts'
import type { Host, HostEnding } from './host.ts'
import type { Isolation } from './isolated.ts'
import type { FromHandler, ToHandler } from './messages.ts'
import { rebuilt } from './rebuilt.ts'
import { packThrown } from './thrown.ts'

/** A stopping worker gives the job back soon after it signals its handler. The handler must be gone by then. */
const SHUTDOWN_GRACE_MS = 150

/** How long a worker that starts waits for a module to load. */
const CHECK_MS = 30_000

/** In the sources and in the build, the code of the other side is beside this file. */
const CHILD = new URL(`./child${import.meta.url.slice(import.meta.url.lastIndexOf('.'))}`, import.meta.url)

/** The threads or processes of one job type. Each runs one attempt at a time, so there are never more than the worker's slots. */
export class Pool {
  readonly #isolation: Isolation
  readonly #idle = new Map<Host, Timer>()
  readonly #all = new Set<Host>()
  readonly #busy = new Set<Host>()
  #runs = 0

  constructor(isolation: Isolation) {
    this.#isolation = isolation
  }

  async run(input: unknown, attempt: Attempt): Promise<unknown> {
    for (;;) {
      attempt.signal.throwIfAborted()
      const idle = this.#takeIdle()
      const host = idle ?? (await this.#start())
      const run = new Run(++this.#runs, host, attempt, this.#isolation)
      this.#busy.add(host)
      try {
        return await run.result(input)
      } catch (thrown) {
        // An idle one can die at the moment when it is taken. The handler was not called, so this is no attempt of it.
        if (idle === null || !run.isNeverBegun) throw thrown
      } finally {
        this.#busy.delete(host)
        if (run.mayReuse && !this.#isolation.isFresh && this.#all.has(host)) this.#keep(host)
        else this.#kill(host)
      }
    }
  }

  /** Loads the module once, and rejects if that fails or takes too long. The first job finds it warm. */
  async check(): Promise<void> {
    const host = await this.#start()
    this.#busy.add(host)
    const loading = new Promise<void>((resolve, reject) => {
      host.onMessage = (message) => {
        if (message.kind === 'loaded') resolve()
        else if (message.kind === 'not-loaded') reject(notLoaded(this.#isolation, message))
      }
      void host.ended.then((ending) => reject(crashOf(this.#isolation, ending)))
    })
    let timer: Timer | null = null
    const late = new Promise<never>((_, reject) => {
      timer = systemClock.setTimer(CHECK_MS, () =>
        reject(new HandlerNotLoaded(this.#isolation.file, `was not imported within ${formatMs(CHECK_MS)}`)),
      )
    })
    let isLoaded = false
    try {
      await Promise.race([loading, late])
      isLoaded = true
    } finally {
      ;(timer as Timer | null)?.cancel()
      this.#busy.delete(host)
      if (isLoaded && !this.#isolation.isFresh && this.#all.has(host)) this.#keep(host)
      else this.#kill(host)
    }
  }

  async end(what: 'idle' | 'everything'): Promise<void> {
    const ending = what === 'idle' ? [...this.#idle.keys()] : [...this.#all]
    for (const host of ending) this.#kill(host)
    // Those that are being killed already are waited for, too.
    const busy = what === 'idle' ? this.#busy : new Set<Host>()
    await Promise.all([...this.#all].filter((host) => !busy.has(host)).map(({ ended }) => ended))
  }

  async #start(): Promise<Host> {
    const host = await hostOf(this.#isolation)
    this.#all.add(host)
    void host.ended.then(() => {
      this.#all.delete(host)
      this.#forget(host)
    })
    return host
  }

  /** No job may get it between this moment and its end. */
  #kill(host: Host): void {
    this.#forget(host)
    host.kill()
  }

  #forget(host: Host): void {
    this.#idle.get(host)?.cancel()
    this.#idle.delete(host)
  }

  #takeIdle(): Host | null {
    // The one that was used last: its code is the warmest, and the others can end.
    const host = [...this.#idle.keys()].at(-1)
    if (host === undefined) return null
    this.#forget(host)
    host.clearPrinted()
    host.hold(true)
    return host
  }

  #keep(host: Host): void {
    // An error that no code caught arrives while it is idle: it is not used again.
    host.onMessage = ({ kind }) => {
      if (kind === 'uncaught') this.#kill(host)
    }
    host.hold(false)
    this.#idle.set(
      host,
      idleTimer(this.#isolation.idleMs, () => this.#kill(host)),
    )
  }
}

async function hostOf(isolation: Isolation): Promise<Host> {
  if (!existsSync(CHILD)) {
    const problem = 'cannot be started: a bundler moved the code of redress. Leave the package out of the bundle'
    throw new HandlerNotLoaded(isolation.file, problem)
  }
  if (isolation.kind === 'process') return (await import('./process-host.ts')).ProcessHost.start(CHILD, isolation)
  return new (await import('./thread-host.ts')).ThreadHost(CHILD, isolation)
}

/** Does not keep this process from ending: an idle thread or process ends with it. */
function idleTimer(delayMs: number, wake: () => void): Timer {
  const handle = setTimeout(wake, delayMs).unref()
  return { cancel: () => clearTimeout(handle) }
}

/** One attempt in a thread or process. */
class Run {
  readonly #id: number
  readonly #host: Host
  readonly #attempt: Attempt
  readonly #isolation: Isolation
  /** Why it is being stopped, if it is. */
  #stop: { reason: unknown } | null = null
  #timer: Timer | null = null
  #isBroken = false
  #isAnswered = false
  #hasBegun = false

  constructor(id: number, host: Host, attempt: Attempt, isolation: Isolation) {
    this.#id = id
    this.#host = host
    this.#attempt = attempt
    this.#isolation = isolation
  }

  /** One that was interrupted may still be at work on the old attempt. */
  get mayReuse(): boolean {
    return this.#isAnswered && !this.#isBroken && this.#stop === null
  }

  /** It ended before it called the handler, and not because it was told to. */
  get isNeverBegun(): boolean {
    return this.#isBroken && !this.#hasBegun && this.#stop === null
  }

  async result(input: unknown): Promise<unknown> {
    const { signal } = this.#attempt
    const aborted = () => this.#interrupt(signal.reason)
    let killing: Timer | null = null
    this.#limitTime()
    try {
      this.#post(input)
      const answer = this.#answer()
      this.#onStop = (reason) => {
        killing = systemClock.setTimer(this.#graceMs(reason), () => this.#host.kill())
      }
      if (signal.aborted) aborted()
      else signal.addEventListener('abort', aborted, { once: true })
      return await answer
    } catch (thrown) {
      await this.#tellPrinted()
      throw thrown
    } finally {
      signal.removeEventListener('abort', aborted)
      this.#timer?.cancel()
      ;(killing as Timer | null)?.cancel()
    }
  }

  #onStop: (reason: unknown) => void = () => undefined

  /** Set when the module begins to load, and again when the handler begins: neither may take longer. */
  #limitTime(): void {
    const { timeoutMs } = this.#isolation
    this.#timer?.cancel()
    if (timeoutMs === null) return
    this.#timer = systemClock.setTimer(timeoutMs, () => this.#interrupt(new AttemptTimeout(timeoutMs)))
  }

  #graceMs(reason: unknown): number {
    const { graceMs } = this.#isolation
    return reason instanceof ShuttingDown ? Math.min(graceMs, SHUTDOWN_GRACE_MS) : graceMs
  }

  #post(input: unknown): void {
    const { jobId, type, number, owner, retriedFrom, traceparent } = this.#attempt
    const message: ToHandler = {
      kind: 'run',
      run: this.#id,
      input,
      attempt: { jobId, type, number, owner, retriedFrom, traceparent },
      resultBytesMax: Attempt.resultBytesMaxOf(this.#attempt),
    }
    try {
      this.#host.post(message)
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause)
      throw new TypeError(`the input cannot be copied to a ${this.#isolation.kind}: ${why}`, { cause })
    }
  }

  /** Tells the handler to stop, and kills it when it does not. */
  #interrupt(reason: unknown): void {
    if (this.#stop !== null || this.#isAnswered) return
    this.#stop = { reason }
    try {
      this.#host.post({ kind: 'abort', run: this.#id, reason: packThrown(reason, () => false) })
    } catch {
      // The reason cannot be copied. The handler is killed after its grace time.
    }
    this.#onStop(reason)
  }

  #answer(): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const settle = (end: () => void) => {
        if (this.#isAnswered) return
        this.#isAnswered = true
        end()
      }
      this.#host.onMessage = (message) => {
        if ('run' in message && message.run !== this.#id) return
        try {
          this.#take(
            message,
            (answer) => settle(() => resolve(answer)),
            (thrown) => settle(() => reject(thrown)),
          )
        } catch (thrown) {
          // What it reported is refused, by a check of `attempt.progress` for example.
          this.#isBroken = true
          settle(() => reject(thrown))
        }
      }
      void this.#host.ended.then((ending) => {
        this.#isBroken = true
        settle(() => reject(this.#stop === null ? crashOf(this.#isolation, ending) : this.#stop.reason))
      })
    })
  }

  #take(message: FromHandler, resolve: (answer: unknown) => void, reject: (thrown: unknown) => void): void {
    switch (message.kind) {
      case 'begun':
        this.#hasBegun = true
        this.#limitTime()
        break
      case 'state':
        if (message.progress !== undefined) this.#attempt.progress(message.progress as ProgressGiven)
        if (message.context !== null) this.#attempt.context(message.context)
        break
      case 'log':
        this.#attempt.log(message.message, message.fields)
        break
      case 'done':
        if (this.#isTimeUp) reject(this.#stop?.reason)
        else resolve(message.result === null ? undefined : JSON.parse(message.result))
        break
      case 'result-invalid':
        reject(new ResultInvalid(message.message))
        break
      case 'threw':
        reject(this.#isTimeUp ? this.#stop?.reason : rebuilt(message.thrown))
        break
      case 'uncaught':
        this.#isBroken = true
        reject(rebuilt(message.thrown))
        break
      case 'not-loaded':
        this.#isBroken = true
        reject(notLoaded(this.#isolation, message))
        break
    }
  }

  /** Its own time limit holds, also when it answers a moment later. */
  get #isTimeUp(): boolean {
    return this.#stop?.reason instanceof AttemptTimeout
  }

  /** What the handler printed is part of the failure. */
  async #tellPrinted(): Promise<void> {
    const { stdoutTail, stderrTail } = await this.#host.printed()
    if (stdoutTail !== '') this.#attempt.context({ stdoutTail })
    if (stderrTail !== '') this.#attempt.context({ stderrTail })
  }
}

function notLoaded({ file }: Isolation, { problem, cause }: FromHandler & { kind: 'not-loaded' }): HandlerNotLoaded {
  const thrown = cause === null ? undefined : rebuilt(cause)
  const why = thrown instanceof Error ? `: ${thrown.message}` : ''
  return new HandlerNotLoaded(file, `${problem}${why}`, thrown)
}

function crashOf({ memoryMb }: Isolation, { memory, ...ending }: HostEnding): Error {
  return memory === null ? new HandlerCrashed(ending) : new MemoryLimit(memoryMb, memory.used)
}
