import { join } from 'node:path'
import type { Log } from 'redress'
import type { ParseOrder } from './messages.ts'
import { type Parsed, type ParserLimits, ParserProcess } from './parser-process.ts'
import { Refusal } from './refusals.ts'

interface PoolOptions extends ParserLimits {
  parsers: number
  queueMax: number
  folder: string
  log: Log
}

/** A healthy process is also replaced after some time, so that a leak in a library is bounded. */
const DOCUMENTS_MAX = 200
/** A process that still holds this share of its memory after a document would fail the next one. */
const KEEP_SHARE_MAX = 0.85

type Order = Pick<ParseOrder, 'mapping' | 'generator'>

/** A place among those that are parsed or wait for it. */
interface Place {
  /** `begins` is awaited when the document gets its parser. */
  parse(pdfPath: string, order: Order, begins: () => Promise<void>): Promise<Parsed>
  leave(): void
}

/** A few warm processes, and a bounded queue before them. */
export class ParserPool {
  readonly #options: PoolOptions
  readonly #idle: ParserProcess[] = []
  readonly #all = new Set<ParserProcess>()
  readonly #waiting: PromiseWithResolvers<void>[] = []
  readonly #quiet = Promise.withResolvers<void>()
  #busy = 0
  #places = 0
  #started = 0
  #isStopping = false
  readonly #stopped = new AbortController()

  constructor(options: PoolOptions) {
    this.#options = options
  }

  get state(): { busy: number; idle: number; waiting: number } {
    const waiting = this.#places - this.#busy
    return { busy: this.#busy, idle: this.#options.parsers - this.#busy, waiting }
  }

  get parsers(): number {
    return this.#options.parsers
  }

  get isSaturated(): boolean {
    return this.#places >= this.#options.parsers + this.#options.queueMax
  }

  get isStopping(): boolean {
    return this.#isStopping
  }

  /** The first document should not have to wait for a process to start. */
  async warm(): Promise<void> {
    this.#idle.push(await this.#start())
  }

  /** Uploads count, too: otherwise any number of them could fill the disk before the first one is refused. */
  enter(signal: AbortSignal): Place {
    if (this.#isStopping) throw stopping()
    if (this.isSaturated) throw new Refusal('SATURATED', 'All parsers are busy and the queue is full.')
    this.#places++
    let isLeft = false
    return {
      parse: (...given) => this.#parse(...given, AbortSignal.any([signal, this.#stopped.signal])),
      leave: () => {
        if (!isLeft) this.#places--
        isLeft = true
      },
    }
  }

  /** Those that wait are sent away at once, those that are being parsed when the grace is over. */
  async stop(graceMs: number): Promise<void> {
    this.#isStopping = true
    for (const { reject } of this.#waiting.splice(0)) reject(stopping())
    const late = setTimeout(() => this.#stopped.abort(), graceMs)
    try {
      if (this.#busy > 0) await this.#quiet.promise
    } finally {
      clearTimeout(late)
      await Promise.all([...this.#all].map((parser) => parser.stop()))
    }
  }

  async #parse(pdfPath: string, order: Order, begins: () => Promise<void>, signal: AbortSignal): Promise<Parsed> {
    await this.#turn(signal)
    let parser: ParserProcess | undefined
    try {
      parser = await this.#take()
      return await parser.parse(pdfPath, order, begins, signal)
    } catch (error) {
      throw this.#stopped.signal.aborted ? stopping() : error
    } finally {
      if (parser !== undefined) this.#giveBack(parser)
      this.#passOn()
    }
  }

  async #turn(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    if (this.#isStopping) throw stopping()
    if (this.#busy < this.#options.parsers) {
      this.#busy++
      return
    }
    const waiter = Promise.withResolvers<void>()
    this.#waiting.push(waiter)
    const leave = () => {
      const at = this.#waiting.indexOf(waiter)
      if (at !== -1) this.#waiting.splice(at, 1)
      waiter.reject(signal.reason)
    }
    signal.addEventListener('abort', leave, { once: true })
    try {
      await waiter.promise
    } finally {
      signal.removeEventListener('abort', leave)
    }
  }

  /** The turn is handed over directly. If it were free for a moment, a later request could take it. */
  #passOn(): void {
    const next = this.#waiting.shift()
    if (next === undefined) this.#busy--
    else next.resolve()
    if (this.#busy === 0 && this.#isStopping) this.#quiet.resolve()
  }

  async #take(): Promise<ParserProcess> {
    for (let parser = this.#idle.pop(); parser !== undefined; parser = this.#idle.pop()) {
      if (!parser.isGone) return parser
    }
    return this.#start()
  }

  #giveBack(parser: ParserProcess): void {
    const isFull = (parser.rssMb ?? 0) > this.#options.memoryMb * KEEP_SHARE_MAX
    if (!parser.isGone && !isFull && parser.documents < DOCUMENTS_MAX && !this.#isStopping) {
      this.#idle.push(parser)
      return
    }
    void parser.stop().then(() => this.#all.delete(parser))
  }

  async #start(): Promise<ParserProcess> {
    const parser = await ParserProcess.start(join(this.#options.folder, `parser-${++this.#started}`), this.#options)
    this.#all.add(parser)
    this.#options.log.debug({ event: 'parser_started', pid: parser.pid }, 'a parser was started')
    return parser
  }
}

function stopping(): Refusal {
  return new Refusal('STOPPING', 'The gateway is being stopped.')
}
