import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from 'vitest'
import type { App } from '../../../packages/redress/src/app/app.ts'
import { type InstalledApp, startServer } from '../../../packages/redress/src/http/index.ts'
import { type TestKit, testKit } from '../../../packages/redress/src/testing/index.ts'
import { type Answer, Client, type Shown, tokensOfEverybody } from '../../../test/support/apps/client.ts'
import { keepingLog } from '../../../test/support/scene.ts'
import { until } from '../../../test/support/until.ts'
import { watermarkApp } from '../src/index.ts'
import type { Media } from '../src/media.ts'
import { StandIn, VIDEO } from './stand-in.ts'

export interface RigOptions {
  env?: Record<string, string>
  media?: Media
}

/** The app on a real server in this process, in a time that stands still until a test moves it. */
export class Rig {
  readonly kit: TestKit
  readonly app: App
  readonly media: StandIn
  readonly folder: string
  readonly url: string
  readonly installed: InstalledApp
  readonly log: ReturnType<typeof keepingLog>
  readonly tokens: Readonly<Record<string, string>>

  private constructor(
    fields: Pick<Rig, 'kit' | 'app' | 'media' | 'folder' | 'url' | 'installed' | 'log'>,
    tokens: Readonly<Record<string, string>>,
  ) {
    const { kit, app, media, folder, url, installed, log } = fields
    this.kit = kit
    this.app = app
    this.media = media
    this.folder = folder
    this.url = url
    this.installed = installed
    this.log = log
    this.tokens = tokens
  }

  /** For all tests of a file. */
  static async open({ env = {}, media }: RigOptions = {}): Promise<Rig> {
    const folder = mkdtempSync(join(tmpdir(), 'redress-watermark-'))
    const log = keepingLog()
    const kit = testKit({ log, startMs: Date.UTC(2030, 0, 1) })
    const { app } = kit
    const standIn = new StandIn()
    const module = watermarkApp({ media: media ?? standIn })
    // Nothing is to be refused because the machine of the test has little room.
    const space = { DISK_FREE_SOFT_MB: '0', DISK_FREE_HARD_MB: '0' }
    const installed = await module.install(app, { home: join(folder, 'watermark'), env: { ...space, ...env }, log })
    const server = await startServer({ app, port: 0, mounts: [installed.mount ?? (() => undefined)], log })
    await server.ready
    afterAll(async () => {
      await server.stop({ graceMs: 0 })
      await kit.stop()
      await installed.stop?.()
      rmSync(folder, { recursive: true, force: true })
    })
    const fields = { kit, app, media: standIn, folder, url: server.url, installed, log }
    return new Rig(fields, await tokensOfEverybody(app))
  }

  as(name: 'ann' | 'bob' | 'viewer' | 'operator' | 'nobody'): WatermarkClient {
    return new WatermarkClient(this.url, this.tokens[name] ?? null)
  }

  /** Lets everything happen that is due, and waits for files that are read and written meanwhile. Time stands still. */
  async idle(): Promise<void> {
    await until('nothing runs any more', async () => {
      await this.kit.tick()
      const { jobs } = await this.app.jobs.list({ limit: 1_000 })
      const nowMs = this.kit.clock.nowMs()
      return !jobs.some(
        ({ status, retryAfter, queue }) =>
          status === 'processing' ||
          (status === 'queued' && queue === 'watermark' && Date.parse(retryAfter ?? '1970') <= nowMs),
      )
    })
  }

  async advance(duration: string): Promise<void> {
    await this.kit.advance(duration)
    await this.idle()
  }

  /** That an attempt began is told with its end when it is quick: it says nothing here. */
  async history(id: string): Promise<string[]> {
    return (await this.kit.history(id)).filter((kind) => kind !== 'started')
  }

  copies(): string[] {
    return readdirSync(join(this.folder, 'watermark/copies')).filter((name) => !name.startsWith('.'))
  }

  workLeft(): string[] {
    return readdirSync(join(this.folder, 'watermark/work'))
  }

  /** A draft of ann's with these recipients, and the asset it is made from. */
  async draft(names: readonly string[], more: object = {}, content: Uint8Array = VIDEO): Promise<Shown> {
    const ann = this.as('ann')
    const asset = await ann.upload('/assets', content, 'spring.mov')
    if (asset.status !== 201) throw new Error(`the upload was answered ${asset.status}: ${asset.text}`)
    const recipients = names.map((name) => ({ name, email: `${name.toLowerCase()}@example.org` }))
    const made = await ann.post('/campaigns', { assetId: asset.json.id, name: 'Spring', recipients, ...more })
    if (made.status !== 201) throw new Error(`the draft was answered ${made.status}: ${made.text}`)
    return made.json
  }

  /** The same, published; nothing has run yet. */
  async published(names: readonly string[], more?: object, content?: Uint8Array): Promise<Shown> {
    const { id } = await this.draft(names, more, content)
    const { json, status, text } = await this.as('ann').post(`/campaigns/${id}/publish`)
    if (status !== 200) throw new Error(`the publish was answered ${status}: ${text}`)
    return json
  }

  async campaign(id: string): Promise<Shown> {
    return (await this.as('ann').get(`/campaigns/${id}`)).json
  }
}

/** A client of the routes of watermark. */
export class WatermarkClient extends Client {
  /** As a page without script sends it. */
  form(path: string, fields: Record<string, string> = {}): Promise<Answer> {
    const headers = { accept: 'text/html', 'content-type': 'application/x-www-form-urlencoded' }
    return this.ask(path, { method: 'POST', body: new URLSearchParams(fields).toString(), headers })
  }

  upload(path: string, content: Uint8Array, name: string): Promise<Answer> {
    const form = new FormData()
    form.append('file', new Blob([Buffer.from(content)]), name)
    return this.ask(path, { method: 'POST', body: form })
  }
}
