import type { BrowserContext, BrowserContextOptions, Locator, Page } from 'playwright-core'
import { visitor } from '../../../packages/redress/test/browser/visitor.ts'
import type { Rig } from './rig.ts'

export const WITHOUT_SCRIPT = { javaScriptEnabled: false } as const

interface VisitOptions {
  as?: 'ann' | 'bob' | 'viewer' | 'operator' | 'nobody'
  context?: BrowserContextOptions
}

/** Somebody with a browser of their own, who has signed in as people do. */
export async function visit(rig: Rig, path: string, { as = 'ann', context: options = {} }: VisitOptions = {}) {
  const signedIn = async (context: BrowserContext) =>
    context.request.post('/sign-in', { data: { code: await signInCode(rig, as) }, headers: { origin: rig.url } })
  return visitor(path, { baseURL: rig.url, ...options, ...(as !== 'nobody' && { prepare: signedIn }) })
}

export async function signInCode({ app }: Rig, as: NonNullable<VisitOptions['as']>): Promise<string> {
  const who =
    as === 'viewer' || as === 'operator'
      ? ({ role: as, name: as } as const)
      : ({ role: 'owner', name: as, account: as } as const)
  const { code } = await app.perform('sign-in-links.create', { ...who, actor: 'adam' })
  return String(code)
}

export const rowOf = (page: Page, name: string): Locator => page.locator('#rows > *').filter({ hasText: name })
export const badgeOf = (page: Page, name: string): Locator => rowOf(page, name).locator('.status-badge')

/** Waits until a row says so by itself: nobody loads the page. */
export const comesToSay = (page: Page, name: string, badge: string | RegExp): Promise<void> =>
  rowOf(page, name).locator('.status-badge', { hasText: badge }).waitFor()

interface Streams {
  /** How often the page opened a stream of events. */
  opened(): number
  /** How often it asked for what has changed. */
  asked(): number
}

/** Counts what a page does behind its reader's back. To be called before it is loaded. */
export function watch(page: Page): Streams {
  let [opened, asked] = [0, 0]
  page.on('request', (request) => {
    if (request.url().includes('/api/events')) opened++
  })
  page.on('response', (response) => {
    if (/\/state\?/.test(response.url()) && response.ok()) asked++
  })
  return { opened: () => opened, asked: () => asked }
}
