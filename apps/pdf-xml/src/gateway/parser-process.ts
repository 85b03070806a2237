import type { ChildProcess } from 'node:child_process'
import { constants, readFileSync } from 'node:fs'
import { type FileHandle, mkdir, open, rename, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { forkIsolated, type Isolation } from './isolation.ts'
import type { ParseOrder, ParserSays } from './messages.ts'
import { Refusal } from './refusals.ts'

export interface ParserLimits {
  parseMs: number
  memoryMb: number
  pagesMax: number
  xmlBytesMax: number
  isolation: Isolation
}

export interface Parsed {
  pages: number
  /** No name leads to it any more: it is gone when it is closed. */
  xml: FileHandle
}

/** Memory outside V8's heap: Node, pdf.js, our own code, and buffers. */
const BASE_MB = 115
const HEAP_MB_MIN = 48
const START_MS_MAX = 30_000
/** Memory outside V8's heap has no limit of its own, so it is checked at this interval while a document is parsed. */
const WATCH_MS = 15
const PAGE_BYTES = 4096
const STDERR_CHARS_MAX = 4_000

const HERE = dirname(fileURLToPath(import.meta.url))
/** The published package contains the built file. */
const ENTRY = fileURLToPath(import.meta.url.replace(/[^/]*(\.[jt]s)$/, 'parser$1'))

type Death = 'time' | 'memory' | 'start' | 'unwanted'

const DEATHS = { start: 'it did not start in time', unwanted: 'it was stopped' } as const

/** One warm process that parses one document after the other, until one of them is its last. */
export class ParserProcess {
  readonly #child: ChildProcess
  readonly #folder: string
  readonly #limits: ParserLimits
  readonly #ready: Promise<void>
  readonly #gone: Promise<void>
  #isGone = false
  #death: Death | undefined
  #stderr = ''
  #documents = 0

  static async start(folder: string, limits: ParserLimits): Promise<ParserProcess> {
    await mkdir(folder, { recursive: true })
    return new ParserProcess(folder, limits)
  }

  private constructor(folder: string, limits: ParserLimits) {
    this.#folder = folder
    this.#limits = limits
    const flags = [
      // It may access only its code and its own folder: no other file, program, thread or native code.
      '--permission',
      ...readable(folder).map((path) => `--allow-fs-read=${path}`),
      `--allow-fs-write=${folder}`,
      `--max-old-space-size=${Math.max(limits.memoryMb - BASE_MB, HEAP_MB_MIN)}`,
      '--max-semi-space-size=4',
      '--disable-warning=ExperimentalWarning',
    ]
    this.#child = forkIsolated(ENTRY, flags, limits.isolation)
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr = (this.#stderr + text).slice(-STDERR_CHARS_MAX)
    })
    // 'close' comes after all that it wrote, which is how a full heap is known; a program that cannot start has no end.
    this.#gone = new Promise<void>((resolve) => {
      this.#child.once('close', () => resolve())
      this.#child.once('error', () => resolve())
    }).then(async () => {
      this.#isGone = true
      await rm(this.#folder, { recursive: true, force: true })
    })
    this.#ready = this.#next(START_MS_MAX, 'start').then(() => undefined)
    this.#ready.catch(() => this.kill())
  }

  get pid(): number | undefined {
    return this.#child.pid
  }

  get isGone(): boolean {
    return this.#isGone || this.#death !== undefined
  }

  get documents(): number {
    return this.#documents
  }

  /** The memory it holds now; undefined where the system does not say so in /proc. */
  get rssMb(): number | undefined {
    try {
      const pages = readFileSync(`/proc/${this.#child.pid}/statm`, 'utf8').split(' ')[1]
      return (Number(pages) * PAGE_BYTES) / 2 ** 20
    } catch {
      return undefined
    }
  }

  async parse(
    pdfPath: string,
    order: Pick<ParseOrder, 'mapping' | 'generator'>,
    begins: () => Promise<void>,
    signal: AbortSignal,
  ): Promise<Parsed> {
    const { parseMs, pagesMax, xmlBytesMax } = this.#limits
    const stop = () => this.kill()
    signal.addEventListener('abort', stop, { once: true })
    try {
      await this.#ready
      await begins()
      signal.throwIfAborted()
      this.#documents++
      const own = { pdfPath: join(this.#folder, 'in.pdf'), xmlPath: join(this.#folder, 'out.xml') }
      await rename(pdfPath, own.pdfPath)
      const answer = this.#next(parseMs, 'time')
      this.#child.send({ ...own, ...order, pagesMax, xmlBytesMax } satisfies ParseOrder, () => undefined)
      const said = await answer
      if (said.kind === 'done') return { pages: said.pages, xml: await this.#take(own.xmlPath) }
      if (said.kind === 'refused') throw new Refusal(said.code, said.message, { cause: said.detail })
      throw this.#died('it said something unexpected')
    } finally {
      signal.removeEventListener('abort', stop)
      if (!this.isGone) await this.#clear()
    }
  }

  kill(why: Death = 'unwanted'): void {
    this.#death ??= why
    this.#child.kill('SIGKILL')
  }

  async stop(): Promise<void> {
    this.kill()
    await this.#gone
  }

  /** The next message of the process, or the reason why none will come. */
  async #next(limitMs: number, late: Death): Promise<ParserSays> {
    const said = Promise.withResolvers<ParserSays>()
    this.#child.once('message', said.resolve)
    const timer = setTimeout(() => this.kill(late), limitMs)
    const watch = setInterval(() => {
      if ((this.rssMb ?? 0) > this.#limits.memoryMb) this.kill('memory')
    }, WATCH_MS)
    try {
      const first = await Promise.race([said.promise, this.#gone])
      if (first !== undefined) return first
      throw this.#reason()
    } finally {
      clearTimeout(timer)
      clearInterval(watch)
      this.#child.off('message', said.resolve)
    }
  }

  #reason(): Refusal {
    if (this.#death === 'time') {
      return new Refusal('PARSE_TIMEOUT', `The PDF took longer than ${this.#limits.parseMs} ms and was given up.`)
    }
    if (this.#death === 'memory' || this.#stderr.includes('heap out of memory')) {
      return new Refusal(
        'MEMORY',
        `The PDF needs more than the ${this.#limits.memoryMb} MB that one document may have.`,
      )
    }
    return this.#died(this.#death === undefined ? this.#stderr : DEATHS[this.#death])
  }

  #died(detail: string): Refusal {
    return new Refusal('PARSER_DIED', 'The process that read this PDF ended unexpectedly.', { cause: detail })
  }

  /** A link instead of a file would lead the gateway where the process itself may not go. */
  async #take(path: string): Promise<FileHandle> {
    const xml = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW)
    await rm(path, { force: true })
    return xml
  }

  async #clear(): Promise<void> {
    await Promise.all(['in.pdf', 'out.xml'].map((name) => rm(join(this.#folder, name), { force: true })))
  }
}

/** Modules are looked for from folder to folder upwards; a look that is forbidden is an error, not a miss. */
function readable(folder: string): string[] {
  const pdfjs = dirname(createRequire(import.meta.url).resolve('pdfjs-dist/package.json'))
  const paths = [folder, HERE, pdfjs]
  for (let at = HERE; at !== dirname(at); at = dirname(at)) {
    paths.push(join(at, 'package.json'), join(at, 'node_modules', 'pdfjs-dist'))
  }
  return [...new Set(paths)]
}
