import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { type Log, RedressError } from 'redress'

export interface GatewayServiceOptions {
  mappingsDir: string | null
  /** How long a call to it may take: it gives up a document before that, and can say why. */
  timeoutMs: number
  log: Log
}

const AGAIN_MS_MIN = 500
const AGAIN_MS_MAX = 30_000
/** After a run of this length the gateway counts as healthy, and its restart is not delayed. */
const WELL_MS = 60_000
const STOP_MS = 10_000
const PARSE_MS_MIN = 1_000
const ANSWER_MS = 2_000

/**
 * Runs the gateway as a child process, if no `GATEWAY_URL` is set. A gateway that dies is started again; until then
 * calls fail as with any gateway that is down, and the breaker holds the jobs.
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

  /** While the gateway is down: an address where no process listens. */
  get url(): string {
    return this.#url ?? 'http://127.0.0.1:1'
  }

  /** Resolves when it listens. Rejects when the first one dies before that: then something is wrong with the set-up. */
  async start(): Promise<void> {
    try {
      await new Promise<void>((resolve, reject) => {
        const child = this.#launch(resolve)
        child.once('error', reject)
        child.once('exit', (code, signal) => reject(new Error(`it ended at once (${signal ?? code})`)))
      })
    } catch (cause) {
      // Otherwise a gateway that is restarted later would never be stopped.
      await this.stop()
      throw new RedressError('OPTION_INVALID', `The gateway cannot be started: ${(cause as Error).message}.`, {
        cause,
        action: 'See the log. Set GATEWAY_URL to use a gateway that runs elsewhere.',
      })
    }
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
      stdio: ['pipe', 'pipe', 'pipe'],
      // The gateway does not get the server's secrets.
      env: Object.fromEntries(TOLD.map((name) => [name, process.env[name]])),
    })
    this.#child = child
    createInterface({ input: child.stderr as NodeJS.ReadableStream }).on('line', (line) => pass(line, child.pid, log))
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
      log.error({ event: 'gateway_died', code, signal, again_ms: waitMs }, 'the gateway died and will be restarted')
      this.#timer = setTimeout(() => this.#launch(), waitMs)
    })
    return child
  }
}

/** Of our environment, what it needs: where programs and temporary files are. */
const TOLD = ['PATH', 'TMPDIR', 'NODE_COMPILE_CACHE']

/** Log lines of the gateway go to our log. Any other line was written by Node when the process ended. */
function pass(line: string, pid: number | undefined, log: Log): void {
  const said = logged(line)
  if (said === null) log.warn({ event: 'gateway_said', pid }, line)
  else log[said.level]({ ...said.fields, pid }, said.message)
}

function logged(line: string): { level: 'warn' | 'error'; message: string; fields: object } | null {
  try {
    const said = JSON.parse(line)
    return said.level === 'warn' || said.level === 'error' ? said : null
  } catch {
    return null
  }
}

/** A checkout runs the TypeScript source; a published package runs the built JavaScript. */
const entry = (): string =>
  fileURLToPath(new URL(`./gateway/main.${import.meta.url.endsWith('.ts') ? 'ts' : 'js'}`, import.meta.url))
