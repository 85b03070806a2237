import { Worker } from 'node:worker_threads'
import type { ChildSetup } from './child.ts'
import type { Host, HostEnding, Printed } from './host.ts'
import type { Isolation } from './isolated.ts'
import type { FromHandler, FromThread, ToHandler } from './messages.ts'

/** A tight loop fills about a gigabyte per second. */
const MEMORY_MS = 50
/** Node lets unused Buffers grow to about this size before it collects them. */
const UNUSED_BUFFERS_MB = 64
const NOTHING_PRINTED: Printed = { stdoutTail: '', stderrTail: '' }

/** A handler in a worker thread. Its output goes where the output of this process goes. */
export class ThreadHost implements Host {
  readonly ended: Promise<HostEnding>
  onMessage: (message: FromHandler) => void = () => undefined
  readonly #worker: Worker
  readonly #memoryMb: number | null
  #watch: NodeJS.Timeout | null = null
  #usedMb: number | null = null

  constructor(child: URL, { file, memoryMb }: Isolation) {
    this.#memoryMb = memoryMb
    const setup: ChildSetup = { file, memoryMb, parentPid: process.pid }
    this.#worker = new Worker(child, {
      workerData: setup,
      name: 'redress handler',
      ...(memoryMb !== null && { resourceLimits: { maxOldGenerationSizeMb: memoryMb } }),
    })
    this.#worker.on('message', (message: FromThread | null | undefined) => {
      if (message?.redress !== undefined) this.onMessage(message.redress)
    })
    let error: unknown
    this.#worker.on('error', (thrown) => {
      error = thrown
    })
    this.ended = new Promise((resolve) => {
      this.#worker.once('exit', (exitCode) => {
        this.#watchMemory(false)
        const isMemory = (error as { code?: unknown } | undefined)?.code === 'ERR_WORKER_OUT_OF_MEMORY'
        resolve({
          how: error === undefined ? `exited with code ${exitCode}` : 'ended with an error that no code caught',
          exitCode: error === undefined ? exitCode : null,
          signal: null,
          stderrTail: '',
          memory: this.#usedMb !== null ? { used: `${this.#usedMb} MB of Buffers` } : isMemory ? { used: null } : null,
          ...(error !== undefined && { cause: error }),
        })
      })
    })
    this.#watchMemory(true)
  }

  post(message: ToHandler): void {
    this.#worker.postMessage(message)
  }

  kill(): void {
    void this.#worker.terminate()
  }

  hold(isHeld: boolean): void {
    this.#watchMemory(isHeld)
    if (isHeld) this.#worker.ref()
    else this.#worker.unref()
  }

  /** The limit of the heap does not count Buffers. The thread answers this question also in a loop without end. */
  #watchMemory(isWatched: boolean): void {
    if (this.#watch !== null) clearInterval(this.#watch)
    this.#watch = isWatched && this.#memoryMb !== null ? setInterval(() => void this.#look(), MEMORY_MS) : null
  }

  async #look(): Promise<void> {
    try {
      const { external_memory } = await this.#worker.getHeapStatistics()
      const usedMb = external_memory / 2 ** 20
      if (this.#memoryMb === null || usedMb <= this.#memoryMb + UNUSED_BUFFERS_MB || this.#watch === null) return
      this.#usedMb = Math.round(usedMb)
      this.kill()
    } catch {
      // The thread has ended meanwhile; 'exit' reports it.
    }
  }

  clearPrinted(): void {}

  async printed(): Promise<Printed> {
    return NOTHING_PRINTED
  }
}
