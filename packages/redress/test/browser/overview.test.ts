import { expect, test } from 'vitest'
import { expectAccessible } from '../../../../test/support/browser/axe.ts'
import { act } from './actions.ts'
import { makeDesk } from './desk.ts'

test('the overview shows problems first, then pending decisions, then activity', async () => {
  const desk = await makeDesk()
  const page = await desk.open('/')
  await page.getByRole('table', { name: 'Open groups of failures' }).getByText('GW_5XX').waitFor()
  await page.getByText(/has lost its worker and waits for a person to decide: proxy.make/).waitFor()
  await page.getByRole('table', { name: 'The oldest ready job of each queue' }).getByText('documents').waitFor()
  await page.getByRole('heading', { name: 'The last hour' }).waitFor()
  await page.locator('.chart canvas').nth(2).waitFor()
  const headings = await page.getByRole('heading', { level: 2 }).allTextContents()
  expect(headings).toEqual([
    'Open failures',
    'Failed: proxy.make',
    'Breakers',
    'Orphans',
    'Waiting longest',
    'The last hour',
  ])
  await expectAccessible(page)
})

test('the overview shows each failure alone and no rate for a type without aggregates [P60]', async () => {
  const desk = await makeDesk()
  const page = await desk.open('/')
  const each = page.getByRole('table', { name: 'Failed jobs of proxy.make' })
  await each.getByText('DISK_FULL').waitFor()
  await page.getByText('Not summed up, by their policy: proxy.make.').waitFor()
  await page.getByText('In figures').click()
  const figures = page.getByRole('table', { name: /^The minutes of the last hour/ })
  const cells = await figures.locator('td[data-head="System"]').allTextContents()
  // The full disk was a failure of the system, of a type that is not counted.
  expect(cells.map(Number).reduce((sum, n) => sum + n, 0)).toBe(0)
})

test('a breaker shows its reason, its held jobs and its next probe, and can be forced for a time', async () => {
  const desk = await makeDesk()
  const page = await desk.open('/')
  await page
    .getByRole('list')
    .getByText(/100 % of the last 6 calls failed/)
    .waitFor()
  await page.getByRole('link', { name: 'converter' }).click()
  const card = page.getByRole('region', { name: 'converter' })
  await card.getByRole('img', { name: /^Of the last \d+ calls, 6 failed$/ }).waitFor()
  await card.getByText(/opens at 50 % of at least 6 calls/).waitFor()
  await card.getByRole('link', { name: '12 jobs of pdf.convert' }).waitFor()
  await expectAccessible(page)
  // Of several types it holds so many in all, and not so many of each.
  desk.app.job('ocr.read', { policy: { breaker: { guards: 'converter' } }, run: () => null })
  await desk.app.submit('ocr.read', {})
  await card.getByText('13 jobs of these types: ').waitFor()
  await card.getByRole('link', { name: 'ocr.read', exact: true }).waitFor()
  await act(page, {
    open: 'Force closed',
    verb: 'Force closed',
    fields: { 'For how long': '10m' },
    reason: 'they say it is back',
  })
  await card.getByText('forced closed', { exact: true }).waitFor()
  await card.getByText(/^closed by olga .*they say it is back/).waitFor()
  // The jobs that it held go on, and the page follows.
  await desk.kit.tick()
  await card.getByText('Held jobs').waitFor()
  await act(page, { open: 'Release', verb: 'Release', reason: 'let it count' })
  await card.getByText('What happened to it').click()
  await card.getByRole('row').filter({ hasText: 'released' }).waitFor()
})
