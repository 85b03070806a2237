import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, onTestFinished } from 'vitest'
import { App } from '../../../packages/redress/src/app/app.ts'
import { startServer } from '../../../packages/redress/src/http/index.ts'
import type { Worker } from '../../../packages/redress/src/worker/worker.ts'
import { Client, tokensOfEverybody } from '../../../test/support/apps/client.ts'
import { keepingLog } from '../../../test/support/scene.ts'
import { until } from '../../../test/support/until.ts'
import { openProxx } from '../src/install.ts'
import { type Proxx, submitSpec } from '../src/operations.ts'
import { proxxRoutes } from '../src/routes.ts'
import type { ProxxJob } from '../src/view.ts'

export type Line = Record<string, unknown>

interface RigOptions {
  env?: Record<string, string>
  /** Where the store is, instead of in a folder of its own. */
  home?: string
}

/** Proxx on a store in a file, in real time, with a worker that a test drives. */
export class Rig {
  readonly folder: string
  readonly home: string
  readonly app: App
  readonly proxx: Proxx
  readonly log = keepingLog()
  /** Where its server is, once it serves. */
  url = ''
  #worker: Worker | null = null
  #outputs = 0

  constructor({ env = {}, home }: RigOptions = {}) {
    this.folder = mkdtempSync(join(tmpdir(), 'redress-proxx-'))
    this.home = home ?? this.folder
    this.app = new App({ store: `sqlite:${join(this.home, 'redress.db')}`, log: this.log })
    // Nothing is to be refused because the machine of the test has little room.
    const installContext = { home: join(this.home, 'proxx'), env: { PROXX_FREE_MB: '0', ...env }, log: this.log }
    this.proxx = openProxx(this.app, installContext)
    this.proxx.files.follow()
  }

  /** For all tests of a file. */
  static open(options?: RigOptions): Rig {
    const rig = new Rig(options)
    afterAll(() => rig.end())
    return rig
  }

  /** For one test. */
  static forTest(options?: RigOptions): Rig {
    const rig = new Rig(options)
    onTestFinished(() => rig.end())
    return rig
  }

  async end(): Promise<void> {
    await this.app.stop({ graceMs: 0 })
    await this.proxx.files.stop()
    rmSync(this.folder, { recursive: true, force: true })
  }

  path(name: string): string {
    return join(this.folder, name)
  }

  /** An output directory that nobody else uses. */
  output(): string {
    const directory = this.path(`out-${this.#outputs++}`)
    mkdirSync(directory)
    return directory
  }

  spec(sources: readonly string[], more: object = {}): { output: { directory: string; naming: string } } & Line {
    const output = { directory: this.output(), naming: '{source_name}_{index}' }
    return { version: 1, sources, profile: 'proxy_h264_low', output, ...more }
  }

  async submit(spec: unknown): Promise<ProxxJob> {
    return (await submitSpec(this.proxx, spec, { actor: 'ann' })).job
  }

  async worker(): Promise<Worker> {
    // It does nothing but when it is told to: a test may still change what a job will find.
    this.#worker ??= await this.app.makeWorker({ id: 'node-1', log: this.log, pollMs: 600_000 })
    return this.#worker
  }

  async job(id: string): Promise<ProxxJob> {
    const view = await this.proxx.files.view(id)
    if (view === null) throw new Error(`there is no job ${id}`)
    return view
  }

  /** Has it run to its end. */
  async ended(id: string, worker?: Worker): Promise<ProxxJob> {
    const one = worker ?? (await this.worker())
    return until(`job ${id} has ended`, async () => {
      await one.tick()
      const job = await this.job(id)
      return job.finishedAt !== null && job
    })
  }

  /** Submits a spec and has it run to its end. */
  async done(spec: unknown): Promise<ProxxJob> {
    return this.ended((await this.submit(spec)).id)
  }

  /** The failure log. */
  lines(id?: string): Line[] {
    const text = readFileSync(join(this.home, 'failures.jsonl'), 'utf8').trimEnd()
    const all = text.split('\n').map((line) => JSON.parse(line) as Line)
    return id === undefined ? all : all.filter(({ job_id }) => job_id === id)
  }

  failureLine(id: string): Line {
    const lines = this.lines(id).filter(({ to, from }) => to === 'failed' && from !== 'failed')
    if (lines.length !== 1) throw new Error(`job ${id} has ${lines.length} failures in the log`)
    return lines[0] as Line
  }

  file(id: string): Line {
    return JSON.parse(readFileSync(this.proxx.files.pathOf(id), 'utf8')) as Line
  }

  stderr(id: string): string {
    return readFileSync(join(this.proxx.settings.jobs, id, 'stderr.log'), 'utf8')
  }

  /** A real server before the same app, and people who may ask it. */
  async serve(): Promise<Record<'ann' | 'bob' | 'viewer' | 'operator', Client>> {
    const server = await startServer({ app: this.app, port: 0, mounts: [proxxRoutes(this.proxx)], log: this.log })
    await server.ready
    this.url = server.url
    afterAll(() => server.stop({ graceMs: 0 }))
    const tokens = await tokensOfEverybody(this.app)
    const client = (name: string) => new Client(server.url, String(tokens[name]))
    return { ann: client('ann'), bob: client('bob'), viewer: client('viewer'), operator: client('operator') }
  }
}

/** What lies in a folder, without the lock. */
export const filesIn = (folder: string): string[] => readdirSync(folder).toSorted()
