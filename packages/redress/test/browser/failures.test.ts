import { expect, test } from 'vitest'
import { expectAccessible } from '../../../../test/support/browser/axe.ts'
import { act, told } from './actions.ts'
import { makeDesk } from './desk.ts'

test('open groups show their fault and link to their details', async () => {
  const desk = await makeDesk()
  const page = await desk.open('/failures')
  const group = page.getByRole('row').filter({ hasText: 'GW_5XX' })
  await group.getByText('Dependency').waitFor()
  expect(await group.getByRole('img').getAttribute('aria-label')).toMatch(/^Failures per hour: at most \d+/)
  // What somebody put aside is not among them, and what is not summed up is linked job by job.
  expect(await page.getByRole('row').filter({ hasText: 'pdf.convert' }).filter({ hasText: 'NOT_PDF' }).count()).toBe(0)
  await page.getByRole('link', { name: 'failed jobs of proxy.make' }).waitFor()
  await expectAccessible(page)

  await group.getByRole('link', { name: 'GW_5XX' }).click()
  await page.getByRole('heading', { level: 1, name: 'GW_5XX' }).waitFor()
  await page.getByText('host=converter.internal').waitFor()
  expect(await page.getByRole('listitem').filter({ hasText: 'host=' }).textContent()).toContain('100 %')
  await page.getByText('It was not the input').waitFor()
  await page.getByRole('table', { name: 'Newest jobs of this group' }).getByRole('link').first().waitFor()
  await expectAccessible(page)
})

test('a resolved group reappears when it fails again, and the filter stays', async () => {
  const desk = await makeDesk()
  const page = await desk.open('/failures?fault=unknown')
  const row = page.getByRole('row').filter({ hasText: 'thumb.render' })
  await row.waitFor()
  const preview = await act(page, { open: 'Resolve', verb: 'Resolve', reason: 'the width is checked now' })
  expect(preview).toContain('resolve')
  await told(page)
    .getByText(/resolved/)
    .waitFor()
  await page.getByText('No failure is open.').waitFor()
  // There are others, and nobody says that there are none.
  await page.getByText('With this filter:').waitFor()
  expect(page.url()).toContain('fault=unknown')

  await page.getByRole('link', { name: 'Resolved' }).click()
  await row.getByText('resolved').waitFor()
  await page.getByRole('link', { name: 'Open', exact: true }).click()
  // Somebody else's program fails: this page was not touched.
  await desk.app.perform('queues.resume', { name: 'media', actor: 'olga', reason: 'a test' })
  await desk.app.submit('thumb.render', { does: 'break' })
  await desk.kit.tick()
  await page.getByRole('heading', { name: 'Came back after they were resolved' }).waitFor()
  await row.getByText('regressed').waitFor()
})

test('a group is snoozed for a time, and a snooze without an end is refused', async () => {
  const desk = await makeDesk()
  const page = await desk.open('/failures?q=GW_5XX')
  await page.getByRole('row').filter({ hasText: 'GW_5XX' }).waitFor()
  await act(page, { open: 'Snooze', verb: 'Snooze', fields: { 'For how long': '' } })
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('alert').getByText('A snooze needs an end: `for` or `more`.').waitFor()
  await dialog.getByLabel('For how long').fill('8h')
  await dialog.getByRole('button', { name: 'Snooze', exact: true }).click()
  await told(page)
    .getByText(/snoozed/)
    .waitFor()
  await page.getByRole('link', { name: 'Snoozed' }).click()
  await act(page, { open: 'Reopen', verb: 'Reopen' })
  await page.getByText('No group is snoozed.').waitFor()
})

test('groups are paged, and regressed ones are listed before the first page only', async () => {
  const desk = await makeDesk({
    story: async (kit) => {
      const { app } = kit
      const run = () => {
        throw new Error('no')
      }
      for (let i = 0; i < 52; i++) {
        app.job(`type-${i}`, { run })
        await app.submit(`type-${i}`, {})
      }
      await kit.tick()
      const { groups } = await app.perform('failures.list', { type: 'type-0' })
      const fingerprint = String(groups[0]?.fingerprint)
      await app.perform('failures.resolve', { fingerprint, actor: 'olga', reason: 'a test' })
      await kit.advance('1m')
      await app.submit('type-0', {})
      await kit.tick()
    },
  })
  const page = await desk.open('/failures')
  const cameBack = page.getByRole('heading', { name: 'Came back after they were resolved' })
  await cameBack.waitFor()
  await page.getByRole('link', { name: 'Next page' }).click()
  await page.getByText('These are the last.').waitFor()
  expect(await page.locator('[data-row]').count()).toBe(1)
  expect(await cameBack.count()).toBe(0)
  await page.getByRole('link', { name: 'First page' }).click()
  await cameBack.waitFor()
})

test('a viewer sees everything, and disabled actions have a reason', async () => {
  const desk = await makeDesk()
  const page = await desk.open('/failures', { as: 'viewer' })
  const button = page.getByRole('button', { name: /^Resolve/ }).first()
  await button.waitFor()
  expect(await button.getAttribute('aria-disabled')).toBe('true')
  expect(await button.getAttribute('title')).toBe('This needs the role operator; vera has viewer.')
  await button.click({ force: true })
  expect(await page.getByRole('dialog').count()).toBe(0)
})
