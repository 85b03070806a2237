import { text } from 'node:stream/consumers'
import type { App } from 'redress'
import { failureCodes } from 'redress'
import type { TestKit } from 'redress/testing'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { expectAccessible } from '../../../../test/support/browser/axe.ts'
import { until } from '../../../../test/support/until.ts'
import { csvOf } from '../../dashboard/src/words/csv.ts'
import { act, told } from './actions.ts'
import { numbers } from './bars.ts'
import { makeDesk } from './desk.ts'

const codes = failureCodes({
  GW_5XX: { fault: 'dependency', retry: 'never', message: 'The converter answered "503", twice.' },
  NOT_PDF: { fault: 'caller', retry: 'never', message: '=HYPERLINK("http://example.org")' },
})

const input = z.object({ does: z.enum(['work', 'GW_5XX', 'NOT_PDF', 'wait']).default('work') })
type Does = z.input<typeof input>['does']

/** A converter that is down until the test says otherwise, and one whose failures nobody may retry. */
function converters() {
  const world = { isUp: false }
  const story = async ({ app }: TestKit) => {
    const run = (
      { does }: z.output<typeof input>,
      attempt: { fail(code: keyof typeof codes): never; signal: AbortSignal },
    ) => {
      if (does === 'wait')
        return new Promise<void>((resolve) => attempt.signal.addEventListener('abort', () => resolve()))
      return does === 'work' || world.isUp ? undefined : attempt.fail(does)
    }
    app.job('pdf.convert', { input, codes, policy: { manualRetry: 'in-place' }, run })
    app.job('pdf.once', { input, codes, policy: { manualRetry: 'off' }, run })
    await app.perform('accounts.create', { name: 'ann', email: 'ann@example.org', actor: 'olga' })
  }
  return { world, story }
}

async function make(app: App, name: string, does: readonly Does[], { owner = 'ann', type = 'pdf.convert' } = {}) {
  const { id } = await app.batches.create(name, { owner, jobs: does.map((one) => ({ type, input: { does: one } })) })
  return id
}

const JOBS = 'Jobs of spring'

test('batches are listed with the outcomes of their jobs', async () => {
  const { story } = converters()
  const desk = await makeDesk({ story })
  const { app, kit } = desk
  const id = await make(app, 'spring', ['work', 'work', 'GW_5XX'])
  await make(app, 'summer', ['work'], { owner: 'bob' })
  await kit.tick()
  await make(app, 'autumn', ['work', 'work'])
  const page = await desk.open('/batches')
  const row = (name: string) => page.getByRole('row').filter({ hasText: name })
  await row('spring').getByText('PARTIAL').waitFor()
  await row('spring').getByText('some failed').waitFor()
  expect(await row('spring').getByTitle('Some jobs failed. Open the batch to review them.').count()).toBe(1)
  await row('spring').getByText('The converter answered "503", twice.').waitFor()
  await row('summer').getByText('COMPLETE', { exact: true }).waitFor()
  await row('autumn').getByText('OPEN').waitFor()
  expect(await numbers(page, JOBS)).toEqual({ complete: 2, failed: 1 })
  expect(await numbers(page, 'Jobs of autumn')).toEqual({ queued: 2 })
  const failed = row('spring').getByRole('link', { name: '1 failed' })
  expect(await failed.getAttribute('href')).toBe(`/jobs?q=${encodeURIComponent(`batch:${id} status:failed`)}`)
  await expectAccessible(page)

  // It goes on by itself, and the page with it.
  await kit.tick()
  await row('autumn').getByText('COMPLETE', { exact: true }).waitFor()
  await page.getByLabel('State').selectOption('partial')
  await until('only partial ones are there', async () => (await page.locator('[data-row]').count()) === 1)
  await page.getByRole('link', { name: 'Clear' }).click()
  await page.getByLabel('Owner').fill('bob')
  await page.getByLabel('Owner').blur()
  await until('only those of bob are there', async () => (await page.locator('[data-row]').count()) === 1)
  expect(new URL(page.url()).search).toBe('?owner=bob')
  await page.getByLabel('Name').fill('winter')
  await page.getByLabel('Name').blur()
  await page.getByText('No batch matches.').waitFor()
})

test('batches are paged', async () => {
  const { story } = converters()
  const desk = await makeDesk({ story })
  for (let i = 1; i <= 51; i++) await make(desk.app, `batch ${i}`, ['work'])
  const page = await desk.open('/batches')
  await page.getByRole('link', { name: 'batch 51' }).waitFor()
  expect(await page.locator('[data-row]').count()).toBe(50)
  await page.getByRole('link', { name: 'Next page' }).click()
  await page.getByRole('link', { name: 'batch 1', exact: true }).waitFor()
  await page.getByRole('link', { name: 'First page' }).click()
  await page.getByRole('link', { name: 'batch 51' }).waitFor()
})

test('a partial batch becomes complete after its failed jobs were retried, and the page follows', async () => {
  const { world, story } = converters()
  const desk = await makeDesk({ story })
  const { app, kit } = desk
  const id = await make(app, 'spring', ['work', 'work', 'GW_5XX', 'NOT_PDF'])
  await kit.tick()
  const page = await desk.open(`/batches/${id}`)
  await page.getByText('Of 4 jobs, 2 jobs failed, 2 of them for good; the others are complete.').waitFor()
  await page.getByText('Where some jobs are complete and some are not, the batch is partial.').waitFor()
  const codesTable = page.getByRole('table', { name: 'Failures of this batch by code' })
  expect(await codesTable.getByRole('row').filter({ hasText: 'GW_5XX' }).innerText()).toMatch(/Dependency.*1\s+1$/s)
  expect(await numbers(page, JOBS)).toEqual({ complete: 2, failed: 2, cancelled: 0, processing: 0, queued: 0 })
  await expectAccessible(page)

  // One by itself: the batch is open until it has ended, and is settled again.
  const failedTable = page.getByRole('table', { name: 'Failed jobs of this batch' })
  await failedTable.getByRole('row').filter({ hasText: 'GW_5XX' }).getByRole('button', { name: 'Retry' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('sends it back to the queue').waitFor()
  await dialog.getByLabel('Reason').fill('the gateway is back')
  await dialog.getByRole('button', { name: 'Retry' }).click()
  await page.getByText('1 job of 4 waits or runs.').waitFor()
  expect(await numbers(page, JOBS)).toEqual({ complete: 2, failed: 1, cancelled: 0, processing: 0, queued: 1 })
  world.isUp = true
  await kit.tick()
  await page.getByText('Of 4 jobs, 1 job failed').waitFor()

  const preview = await act(page, { open: 'Retry the retryable', verb: 'Retry', reason: 'it was a PDF' })
  expect(preview).toContain('1 of 1 would be retried')
  await told(page).getByText('1 of 1 were retried').waitFor()
  await kit.tick()
  await page.getByText('Every job is complete.').waitFor()
  expect(await numbers(page, JOBS)).toEqual({ complete: 4, failed: 0, cancelled: 0, processing: 0, queued: 0 })
  await page.getByText('settled, settlement 3').waitFor()
  expect(await page.getByRole('table', { name: 'Settlements of this batch' }).getByText('reopened').count()).toBe(2)
  expect(await failedTable.count()).toBe(0)
  await page
    .getByRole('button', { name: /^Retry the retryable ?: No job of this batch is failed/ })
    .click({ force: true })
  expect(await dialog.count()).toBe(0)
})

test('jobs that cannot be retried are listed with reasons, and the rest is retried', async () => {
  const { story } = converters()
  const desk = await makeDesk({ story })
  const { app, kit } = desk
  const { id } = await app.batches.create('mixed', {
    data: { campaign: '<b>7</b>' },
    jobs: ['pdf.convert', 'pdf.once'].map((type) => ({ type, input: { does: 'GW_5XX' } })),
  })
  await kit.tick()
  const once = (await app.jobs.list({ batch: id, type: 'pdf.once' })).jobs[0]?.id ?? ''
  const page = await desk.open(`/batches/${id}`)
  expect(await page.getByLabel('the data').innerText()).toContain('<b>7</b>')
  const row = page
    .getByRole('table', { name: 'Failed jobs of this batch' })
    .getByRole('row')
    .filter({ hasText: 'pdf.once' })
  await row
    .getByRole('button', { name: /It cannot be retried: its policy has manualRetry 'off'/ })
    .click({ force: true })
  expect(await page.getByRole('dialog').count()).toBe(0)

  const preview = await act(page, { open: 'Retry the retryable', verb: 'Retry' })
  expect(preview).toContain('1 of 2 would be retried')
  const dialog = page.getByRole('dialog')
  await dialog.getByText('1 of 2 were retried').waitFor()
  expect(await dialog.getByRole('listitem').allInnerTexts()).toEqual([expect.stringContaining(once)])
  await dialog.getByText(`manualRetry 'off'`).waitFor()
  await expectAccessible(page)
  await dialog.getByRole('button', { name: 'Close' }).click()
  await page.getByText('1 job of 2 waits or runs.').waitFor()
  await kit.tick()
  await page.getByText('FAILED', { exact: true }).first().waitFor()
})

test('cancelling a batch cancels its queued jobs', async () => {
  const { story } = converters()
  const desk = await makeDesk({ story })
  const { app, kit } = desk
  const id = await make(app, 'spring', ['work'])
  await kit.tick()
  const open = await make(app, 'summer', ['work', 'work'])
  const page = await desk.open(`/batches/${open}`)
  const preview = await act(page, { open: 'Cancel', verb: 'Cancel the jobs', reason: 'wrong template' })
  expect(preview).toContain('2 of 2 would be cancelled')
  await page.getByText('No job is complete, and none failed.').waitFor()
  expect(await numbers(page, 'Jobs of summer')).toMatchObject({ cancelled: 2, queued: 0 })
  await page.goto(`/batches/${id}`)
  await page.getByRole('button', { name: /^Cancel ?: No job of this batch waits or runs/ }).click({ force: true })
  expect(await page.getByRole('dialog').count()).toBe(0)
})

test('all failed jobs of a batch are exported as CSV without formulas', async () => {
  const { story } = converters()
  const desk = await makeDesk({ story })
  const { app, kit } = desk
  const id = await make(app, 'spring', ['work', 'GW_5XX', 'NOT_PDF', ...Array<Does>(60).fill('GW_5XX')])
  await kit.tick()
  const page = await desk.open(`/batches/${id}`)
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Failed jobs as CSV' }).click(),
  ])
  expect(download.suggestedFilename()).toBe(`failed-of-${id}.csv`)
  const lines = (await text(await download.createReadStream())).split('\r\n')
  expect(lines[0]).toBe('id,type,owner,code,message,attempts,failedAt')
  expect(lines).toHaveLength(1 + 62 + 1)
  const { jobs } = await app.jobs.list({ batch: id, code: 'NOT_PDF' })
  const { id: job, failedAt } = jobs[0] ?? {}
  expect(lines).toContain(`${job},pdf.convert,ann,NOT_PDF,"'=HYPERLINK(""http://example.org"")",1,${failedAt}`)
  expect(lines.filter((line) => line.includes('"The converter answered ""503"", twice."'))).toHaveLength(61)
  await told(page).getByText('Wrote 62 failed jobs').waitFor()
})

test('a CSV cell is quoted if needed, and a formula is made text', () => {
  const said = ['plain', 'a,b', 'say "no"', 'two\r\nlines', '=1+1', '+1', '-1', '@SUM(A1)', '\t=1', '', 'ende–ü']
  const rows = said.map((text) => ({ text, count: -1, none: null }))
  expect(csvOf(['text', 'count', 'none'], rows)).toBe(
    [
      'text,count,none',
      'plain,-1,',
      '"a,b",-1,',
      '"say ""no""",-1,',
      '"two\r\nlines",-1,',
      "'=1+1,-1,",
      "'+1,-1,",
      "'-1,-1,",
      "'@SUM(A1),-1,",
      "'\t=1,-1,",
      ',-1,',
      'ende–ü,-1,',
      '',
    ].join('\r\n'),
  )
})

test('owners can act on their own batches, and viewers see all but cannot act', async () => {
  const { world, story } = converters()
  const desk = await makeDesk({ story })
  const { app, kit } = desk
  const own = await make(app, 'mine', ['work', 'GW_5XX'])
  const other = await make(app, 'theirs', ['work', 'GW_5XX'], { owner: 'bob' })
  await kit.tick()
  const page = await desk.open('/batches', { as: 'owner' })
  await page.getByRole('link', { name: 'mine' }).click()
  expect(await page.getByLabel('Owner').count()).toBe(0)
  await page.getByText('Of 2 jobs, 1 job failed').waitFor()
  world.isUp = true
  await act(page, { open: 'Retry the retryable', verb: 'Retry', reason: 'it is up again' })
  await page.getByText('1 job of 2 waits or runs.').waitFor()
  await kit.tick()
  await page.getByText('Every job is complete.').waitFor()
  expect((await app.batches.find(own))?.state).toBe('complete')
  await page.goto(`/batches/${other}`)
  await page.getByRole('alert').getByText(`There is no batch ${other}.`).waitFor()
  await page.goto('/batches')
  await page.getByRole('link', { name: 'mine' }).waitFor()
  expect(await page.getByRole('link', { name: 'theirs' }).count()).toBe(0)
  await expectAccessible(page)

  const viewer = await desk.open(`/batches/${other}`, { as: 'viewer' })
  await viewer
    .getByRole('button', { name: /^Retry the retryable ?: This needs the role operator/ })
    .click({ force: true })
  await viewer.getByRole('button', { name: /^Cancel ?: This needs the role operator/ }).click({ force: true })
  expect(await viewer.getByRole('dialog').count()).toBe(0)
})
