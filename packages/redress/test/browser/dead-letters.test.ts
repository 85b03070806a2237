import { text } from 'node:stream/consumers'
import { failureCodes } from 'redress'
import type { TestKit } from 'redress/testing'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { expectAccessible } from '../../../../test/support/browser/axe.ts'
import { until } from '../../../../test/support/until.ts'
import { act, told } from './actions.ts'
import { makeDesk } from './desk.ts'

const BY = { actor: 'olga', reason: 'a test' }
const MARKUP = '<b>bold</b> \u202Egnp.exe'

const codes = failureCodes({
  BOUNCED: { fault: 'dependency', retry: 'never', message: 'The mail server did not take it.' },
  NO_ADDRESS: { fault: 'caller', retry: 'never', message: 'There is no such address.' },
})

/** Mails that were set aside: of ann and bob, for two reasons, and one of a type that nobody may retry. */
const letters = (count: number) => async (kit: TestKit) => {
  const { app } = kit
  const run = ({ to }: { to: string }, attempt: { fail(code: keyof typeof codes, about?: object): never }) => {
    if (to === 'nobody') attempt.fail('NO_ADDRESS', { detail: MARKUP })
    if (to === 'down') attempt.fail('BOUNCED')
  }
  const input = z.object({ to: z.string(), note: z.string().optional() })
  app.job('mail.send', { input, codes, policy: { deadLetter: 'queue' }, run })
  app.job('fax.send', { input, codes, policy: { deadLetter: 'queue', manualRetry: 'off' }, run })
  for (let i = 0; i < count; i++) {
    await app.submit(
      'mail.send',
      { to: i % 2 === 0 ? 'nobody' : 'down', note: MARKUP },
      { owner: i < 4 ? 'ann' : 'bob' },
    )
    await kit.tick()
  }
  await app.submit('fax.send', { to: 'down' })
  await kit.tick()
  await kit.advance('2h')
}

test('dead letters are paged, newest first, with the filter in the address', async () => {
  const desk = await makeDesk({ story: letters(52) })
  const page = await desk.open('/dead-letters')
  const rows = page.getByRole('table').locator('tbody').getByRole('row')
  await rows.first().waitFor()
  expect(await rows.count()).toBe(50)
  // What failed last is what somebody was called for.
  expect(await rows.first().getAttribute('data-row')).toBe('53')
  await page.getByRole('link', { name: 'Next page' }).click()
  await page.getByRole('link', { name: '1', exact: true }).waitFor()
  expect(page.url()).toMatch(/after=4$/)
  await page.getByText('These are the last.').waitFor()
  const first = await rows.last().innerText()
  for (const said of ['mail.send', 'Caller', 'NO_ADDRESS', 'There is no such address.', 'ann', 'h ago', 'no']) {
    expect(first).toContain(said)
  }

  // Another filter begins at its first page; what is typed elsewhere meanwhile is not lost when something happens.
  await page.getByLabel('Owner').fill('ann')
  await page.getByLabel('Owner').press('Enter')
  await until('only letters of ann are there', async () => (await rows.count()) === 4)
  expect(new URL(page.url()).search).toBe('?owner=ann')
  const download = page.waitForEvent('download')
  await page.getByRole('link', { name: 'Export' }).click()
  const exported = await text(await (await download).createReadStream())
  expect(exported.trimEnd().split('\n')).toHaveLength(4)
  await page.getByLabel('Code').pressSequentially('BOU')
  await desk.app.submit('mail.send', { to: 'down' }, { owner: 'ann' })
  await desk.kit.tick()
  await until('the new letter is there', async () => (await rows.count()) === 5)
  await page.getByLabel('Code').pressSequentially('NCED')
  await page.getByLabel('Code').blur()
  await until('only those that bounced are there', async () => (await rows.count()) === 3)
  await expectAccessible(page)
  await page.reload()
  await until('a reload keeps the filter', async () => (await rows.count()) === 3)

  await page.getByLabel('Since').fill('soon')
  await page.getByLabel('Since').blur()
  await page.getByRole('alert').getByText('since').waitFor()
  await page.getByRole('link', { name: 'Clear' }).click()
  await page.getByLabel('Type').fill('no.such')
  await page.getByLabel('Type').blur()
  await page.getByText('No dead letter matches.').waitFor()
})

test('a replay from a row keeps the filter and the scroll position', async () => {
  const desk = await makeDesk({ story: letters(30) })
  const page = await desk.open('/dead-letters?type=mail.send')
  const row = page.locator('[data-row="20"]')
  await row.scrollIntoViewIfNeeded()
  const scrolled = await page.evaluate('scrollY')
  const preview = await act(page, { open: 'Replay', within: '[data-row="20"]', verb: 'Replay' })
  expect(preview).toMatch(/makes a new job with the same input; job .* stays failed/)
  await told(page)
    .getByText(/^Made job .* from dead letter 20/)
    .waitFor()
  await row.getByRole('button', { name: 'Replay again' }).waitFor()
  const { replayedAs } = await desk.app.perform('dead-letters.show', { offset: 20 })
  expect(await row.getByRole('cell').nth(6).getByRole('link').getAttribute('href')).toBe(`/jobs/${replayedAs}`)
  expect(page.url()).toMatch(/\?type=mail\.send$/)
  expect(await page.evaluate('scrollY')).toBe(scrolled)

  await page.getByLabel('Replayed').selectOption('already')
  await until('only the replayed one is there', async () => (await page.locator('[data-row]').count()) === 1)
  await act(page, { open: 'Replay again', verb: 'Replay' })
  await row.getByText('2 times in all').waitFor()
  // All that match leads to a plan for the same letters.
  await page.getByRole('link', { name: 'Replay all that match' }).click()
  await page.getByRole('heading', { name: 'Plan a replay' }).waitFor()
  expect(await page.getByLabel('Also letters that were replayed already').isChecked()).toBe(true)
  await page.getByText('1 will run').waitFor()
})

test('letters are purged one by one or by filter, after a preview of their number', async () => {
  const desk = await makeDesk({ story: letters(6) })
  const page = await desk.open('/dead-letters?code=BOUNCED')
  const rows = page.locator('[data-row]')
  await page.locator('[data-row="2"]').waitFor()
  await act(page, { open: 'Purge', within: '[data-row="2"]', verb: 'Purge for good' })
  await told(page).getByText('Purged 1 dead letter;').waitFor()
  await until('three are left', async () => (await rows.count()) === 3)

  // Somebody else was faster, and this page has not heard of it.
  await page.locator('[data-row="4"]').getByRole('button', { name: 'Purge' }).click()
  await page.getByRole('dialog').getByText('This purges 1 dead letter').waitFor()
  await desk.app.perform('dead-letters.purge', { offset: 4, ...BY })
  await page.getByRole('dialog').getByLabel('Reason').fill('old')
  await page.getByRole('button', { name: 'Purge for good' }).click()
  await page.getByRole('alert').getByText('There is no dead letter 4.').waitFor()
  await expectAccessible(page)
  await page.getByRole('button', { name: 'Leave it' }).click()

  await page.getByRole('button', { name: 'Purge all that match' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('1 of mail.send with BOUNCED').waitFor()
  await dialog.getByText('1 of fax.send with BOUNCED').waitFor()
  await dialog.getByText('This purges 2 dead letters;').waitFor()
  await dialog.getByLabel('Reason').fill('the newsletter is old')
  await dialog.getByRole('button', { name: 'Purge for good' }).click()
  await page.getByText('No dead letter matches.').waitFor()
  expect(page.url()).toContain('code=BOUNCED')
  const { deadLetters } = await desk.app.perform('dead-letters.list', {})
  expect(deadLetters.map(({ offset }) => offset)).toEqual([1, 3, 5])

  await page.getByRole('link', { name: 'Clear' }).click()
  await act(page, { open: 'Purge all', verb: 'Purge for good' })
  await page.getByText('There are no dead letters.').waitFor()
  await expectAccessible(page)
})

test('one letter shows its failure and the effect of a replay, and job data stays text', async () => {
  const desk = await makeDesk({ story: letters(2) })
  const page = await desk.open('/dead-letters/1')
  await page.getByText('It can be replayed: makes a new job; this one stays failed.').waitFor()
  await page.getByText('The input cannot be processed.').waitFor()
  await page.getByText('NO_ADDRESS is never retried').waitFor()
  expect(await page.getByLabel('the input').innerText()).toContain(MARKUP)
  expect(await page.getByLabel('what was thrown').innerText()).toContain(MARKUP)
  expect(await page.locator('main b').count()).toBe(0)
  await expectAccessible(page)

  const edit = page.getByRole('button', { name: 'Replay with another input' })
  await edit.click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Reason').fill('she moved')
  const input = dialog.getByLabel('Input')
  await input.fill('{"to": ')
  await dialog.getByText('this is not JSON').waitFor()
  await input.fill('{"to": 7}')
  await dialog.getByText('Not possible').waitFor()
  await dialog.getByText('to:').first().waitFor()
  await dialog.getByRole('button', { name: 'Replay', exact: true }).click()
  await dialog.getByRole('alert').waitFor()
  await input.fill('{"to": "ann@example.org"}')
  await dialog.getByText('with the given input').waitFor()
  await dialog.getByRole('button', { name: 'Replay', exact: true }).click()
  await page.getByText('It was replayed').waitFor()
  await desk.kit.tick()
  const { replayedAs } = await desk.app.perform('dead-letters.show', { offset: 1 })
  const job = await desk.app.perform('jobs.show', { id: String(replayedAs) })
  expect(job).toMatchObject({ status: 'complete', input: { to: 'ann@example.org' } })

  await act(page, { open: 'Purge', verb: 'Purge for good' })
  await page.getByRole('heading', { name: 'Dead letters' }).waitFor()
  await page.goto('/dead-letters/1')
  await page.getByRole('alert').getByText('There is no dead letter 1.').waitFor()

  // Of a type that nobody may retry: the button says so to whoever comes to it.
  await page.goto('/dead-letters/3')
  await page.getByText(`It cannot be replayed: its policy has manualRetry 'off'.`).first().waitFor()
  await page.getByRole('button', { name: /^Replay ?: It cannot be replayed: its policy/ }).click({ force: true })
  expect(await page.getByRole('dialog').count()).toBe(0)
})

test('a viewer reads dead letters, and disabled actions have a reason', async () => {
  const desk = await makeDesk({ story: letters(1) })
  const page = await desk.open('/dead-letters', { as: 'viewer' })
  await page
    .getByRole('button', { name: /^Replay ?: This needs the role operator/ })
    .first()
    .click({ force: true })
  await page.getByRole('button', { name: /^Purge all ?: This needs the role operator/ }).click({ force: true })
  expect(await page.getByRole('dialog').count()).toBe(0)
  await expectAccessible(page)
  await page.getByRole('link', { name: 'Replay all' }).click()
  await page.getByText('This needs the role operator').first().waitFor()
})
