import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { Log } from 'redress'

export interface GatewayServiceOptions {
  mappingsDir: string | null
  /** How long a call to it may take: it gives up a document before that, and can say why. */
  timeoutMs: number
  log: Log
}

const AGAIN_MS_MIN = 500
const AGAIN_MS_MAX = 30_000
/** One that ran so long was well: the next one is started without a wait. */
const WELL_MS = 60_000
const STOP_MS = 10_000
const PARSE_MS_MIN = 1_000
const ANSWER_MS = 2_000

/**
 * The gateway as a process of its own beside this one, for whoever has none elsewhere. It is started again when it dies;
 * meanwhile calls fail as they would with any gateway that is down, and the breaker does the rest.
 */
export class GatewayService {
  readonly #options: GatewayServiceOptions
  #child: ChildProcess | null = null
  #url: string | null = null
  #againMs = AGAIN_MS_MIN
  #timer: NodeJS.Timeout | null = null
  #isStopped = false

  constructor(options: GatewayServiceOptions) {
    this.#options = options
  }

  /** While it is down: an address at which nobody listens. */
  get url(): string {
    return this.#url ?? 'http://127.0.0.1:1'
  }

  get pid(): number | null {
    return this.#child?.pid ?? null
  }

  /** Resolves when it listens. Rejects when the first one dies before that: then something is wrong with the set-up. */
  async start(): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const child = this.#launch(resolve)
      child.once('error', reject)
      child.once('exit', (code, signal) => reject(new Error(`the gateway ended at once (${signal ?? code})`)))
    })
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    if (this.#timer !== null) clearTimeout(this.#timer)
    const child = this.#child
    if (child === null || child.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, 'exit')
    const late = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
    child.kill('SIGTERM')
    await ended
    clearTimeout(late)
  }

  #launch(then: () => void = () => undefined): ChildProcess {
    const { mappingsDir, timeoutMs, log } = this.#options
    const options = {
      untilStdinEnds: true,
      parseMs: Math.max(PARSE_MS_MIN, timeoutMs - ANSWER_MS),
      ...(mappingsDir !== null && { mappingsDir }),
    }
    const startedMs = performance.now()
    const child = spawn(process.execPath, [...process.execArgv, entry(), JSON.stringify(options)], {
      // Its end of our pipe closes when we die, however we do: then it ends, too.
      stdio: ['pipe', 'pipe', 'inherit'],
      // Secrets of the server are none of its business.
      env: { PATH: process.env.PATH, NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE },
    })
    this.#child = child
    createInterface({ input: child.stdout as NodeJS.ReadableStream }).once('line', (line) => {
      const { url } = JSON.parse(line) as { url: string }
      this.#url = url
      log.info({ event: 'gateway_started', url, pid: child.pid }, 'the gateway listens')
      then()
    })
    child.once('error', (error) => log.error({ event: 'gateway_failed', err: error }, 'the gateway cannot be started'))
    child.once('exit', (code, signal) => {
      this.#url = null
      if (this.#isStopped) return
      const waitMs = performance.now() - startedMs >= WELL_MS ? AGAIN_MS_MIN : this.#againMs
      this.#againMs = Math.min(waitMs * 2, AGAIN_MS_MAX)
      log.error({ event: 'gateway_died', code, signal, again_ms: waitMs }, 'the gateway died; it is started again')
      this.#timer = setTimeout(() => this.#launch(), waitMs)
    })
    return child
  }
}

/** A checkout runs its TypeScript as it stands; a published package holds what was built from it. */
const entry = (): string =>
  fileURLToPath(new URL(`./gateway/main.${import.meta.url.endsWith('.ts') ? 'ts' : 'js'}`, import.meta.url))
