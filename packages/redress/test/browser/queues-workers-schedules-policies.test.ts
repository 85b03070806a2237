import { expect, test } from 'vitest'
import { expectAccessible } from '../../../../test/support/browser/axe.ts'
import { until } from '../../../../test/support/until.ts'
import { act, told } from './actions.ts'
import { makeDesk } from './desk.ts'

test('a queue is paused for a time and resumed, and shows actor and reason', async () => {
  const desk = await makeDesk()
  const page = await desk.open('/queues')
  const mail = page.getByRole('region', { name: 'mail' })
  await mail.getByText('running', { exact: true }).waitFor()
  await mail.getByText('at most 5 at once').waitFor()
  await expectAccessible(page)
  const preview = await act(page, {
    open: 'Pause',
    within: 'section[aria-labelledby="queue-mail"]',
    fields: { 'For how long': '30m' },
    reason: 'the provider asked us to',
    verb: 'Pause',
  })
  expect(preview).toContain('pauses queue mail')
  await mail.getByText(/Paused by olga .*: the provider asked us to/).waitFor()
  await act(page, { open: 'Resume', within: 'section[aria-labelledby="queue-mail"]', verb: 'Resume' })
  await mail.getByText('running', { exact: true }).waitFor()
})

test('a queue with jobs but no worker is shown first', async () => {
  const desk = await makeDesk({
    story: async ({ app }) => {
      app.job('lonely', { run: () => null })
      await app.submit('lonely', {})
    },
  })
  for (const path of ['/', '/queues']) {
    const page = await desk.open(path)
    await page.getByRole('alert').getByText('Jobs wait, and no worker runs them.').waitFor()
    await page.getByRole('alert').getByText('lonely').waitFor()
  }
})

test('long names do not make a page wider than its window', async () => {
  const desk = await makeDesk({
    story: async (kit) => {
      const run = () => {
        throw new Error('W'.repeat(300))
      }
      const { app } = kit
      app.job(`long.${'x'.repeat(70)}`, { queue: 'q'.repeat(60), policy: { deadLetter: 'queue' }, run })
      await app.submit(`long.${'x'.repeat(70)}`, { note: 'S'.repeat(300) }, { owner: 'o'.repeat(90) })
      await kit.tick()
    },
  })
  const page = await desk.open('/')
  for (const path of ['/', '/failures', '/jobs', '/queues', '/workers', '/policies', '/dead-letters']) {
    await page.goto(path)
    await page.getByText('xxxxx').first().waitFor()
    for (const width of [1280, 360]) {
      await page.setViewportSize({ width, height: 800 })
      // A chart takes its new width a moment after the window has.
      await until(`${path} fits a window of ${width}`, async () => {
        return (await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')) <= 0
      })
    }
  }
})

test('workers are shown with their types, and stopped ones on request', async () => {
  const desk = await makeDesk()
  const page = await desk.open('/workers')
  await page
    .getByText('No worker is at work.')
    .or(page.getByRole('table', { name: 'Workers' }))
    .first()
    .waitFor()
  await page.getByRole('link', { name: 'Also those that are gone' }).click()
  const gone = page.getByRole('row').filter({ hasText: 'silent' })
  await gone.first().waitFor()
  await expectAccessible(page)
})

test('a schedule is paused, resumed and triggered', async () => {
  const desk = await makeDesk()
  const page = await desk.open('/schedules')
  const nightly = page.getByRole('row').filter({ hasText: 'nightly-report' })
  await nightly.getByText('0 3 * * *').waitFor()
  await act(page, { open: 'Pause', verb: 'Pause', reason: 'month end' })
  await nightly.getByText('by olga: month end').waitFor()
  await act(page, { open: 'Resume', verb: 'Resume' })
  await nightly.getByRole('button', { name: 'Pause' }).waitFor()
  await act(page, { open: 'Run now', verb: 'Run now' })
  await told(page)
    .getByText(/nightly-report/)
    .last()
    .waitFor()
  await nightly.getByText('queued').waitFor()
  await expectAccessible(page)
})

test('a runtime schedule is found by its name and removed', async () => {
  const desk = await makeDesk()
  const by = { actor: 'olga', reason: 'a test' }
  for (const n of [17, 18]) {
    const asked = { every: '90s', count: 5, jitter: '10s', job: 'mail.send', owner: `customer-${n}`, ...by }
    await desk.app.schedules.upsert(`report:customer-${n}`, asked)
  }
  const page = await desk.open('/schedules')
  await page.getByLabel('Search').fill('customer-17')
  await page.getByLabel('Search').press('Enter')
  const row = page.getByRole('row').filter({ hasText: 'report:customer-17' })
  await row.getByText('every 1m30s').waitFor()
  await row.getByText('0 of 5 runs').waitFor()
  await page.getByRole('row').filter({ hasText: 'report:customer-18' }).waitFor({ state: 'detached' })
  await expectAccessible(page)
  await act(page, { open: 'Remove', verb: 'Remove' })
  await page.getByText('No matching schedules.').waitFor()
  await page.getByRole('link', { name: 'Show all' }).click()
  await page.getByRole('row').filter({ hasText: 'report:customer-18' }).waitFor()
})

test('a policy is shown field by field and previewed', async () => {
  const desk = await makeDesk()
  const page = await desk.open('/policies')
  await page.getByRole('row').filter({ hasText: 'pdf.convert' }).getByText('up to 3 times').waitFor()
  await expectAccessible(page)
  await page.getByRole('link', { name: 'pdf.convert' }).click()
  await page.getByRole('row').filter({ hasText: 'retry.max' }).getByText('3').waitFor()
  // The first answer also fills the field. It must not come between the selection of the old text and the new text.
  const steps = page.getByRole('table', { name: 'What the policy of pdf.convert would do' })
  await steps.waitFor()
  await page.getByLabel('If attempts end like this').fill('GW_5XX,crash,ok')
  await page.getByRole('button', { name: 'Try it' }).click()
  await steps.getByRole('row').filter({ hasText: 'crash' }).waitFor()
  expect(await steps.getByRole('row').count()).toBe(4)
  expect(page.url()).toContain('failures=GW_5XX')
  await expectAccessible(page)
  await page.getByLabel('If attempts end like this').fill('NO_SUCH')
  await page.getByRole('button', { name: 'Try it' }).click()
  await page
    .getByRole('alert')
    .getByText(/NO_SUCH/)
    .waitFor()
})
