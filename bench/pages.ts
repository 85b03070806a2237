import { redress } from 'redress'
import { startServer } from 'redress/http'
import { closeChromium, openChromium } from '../test/support/browser/chromium.ts'
import { fillWithJobs } from './listing.ts'
import type { Place } from './places.ts'

/** How long a browser takes, from the address to what one came for, in a store of a million jobs. */

const ROUNDS = 5

const PAGES = {
  '/': '.chart canvas',
  '/jobs': 'tbody tr',
  '/jobs?q=status:failed': 'tbody tr',
  '/jobs?q=owner:everybody status:failed': 'tbody tr',
  '/failures': 'h1',
  '/queues': 'tbody tr',
} as const

export async function measurePages(place: Place): Promise<void> {
  const fresh = await place.fresh()
  await fillWithJobs(fresh)
  const app = redress({ store: fresh.store })
  const server = await startServer({ app, port: 0, auth: 'none' })
  await server.ready
  const browser = await openChromium()
  console.log(`\nfrom the address to the first row, median of ${ROUNDS}, nothing kept by the browser, ${place.title}\n`)
  try {
    for (const [path, shown] of Object.entries(PAGES)) {
      const times: number[] = []
      for (let n = 0; n < ROUNDS; n++) {
        const context = await browser.newContext({ locale: 'en-US' })
        const page = await context.newPage()
        const beganMs = performance.now()
        await page.goto(`${server.url}${encodeURI(path)}`, { waitUntil: 'commit' })
        await page.locator(shown).first().waitFor()
        times.push(performance.now() - beganMs)
        await context.close()
      }
      const middle = times.toSorted((a, b) => a - b)[Math.floor(ROUNDS / 2)] as number
      console.log(`${path.padEnd(44)}${middle.toFixed(0).padStart(6)} ms`)
    }
  } finally {
    await closeChromium()
    await server.stop()
    await app.stop()
    await fresh.remove()
  }
}
