import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { BrowserContextOptions, Page } from 'playwright-core'
import type { App } from 'redress'
import { type HttpServer, type ServerOptions, startServer } from 'redress/http'
import { TestKit } from 'redress/testing'
import { openChromium } from '../../../../test/support/browser/chromium.ts'
import { openSqlite } from '../../src/store/sqlite/store.ts'
import { STORY_MS, tellStory } from './story.ts'

type DeskRole = 'viewer' | 'operator' | 'admin' | 'owner'

/** A server with its pages, and people who look at them in a real browser. */
export interface Desk {
  app: App
  kit: TestKit
  server: HttpServer
  /** What went wrong within the pages: what a script threw, and what the policy of the server did not let run. */
  troubles: string[]
  /** A page of somebody who has signed in. */
  open(path: string, options?: OpenOptions): Promise<Page>
  close(): Promise<void>
}

interface OpenOptions {
  as?: DeskRole
  /** What the audit trail calls them. */
  name?: string
  context?: BrowserContextOptions
}

export interface DeskOptions {
  /** What happened before anybody looks. */
  story?: (kit: TestKit) => Promise<void>
  server?: Partial<ServerOptions>
}

const NAMES: Readonly<Record<DeskRole, string>> = { viewer: 'vera', operator: 'olga', admin: 'adam', owner: 'ann' }
const PAGE_MS_MAX = 30_000

export async function openDesk({ story = tellStory, server: serverOptions = {} }: DeskOptions = {}): Promise<Desk> {
  const folder = mkdtempSync(join(tmpdir(), 'redress-desk-'))
  const kit = new TestKit({
    // The story ends about now: a browser counts ages by its own clock.
    startMs: Date.now() - STORY_MS,
    store: ({ nowMs }) => openSqlite({ path: join(folder, 'redress.db'), nowMs }),
  })
  await story(kit)
  const { app } = kit
  const server = await startServer({ app, port: 0, ...serverOptions })
  await server.ready
  const pages: Page[] = []
  const troubles: string[] = []
  return {
    ...{ app, kit, server, troubles },
    async open(path, { as = 'operator', name = NAMES[as], context: options = {} } = {}) {
      const browser = await openChromium()
      const own = { locale: 'en-US', reducedMotion: 'reduce', baseURL: server.url } as const
      const context = await browser.newContext({ ...own, ...options })
      const asOwner = as === 'owner' ? { account: 'ann' } : {}
      const { code } = await app.perform('sign-in-links.create', { role: as, name, ...asOwner, actor: 'adam' })
      await context.request.post('/sign-in', { data: { code }, headers: { origin: server.url } })
      const page = await context.newPage()
      pages.push(page)
      page.on('pageerror', (error) => troubles.push(String(error)))
      page.on('console', (said) => {
        if (/Content Security Policy/.test(said.text())) troubles.push(said.text())
      })
      page.setDefaultTimeout(PAGE_MS_MAX)
      await page.goto(path)
      return page
    },
    async close() {
      for (const page of pages) await page.context().close()
      await server.stop({ graceMs: 100 })
      await app.stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
