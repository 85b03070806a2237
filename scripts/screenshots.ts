import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { type Desk, openDesk } from '../packages/redress/test/browser/open-desk.ts'
import { closeChromium } from '../test/support/browser/chromium.ts'

/** `npm run screenshots [FOLDER]`: every page in light, in dark and on a phone, after a bad hour. */
const folder = process.argv[2] ?? join(import.meta.dirname, '../.screenshots')

const LOOKS = [
  { name: 'light', colorScheme: 'light', width: 1280 },
  { name: 'dark', colorScheme: 'dark', width: 1280 },
  { name: 'phone', colorScheme: 'light', width: 360 },
] as const

/** The pages, by the name of their picture; some are of a thing that the story made. */
async function pathsOf({ app }: Desk): Promise<Record<string, string>> {
  const [failed, groups, batches, letters, replays] = await Promise.all([
    app.perform('jobs.list', { type: 'pdf.convert', status: 'failed' }),
    app.perform('failures.list', { code: 'GW_5XX' }),
    app.perform('batches.list', {}),
    app.perform('dead-letters.list', {}),
    app.perform('replays.list', {}),
  ])
  const partial = batches.batches.find(({ state }) => state === 'partial') ?? batches.batches[0]
  return {
    overview: '/',
    failures: '/failures',
    'failure-group': `/failures/${groups.groups[0]?.fingerprint}`,
    jobs: '/jobs',
    job: `/jobs/${failed.jobs[0]?.id}`,
    batches: '/batches',
    batch: `/batches/${partial?.id}`,
    'dead-letters': '/dead-letters',
    'dead-letter': `/dead-letters/${letters.deadLetters[0]?.offset}`,
    'new-replay': '/replays/new?type=mail.send',
    replays: '/replays',
    replay: `/replays/${replays.replays[0]?.id}`,
    orphans: '/orphans',
    breakers: '/breakers',
    queues: '/queues',
    workers: '/workers?all=yes',
    schedules: '/schedules',
    policies: '/policies',
    policy: '/policies/pdf.convert',
    audit: '/audit',
  }
}

async function settled(page: Page): Promise<void> {
  await page.getByRole('heading', { level: 1 }).waitFor()
  await page.locator('.loading').waitFor({ state: 'detached' })
  await page.waitForLoadState('networkidle').catch(() => undefined)
}

mkdirSync(folder, { recursive: true })
const desk = await openDesk()
const page = await desk.open('/')
for (const [name, path] of Object.entries(await pathsOf(desk))) {
  for (const { name: look, colorScheme, width } of LOOKS) {
    await page.emulateMedia({ colorScheme })
    await page.setViewportSize({ width, height: 900 })
    // Anew for each: a chart takes its colours when it is drawn.
    await page.goto(path)
    await settled(page)
    await page.screenshot({ path: join(folder, `${name}-${look}.png`), fullPage: true })
  }
  process.stderr.write(`${name}\n`)
}
await desk.close()
await closeChromium()
