import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { environmentOf } from '../programs/launch.ts'
import { Tail } from '../programs/output.ts'
import { ProcessGroup, processIds } from '../programs/stopper.ts'
import { systemClock } from '../runtime/clock.ts'
import type { ChildSetup } from './child.ts'
import { Frames, frameOf, MESSAGES_FD } from './frames.ts'
import type { Host, HostEnding, Printed } from './host.ts'
import type { Isolation } from './isolated.ts'
import type { FromHandler, ToHandler } from './messages.ts'

const TAIL_BYTES = 4096
/** More than any message beside a result has. A result has two bytes for a character at most. */
const OTHER_BYTES_MAX = 64 * 2 ** 20
/** A process that left the group may still hold a pipe. */
const PIPES_MS = 500
/** Beside those of every program: see `environmentOf`. NODE_OPTIONS is left out, because it can load code. */
const INHERITED = ['NODE_ENV', 'NODE_EXTRA_CA_CERTS']
/** Flags of this process that decide how modules are found and loaded. */
const LOADING_FLAG =
  /^(?:-C|--conditions|-r|--require|--import|--loader|--experimental-loader|--(?:no-)?experimental-strip-types|--(?:no-)?strip-types|--experimental-transform-types|--enable-source-maps|--preserve-symlinks|--(?:no-)?warnings|--disable-warning)(?:=|$)/
const TAKES_VALUE = new Set(['-C', '--conditions', '-r', '--require', '--import', '--loader', '--experimental-loader'])
const HEAP_FULL = /heap out of memory|Allocation failed/

/** A handler in a process of its own, which leads a process group. */
export class ProcessHost implements Host {
  readonly ended: Promise<HostEnding>
  onMessage: (message: FromHandler) => void = () => undefined
  readonly #child: ChildProcess
  readonly #group: ProcessGroup
  #stdout = new Tail(TAIL_BYTES)
  #stderr = new Tail(TAIL_BYTES)
  readonly #frames = new Frames(OTHER_BYTES_MAX)
  #reason = ''
  #isHeld = true

  static async start(child: URL, isolation: Isolation): Promise<ProcessHost> {
    const before = await processIds()
    const mark = randomUUID()
    const { file, memoryMb, cwd } = isolation
    const setup: ChildSetup = { file, memoryMb, parentPid: process.pid }
    const flags = [
      ...loadingFlags(process.execArgv),
      ...(memoryMb === null ? [] : [`--max-old-space-size=${memoryMb}`]),
      ...permissionFlags(child, isolation),
    ]
    // Detached makes it the leader of a process group of its own, which can be signalled as one.
    const started = spawn(process.execPath, [...flags, fileURLToPath(child), JSON.stringify(setup)], {
      ...(cwd !== null && { cwd }),
      env: environmentOf(isolation.env, mark, INHERITED),
      detached: true,
      // After the usual three: the messages, and why the process was killed.
      stdio: ['ignore', 'pipe', 'pipe', 'pipe', 'pipe'],
    })
    if (started.pid === undefined) {
      const [error] = await once(started, 'error')
      throw error
    }
    return new ProcessHost(started, new ProcessGroup(started.pid, mark, before))
  }

  private constructor(child: ChildProcess, group: ProcessGroup) {
    this.#child = child
    this.#group = group
    child.on('error', () => undefined)
    // A message that was on its way when the process ended; its end is reported by 'exit'.
    for (const stream of this.#pipes) stream.on('error', () => undefined)
    this.#messages.on('data', (chunk: Uint8Array) => this.#take(chunk))
    child.stdout?.on('data', (chunk: Uint8Array) => this.#stdout.take(chunk))
    child.stderr?.on('data', (chunk: Uint8Array) => this.#stderr.take(chunk))
    ;(child.stdio[4] as Socket).on('data', (chunk: Buffer) => {
      this.#reason = (this.#reason + chunk.toString('latin1')).slice(0, 100)
    })
    this.ended = this.#watch()
  }

  async #watch(): Promise<HostEnding> {
    const closed = once(this.#child, 'close')
    const [exitCode, signal] = (await once(this.#child, 'exit')) as [number | null, string | null]
    await this.#group.end()
    await Promise.race([closed, new Promise<void>((resolve) => systemClock.setTimer(PIPES_MS, resolve))])
    for (const stream of this.#pipes) stream.destroy()
    const isHeapFull = (signal === 'SIGABRT' || exitCode === 134) && HEAP_FULL.test(this.#stderr.text())
    return {
      how: signal === null ? `exited with code ${exitCode}` : `was killed by ${signal}`,
      exitCode,
      signal,
      stderrTail: this.#stderr.text(),
      memory: this.#reason !== '' ? { used: this.#reason } : isHeapFull ? { used: 'the heap is full' } : null,
    }
  }

  get #pipes(): Socket[] {
    return this.#child.stdio.filter((stream) => stream !== null) as Socket[]
  }

  get #messages(): Socket {
    return this.#child.stdio[MESSAGES_FD] as Socket
  }

  /** The handler's code can write to the pipe, too. Bytes that are not messages must not harm the worker. */
  #take(chunk: Uint8Array): void {
    try {
      for (const message of this.#frames.take(chunk)) this.onMessage(message as FromHandler)
    } catch {
      this.#messages.destroy()
      this.kill()
    }
  }

  post(message: ToHandler): void {
    if (message.kind === 'run') this.#frames.bodyBytesMax = OTHER_BYTES_MAX + 2 * message.resultBytesMax
    this.#messages.write(frameOf(message))
  }

  kill(): void {
    this.#group.signal('SIGKILL')
  }

  hold(isHeld: boolean): void {
    if (isHeld === this.#isHeld) return
    this.#isHeld = isHeld
    const change = isHeld ? 'ref' : 'unref'
    this.#child[change]()
    for (const stream of this.#pipes) stream[change]()
  }

  clearPrinted(): void {
    this.#stdout = new Tail(TAIL_BYTES)
    this.#stderr = new Tail(TAIL_BYTES)
  }

  async printed(): Promise<Printed> {
    // The process wrote it before its answer, but on other pipes. They are read in the same turn of the event loop.
    await new Promise<void>((resolve) => setImmediate(resolve))
    return { stdoutTail: this.#stdout.text(), stderrTail: this.#stderr.text() }
  }
}

function loadingFlags(flags: readonly string[]): string[] {
  return flags.flatMap((flag, index) => {
    if (LOADING_FLAG.test(flag)) return [flag]
    return TAKES_VALUE.has(flags[index - 1] ?? '') ? [flag] : []
  })
}

function permissionFlags(child: URL, { permissions, file }: Isolation): string[] {
  if (permissions === null) return []
  const { read, write, net, childProcess } = permissions
  // The engine's own code is one folder up: the sources, or the parts of the build.
  const needed = [`${dirname(dirname(fileURLToPath(child)))}/*`, `${dirname(file)}/*`]
  return [
    '--permission',
    // For the thread that watches over the process.
    '--allow-worker',
    ...[...needed, ...read].map((path) => `--allow-fs-read=${path}`),
    ...write.map((path) => `--allow-fs-write=${path}`),
    ...(net && process.allowedNodeEnvironmentFlags.has('--allow-net') ? ['--allow-net'] : []),
    ...(childProcess ? ['--allow-child-process'] : []),
  ]
}
