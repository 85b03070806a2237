import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { PDFDocument, StandardFonts } from '@cantoo/pdf-lib'
import { onTestFinished } from 'vitest'
import type { App } from '../../../packages/redress/src/app/app.ts'
import { outcomeLog } from '../../../packages/redress/src/app/events/outcome-log.ts'
import { startServer } from '../../../packages/redress/src/http/index.ts'
import { redress } from '../../../packages/redress/src/index.ts'
import type { Clock } from '../../../packages/redress/src/runtime/clock.ts'
import { keepingLog, type LogLine } from '../../../test/support/scene.ts'
import { until } from '../../../test/support/until.ts'
import pdfXml from '../src/index.ts'

const ROOT = join(import.meta.dirname, '../../..')

/** The real gateway in a process of its own, with its drills. */
export class GatewayProcess {
  readonly child: ChildProcess
  readonly url: string

  private constructor(child: ChildProcess, url: string) {
    this.child = child
    this.url = url
  }

  static async start(port = 0, options: readonly string[] = []): Promise<GatewayProcess> {
    const words = ['gateway', '--faults', '--port', String(port), '--log-level', 'error', ...options]
    const child = spawn(join(ROOT, 'packages/redress/bin/redress'), words, { stdio: ['ignore', 'pipe', 'inherit'] })
    const [line] = await once(createInterface({ input: child.stdout as NodeJS.ReadableStream }), 'line')
    return new GatewayProcess(child, (JSON.parse(line as string) as { url: string }).url)
  }

  /** What it is to do wrong from now on. */
  async faults(fault: object): Promise<void> {
    const answer = await fetch(`${this.url}/faults`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(fault),
    })
    if (!answer.ok) throw new Error(`the gateway does not take the fault: ${await answer.text()}`)
  }

  async heal(): Promise<void> {
    await fetch(`${this.url}/faults`, { method: 'DELETE' })
  }

  async stop(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return
    const ended = once(this.child, 'exit')
    this.child.kill('SIGTERM')
    await ended
  }
}

// biome-ignore lint/suspicious/noExplicitAny: what a route answers is what the tests look into
export type Shown = any

export interface RigOptions {
  gatewayUrl: string
  env?: Record<string, string>
  /** A folder of an earlier rig, as a server that is started again has it. */
  folder?: string
  hasWorker?: boolean
  /** Another time than the real one. */
  clock?: Clock
}

/** The app on a real server, with a real store and files, in this process; so small its waits that nobody waits for them. */
export class Rig {
  readonly app: App
  readonly folder: string
  readonly url: string
  readonly log: ReturnType<typeof keepingLog>

  private constructor(app: App, folder: string, url: string, log: ReturnType<typeof keepingLog>) {
    this.app = app
    this.folder = folder
    this.url = url
    this.log = log
  }

  static async open({ gatewayUrl, env = {}, folder = temporary(), hasWorker = true, clock }: RigOptions): Promise<Rig> {
    const log = keepingLog()
    const app = redress({ store: `sqlite:${join(folder, 'redress.db')}`, log, ...(clock !== undefined && { clock }) })
    const installed = await pdfXml.install(app, {
      home: join(folder, 'pdf-xml'),
      env: {
        GATEWAY_URL: gatewayUrl,
        RETRY_BASE_DELAY_MS: '20',
        RETRY_JITTER_MAX_MS: '5',
        CIRCUIT_COOLDOWN_MS: '200',
        // Nothing is to be refused because the machine of the test has little room.
        DISK_FREE_SOFT_MB: '0',
        DISK_FREE_HARD_MB: '0',
        ...env,
      },
      log,
    })
    const server = await startServer({ app, port: 0, mounts: [installed.mount ?? (() => undefined)], log })
    await server.ready
    if (hasWorker)
      await app.work({ log, pollMs: 20, maintenanceMs: 100, onOutcome: outcomeLog(log, { complete: 'info' }) })
    onTestFinished(async () => {
      await server.stop({ graceMs: 0 })
      await app.stop({ graceMs: 5_000 })
      await installed.stop?.()
    })
    return new Rig(app, folder, server.url, log)
  }

  visitor(): Visitor {
    return new Visitor(this.url)
  }

  lines(event: string): LogLine[] {
    return this.log.lines.filter(({ fields }) => fields.event === event)
  }

  files(which: 'uploads' | 'results'): string[] {
    return readdirSync(join(this.folder, 'pdf-xml', which)).filter((name) => !name.startsWith('.'))
  }

  until(id: string, status: string): Promise<unknown> {
    return until(`job ${id} is ${status}`, async () => (await this.app.jobs.find(id))?.status === status)
  }
}

export function temporary(): string {
  const folder = mkdtempSync(join(tmpdir(), 'redress-pdf-xml-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

export interface Answer {
  status: number
  headers: Headers
  json: Shown
  text: string
}

/** Somebody with a browser, who has not signed in. */
export class Visitor {
  readonly #url: string
  cookie = ''

  constructor(url: string) {
    this.#url = url
  }

  async ask(path: string, init: RequestInit = {}): Promise<Answer> {
    const answer = await fetch(this.#url + path, {
      redirect: 'manual',
      ...init,
      headers: { origin: this.#url, ...(this.cookie !== '' && { cookie: this.cookie }), ...init.headers },
    })
    const [set] = answer.headers.getSetCookie()
    if (set !== undefined) this.cookie = set.split(';')[0] ?? ''
    const text = await answer.text()
    const isJson = answer.headers.get('content-type')?.startsWith('application/json') ?? false
    return { status: answer.status, headers: answer.headers, text, json: isJson ? JSON.parse(text) : null }
  }

  upload(content: Uint8Array, { mapping = 'text', name = 'report.pdf' } = {}): Promise<Answer> {
    // Put together by hand: fetch takes long over a large form.
    const file = `--x-x\r\ncontent-disposition: form-data; name="file"; filename="${name}"\r\n\r\n`
    const rest = `\r\n--x-x\r\ncontent-disposition: form-data; name="mapping"\r\n\r\n${mapping}\r\n--x-x--\r\n`
    return this.ask('/api/upload', {
      method: 'POST',
      body: Buffer.concat([Buffer.from(file), content, Buffer.from(rest)]),
      headers: { 'content-type': 'multipart/form-data; boundary=x-x' },
    })
  }

  /** The id of a job that was made of this. */
  async uploaded(content: Uint8Array, options?: { mapping?: string; name?: string }): Promise<string> {
    const { status, json, text } = await this.upload(content, options)
    if (status !== 201) throw new Error(`the upload was answered ${status}: ${text}`)
    return json.id
  }

  async job(id: string): Promise<Shown> {
    return (await this.ask(`/api/jobs/${id}`)).json
  }

  download(id: string): Promise<Answer> {
    return this.ask(`/api/jobs/${id}/download`)
  }

  retry(id: string): Promise<Answer> {
    return this.ask(`/api/jobs/${id}/retry`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ reason: 'once more' }),
    })
  }
}

/** A small PDF; the same words give other bytes each time, unless an id is given. */
export async function pdfSaying(words: string): Promise<Uint8Array> {
  const document = await PDFDocument.create({ updateMetadata: false })
  const font = await document.embedFont(StandardFonts.Helvetica)
  document.addPage().drawText(words, { x: 50, y: 700, size: 12, font })
  return document.save()
}
