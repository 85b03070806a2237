/** Runs in the thread or process of a handler: loads its module, and calls it for each attempt. */
import { Socket } from 'node:net'
import { pathToFileURL } from 'node:url'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { logEntryOf, progressOf } from '../core/job/reports.ts'
import { packResult } from '../core/job/result.ts'
import { Frames, frameOf, MESSAGES_FD } from './frames.ts'
import type { IsolatedAttempt } from './isolated-attempt.ts'
import type { FromHandler, FromThread, ToHandler } from './messages.ts'
import { Failing, type PackedThrown, packThrown, plainFields, Snoozing } from './thrown.ts'

/** Progress and context are sent this often at most: a busy loop must not flood the worker. */
const STATE_MS = 50
/** The worker keeps fewer lines than this, and counts the rest. */
const LOG_LINES_SENT_MAX = 10_000

type Handler = (input: unknown, attempt: IsolatedAttempt) => unknown

/** What a process is told on its command line, and a thread in its `workerData`. */
export interface ChildSetup {
  /** Absolute path of the handler's module. */
  file: string
  /** For a process: the parent, whose end is its own, and its limit. */
  parentPid: number
  memoryMb: number | null
}

const setup: ChildSetup = isMainThread ? JSON.parse(process.argv[2] ?? '{}') : workerData
/** Where the author's code was called from. Its own calls of the attempt are in this file, too. */
const isOwnFrame = (frame: string): boolean => frame.includes(import.meta.url) && frame.includes('callHandler')
const pack = (thrown: unknown): PackedThrown => packThrown(thrown, isOwnFrame)

const pipe = isMainThread ? new Socket({ fd: MESSAGES_FD }) : null

function send(message: FromHandler): void {
  pipe?.write(frameOf(message))
  parentPort?.postMessage({ redress: message } satisfies FromThread)
}

/** One attempt of one job. */
class Run {
  readonly attempt: IsolatedAttempt
  readonly #id: number
  readonly #resultBytesMax: number
  readonly #controller = new AbortController()
  #progress: unknown
  #context: Record<string, unknown> | null = null
  #sentMs = Number.NEGATIVE_INFINITY
  #timer: NodeJS.Timeout | null = null
  #logLines = 0

  constructor({ run, attempt, resultBytesMax }: ToHandler & { kind: 'run' }) {
    this.#id = run
    this.#resultBytesMax = resultBytesMax
    this.attempt = Object.freeze({
      ...attempt,
      signal: this.#controller.signal,
      progress: (value: unknown) => {
        // A wrong value is refused here, where the handler can see it.
        progressOf(value)
        this.#progress = value
        this.#sendState()
      },
      context: (fields: Record<string, unknown>) => {
        this.#context = { ...this.#context, ...plainFields(fields) }
        this.#sendState()
      },
      log: (message: string, fields?: Record<string, unknown>) => {
        if (this.#logLines++ >= LOG_LINES_SENT_MAX) return
        const line = logEntryOf(message, fields)
        send({ kind: 'log', run, message: line.message, fields: line.fields ?? undefined })
      },
      fail: (code: string, options?: object): never => {
        throw new Failing(code, options as Record<string, unknown> | undefined)
      },
      snooze: (delay: unknown, note?: string): never => {
        throw new Snoozing(delay, note)
      },
      stage: (): never => {
        throw new Error(
          'attempt.stage() does not work in a thread or process of its own. Use stages in a handler that runs in the worker.',
        )
      },
    })
  }

  abort(reason: PackedThrown): void {
    this.#controller.abort(asReason(reason))
  }

  async callHandler(handler: Handler, input: unknown): Promise<void> {
    const run = this.#id
    let output: unknown
    try {
      output = await handler(input, this.attempt)
    } catch (thrown) {
      this.#flush()
      send({ kind: 'threw', run, thrown: pack(thrown) })
      return
    }
    this.#flush()
    try {
      send({ kind: 'done', run, result: packResult(output, this.#resultBytesMax) })
    } catch (invalid) {
      send({ kind: 'result-invalid', run, message: (invalid as Error).message })
    }
  }

  #sendState(): void {
    const waitMs = this.#sentMs + STATE_MS - performance.now()
    // A handler that blocks this thread keeps the timer from firing, so the time is compared at each call.
    if (waitMs <= 0) this.#flush()
    else this.#timer ??= setTimeout(() => this.#flush(), waitMs)
  }

  #flush(): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    if (this.#progress === undefined && this.#context === null) return
    send({ kind: 'state', run: this.#id, progress: this.#progress, context: this.#context })
    this.#progress = undefined
    this.#context = null
    this.#sentMs = performance.now()
  }
}

function asReason(reason: PackedThrown): Error {
  if (reason.kind !== 'error') return new Error('the attempt was stopped')
  const error = new Error(reason.message)
  return Object.assign(error, reason.fields, { name: reason.name })
}

/** Kills this process and all that it started: it leads their process group. */
function endProcess(): void {
  process.kill(-process.pid, 'SIGKILL')
}

if (pipe !== null) {
  // An error means that the worker is gone, and so does 'close', which follows.
  pipe.on('error', () => undefined)
  pipe.on('close', endProcess)
  // A handler that blocks this thread cannot see that its worker is gone, or how much memory it uses. This thread can.
  const ending = import.meta.url.slice(import.meta.url.lastIndexOf('.'))
  const guard = new Worker(new URL(`./process-guard${ending}`, import.meta.url), { workerData: setup, env: {} })
  guard.unref()
  // The first message says that it has measured what Node itself needs.
  await new Promise<void>((resolve) => guard.once('message', () => resolve()))
}

let current: Run | null = null
let currentId = 0

process.on('uncaughtException', (thrown) => send({ kind: 'uncaught', thrown: pack(thrown) }))

async function load(): Promise<Handler | null> {
  try {
    const module = await import(pathToFileURL(setup.file).href)
    if (typeof module.default === 'function') {
      send({ kind: 'loaded' })
      return module.default
    }
    send({ kind: 'not-loaded', problem: 'has no default export that is a function', cause: null })
  } catch (thrown) {
    send({ kind: 'not-loaded', problem: 'cannot be imported', cause: pack(thrown) })
  }
  return null
}

const loading = load()

async function take(message: ToHandler): Promise<void> {
  if (message.kind === 'abort') {
    if (message.run === currentId) current?.abort(message.reason)
    return
  }
  current = new Run(message)
  currentId = message.run
  const handler = await loading
  if (handler === null) return
  send({ kind: 'begun', run: message.run })
  await current.callHandler(handler, message.input)
}

const frames = new Frames()
pipe?.on('data', (chunk) => {
  for (const message of frames.take(chunk)) void take(message as ToHandler)
})
parentPort?.on('message', (message: ToHandler) => void take(message))
