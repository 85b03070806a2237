import type { BrowserContext, BrowserContextOptions, Page } from 'playwright-core'
import { expect, onTestFinished } from 'vitest'
import { openChromium } from '../../../../test/support/browser/chromium.ts'

const PAGE_MS_MAX = 30_000

interface Visiting extends BrowserContextOptions {
  baseURL: string
  /** Before the page is opened: signs them in, for instance. */
  prepare?: (context: BrowserContext) => Promise<unknown>
}

/** Somebody who opens a page of an app with a browser of their own. What the page breaks of its own rules fails the test. */
export async function visitor(path: string, { prepare, ...options }: Visiting): Promise<Page> {
  const browser = await openChromium()
  const context = await browser.newContext({ locale: 'en-US', reducedMotion: 'reduce', ...options })
  await prepare?.(context)
  const page = await context.newPage()
  const troubles: string[] = []
  page.on('pageerror', (error) => troubles.push(String(error)))
  page.on('dialog', (dialog) => troubles.push(`a dialog: ${dialog.message()}`))
  page.on('console', (said) => {
    if (/Content Security Policy/.test(said.text())) troubles.push(said.text())
  })
  onTestFinished(async () => {
    await context.close()
    expect(troubles).toEqual([])
  })
  page.setDefaultTimeout(PAGE_MS_MAX)
  await page.goto(path)
  return page
}
