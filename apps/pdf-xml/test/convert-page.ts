import { closeSync, ftruncateSync, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import type { BrowserContextOptions, Locator, Page } from 'playwright-core'
import { visitor } from '../../../packages/redress/test/browser/visitor.ts'
import { until } from '../../../test/support/until.ts'
import { type Rig, temporary } from './rig.ts'

/** Somebody who has come to `/convert` with a browser of their own. */
export async function visit(rig: Rig, path = '/convert', options: BrowserContextOptions = {}): Promise<Page> {
  return visitor(path, { baseURL: rig.url, ...options })
}

interface SentFile {
  name: string
  content: Uint8Array | string
}

const asPayload = ({ name, content }: SentFile) => ({ name, mimeType: 'application/pdf', buffer: Buffer.from(content) })

export const choose = (page: Page, ...files: SentFile[]): Promise<void> =>
  page.locator('input[type=file]').setInputFiles(files.map(asPayload))

/** As if they were dragged from a folder onto the page. */
export async function drop(page: Page, ...files: SentFile[]): Promise<void> {
  const given = files.map(({ name, content }) => ({ name, base64: Buffer.from(content).toString('base64') }))
  await page.evaluate(`{
    const transfer = new DataTransfer()
    for (const { name, base64 } of ${JSON.stringify(given)}) {
      transfer.items.add(new File([Uint8Array.from(atob(base64), (c) => c.charCodeAt(0))], name))
    }
    const on = document.querySelector('.drop')
    for (const kind of ['dragover', 'drop']) {
      on.dispatchEvent(new DragEvent(kind, { dataTransfer: transfer, bubbles: true, cancelable: true }))
    }
  }`)
}

/** One byte more than may be; nearly all of it is a hole that takes no room. */
export function tooLargeFile(): string {
  const path = join(temporary(), 'huge.pdf')
  const file = openSync(path, 'w')
  writeSync(file, '%PDF-1.7\n')
  ftruncateSync(file, 50 * 2 ** 20 + 1)
  closeSync(file)
  return path
}

export const rowOf = (page: Page, name: string): Locator => page.locator('#rows .row').filter({ hasText: name })

/** Waits until the row of a file says so by itself. */
export const comesToSay = (page: Page, name: string, said: string | RegExp): Promise<void> =>
  rowOf(page, name).locator('.standing', { hasText: said }).waitFor()

/** The same without waiting for the page's next turn to ask: it is told that it may have missed something. */
export async function untilSaid(page: Page, name: string, said: string | RegExp): Promise<void> {
  const found = rowOf(page, name).locator('.standing', { hasText: said })
  await until(
    `${name} says ${said}`,
    async () => {
      if ((await found.count()) > 0) return true
      await page.evaluate(`dispatchEvent(new Event('online'))`)
      return false
    },
    { everyMs: 50 },
  )
}

/** How often the page has asked how things stand. */
export function countPolls(page: Page): () => number {
  let polls = 0
  page.on('request', (request) => {
    if (request.url().includes('/convert/state')) polls++
  })
  return () => polls
}
