import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterAll } from 'vitest'
import { type App, redress } from '../../../packages/redress/src/app/app.ts'
import { startServer } from '../../../packages/redress/src/http/index.ts'
import type { Store } from '../../../packages/redress/src/store/contract/store.ts'
import { type Answer, Client, type Shown, tokensOfEverybody } from '../../../test/support/apps/client.ts'
import { keepingLog } from '../../../test/support/scene.ts'
import { OriginServer } from '../../../test/support/servers/origin-server.ts'
import { until } from '../../../test/support/until.ts'
import { type FetchboxOptions, fetchboxApp } from '../src/index.ts'

export interface RigOptions extends FetchboxOptions {
  env?: Record<string, string>
  store?: string | Store
  /** False: jobs wait until `work` is called. */
  isWorking?: boolean
  /** Waits between the tries of an ingest are only noted. */
  pauses?: number[]
}

/** Who may be asked for what. */
type Name = 'ann' | 'bob' | 'viewer' | 'operator' | 'nobody'

/** The app on a real server in this process, with an origin on the loopback that it may reach. */
export class Rig {
  readonly app: App
  readonly origin: OriginServer
  readonly folder: string
  readonly url: string
  readonly log: ReturnType<typeof keepingLog>
  readonly #tokens: Readonly<Record<string, string>>

  private constructor(
    fields: Pick<Rig, 'app' | 'origin' | 'folder' | 'url' | 'log'>,
    tokens: Readonly<Record<string, string>>,
  ) {
    this.app = fields.app
    this.origin = fields.origin
    this.folder = fields.folder
    this.url = fields.url
    this.log = fields.log
    this.#tokens = tokens
  }

  /** For all tests of a file. */
  static async open({ env = {}, store, isWorking = true, pauses, ...given }: RigOptions = {}): Promise<Rig> {
    const folder = mkdtempSync(join(tmpdir(), 'redress-fetchbox-'))
    const origin = await OriginServer.start()
    const log = keepingLog()
    const app = redress({ store: store ?? 'sqlite::memory:', log })
    const pause = async (ms: number) => void pauses?.push(ms)
    const module = fetchboxApp({ ...(pauses !== undefined && { pause }), ...given })
    const installed = await module.install(app, {
      home: join(folder, 'fetchbox'),
      env: {
        FETCHBOX_ALLOW: origin.address,
        FETCHBOX_RETRY_BASE_MS: '1',
        // Nothing is to be refused because the machine of the test has little room.
        DISK_FREE_SOFT_MB: '0',
        DISK_FREE_HARD_MB: '0',
        ...env,
      },
      log,
    })
    const server = await startServer({ app, port: 0, mounts: [installed.mount ?? (() => undefined)], log })
    await server.ready
    afterAll(async () => {
      await server.stop({ graceMs: 0 })
      await app.stop({ graceMs: 5_000 })
      await installed.stop?.()
      await origin.stop()
      rmSync(folder, { recursive: true, force: true })
    })
    const rig = new Rig({ app, origin, folder, url: server.url, log }, await tokensOfEverybody(app))
    if (isWorking) await rig.work()
    return rig
  }

  work(): Promise<unknown> {
    return this.app.work({ pollMs: 10 })
  }

  as(name: Name): FetchboxClient {
    return new FetchboxClient(this.url, this.#tokens[name] ?? null)
  }

  /** Accepted, as ann's; nothing is waited for. */
  async submit(resources: readonly object[], headers: Record<string, string> = {}, more: object = {}): Promise<string> {
    const { status, json, text } = await this.as('ann').submit({ resources, ...more }, headers)
    if (status !== 202) throw new Error(`the job was answered ${status}: ${text}`)
    return json.id
  }

  async snapshot(id: string): Promise<Shown> {
    return (await this.as('operator').get(`/fetchbox/jobs/${id}`)).json
  }

  /** When all its resources, and its handler's last word, are over. */
  settled(id: string): Promise<Shown> {
    return until('the job is over', async () => {
      const shown = await this.snapshot(id)
      const isOver = !['queued', 'processing'].includes(shown.status)
      const isFinal = shown.finalize === null || ['complete', 'failed'].includes(shown.finalize.status)
      return isOver && isFinal ? shown : null
    })
  }

  async run(resources: readonly object[], headers?: Record<string, string>, more?: object): Promise<Shown> {
    return this.settled(await this.submit(resources, headers, more))
  }

  async resources(id: string, query = ''): Promise<Shown[]> {
    return (await this.as('operator').get(`/fetchbox/jobs/${id}/resources${query}`)).json.resources
  }
}

/** A client of the routes of fetchbox. */
export class FetchboxClient extends Client {
  async bytes(path: string): Promise<Uint8Array> {
    return new Uint8Array(await (await this.fetch(path)).arrayBuffer())
  }

  delete(path: string): Promise<Answer> {
    return this.ask(path, { method: 'DELETE' })
  }

  send(path: string, body: string | Uint8Array, headers: Record<string, string> = {}): Promise<Answer> {
    const json = { 'content-type': 'application/json', ...headers }
    return this.ask(path, { method: 'POST', body: typeof body === 'string' ? body : Buffer.from(body), headers: json })
  }

  submit(body: unknown, headers: Record<string, string> = {}): Promise<Answer> {
    return this.send('/fetchbox/jobs', JSON.stringify(body), headers)
  }

  submitGzip(bytes: string | Uint8Array): Promise<Answer> {
    return this.send('/fetchbox/jobs', gzipSync(bytes), { 'content-encoding': 'gzip' })
  }
}
