import { describe, expect, test } from 'vitest'
import { expectAccessible } from '../../../../test/support/browser/axe.ts'
import { until } from '../../../../test/support/until.ts'
import { act, told } from './actions.ts'
import { makeDesk } from './desk.ts'

describe('orphans', () => {
  test('show the lost worker, since when, and the choices, and can be marked as failed', async () => {
    const desk = await makeDesk()
    const page = await desk.open('/orphans')
    const row = page.getByRole('row').filter({ hasText: 'proxy.make' })
    await row.getByText('crashing-worker').waitFor()
    await row.getByText(/^at .*, process \d+$/).waitFor()
    await row.getByRole('link', { name: 'afterwards, as a new job' }).waitFor()
    await page.getByText('If the worker comes back, the job continues').waitFor()
    await page.getByText('its writes are refused and do not count').waitFor()
    await expectAccessible(page)

    const preview = await act(page, { open: 'Mark failed', verb: 'Mark failed', reason: 'the machine is gone' })
    expect(preview).toContain('ends it as failed; its worker is gone')
    await told(page).getByText('is failed').waitFor()
    await page.getByText('No job waits here for a person.').waitFor()
    await expectAccessible(page)
  })

  test('are read-only for viewers and disappear after a decision', async () => {
    const desk = await makeDesk()
    const page = await desk.open('/orphans', { as: 'viewer' })
    const button = page.getByRole('button', { name: /^Mark failed/ })
    await button.waitFor()
    expect(await button.getAttribute('title')).toBe('This needs the role operator; vera has viewer.')
    const { jobs } = await desk.app.perform('orphans.list', {})
    await desk.app.perform('jobs.mark-failed', { id: String(jobs[0]?.id), actor: 'olga', reason: 'a test' })
    await page.getByText('No job waits here for a person.').waitFor()
  })
})

describe('the audit trail', () => {
  test('shows actor, operation, reason and target, and keeps its filter in the address', async () => {
    const desk = await makeDesk()
    const page = await desk.open('/audit')
    const entry = page.getByRole('row').filter({ hasText: 'queues.pause' })
    await entry.getByText('olga').waitFor()
    await entry.getByText('the morning round').waitFor()
    expect(await entry.getByRole('link', { name: 'media' }).getAttribute('href')).toBe('/queues')
    await entry.getByText('Data').click()
    await entry.getByText('"untilMs": null').waitFor()
    await expectAccessible(page)

    await page.getByLabel('What', { exact: true }).fill('replays')
    await page.getByLabel('What', { exact: true }).press('Enter')
    await until('the address has it', () => page.url().includes('act=replays'))
    await page.getByRole('row').filter({ hasText: 'replays.plan' }).waitFor()
    await until('the rest is gone', async () => (await page.getByRole('row').count()) === 2)
    await page.reload()
    await page.getByRole('row').filter({ hasText: 'replays.plan' }).waitFor()
    expect(await page.getByLabel('What', { exact: true }).inputValue()).toBe('replays')

    await page.goto('/audit?target=job&by=nobody')
    await page.getByText('No matching entries.').waitFor()
    await page.goto('/audit?since=soon')
    await page.getByRole('alert').getByText('is not a duration').waitFor()
    await page.goto('/audit?id=media&since=1d')
    await page.getByRole('row').filter({ hasText: 'queues.pause' }).waitFor()
  })

  test('is paged, and a job links to its own entries', async () => {
    const desk = await makeDesk()
    const by = { actor: 'olga', reason: '<b>back</b> and forth' }
    for (let i = 0; i < 30; i++) {
      await desk.app.perform('queues.resume', { name: 'media', ...by })
      await desk.app.perform('queues.pause', { name: 'media', ...by })
    }
    const page = await desk.open('/audit?target=queue')
    await until('a page is full', async () => (await page.getByRole('row').count()) === 51)
    await page.getByText('<b>back</b> and forth').first().waitFor()
    await page.getByRole('link', { name: 'Next page' }).click()
    await page.getByText('These are the last.').waitFor()
    expect(await page.getByRole('row').count()).toBe(1 + 61 - 50)
    await page.getByRole('link', { name: 'First page' }).click()
    await until('the first page is there', async () => (await page.getByRole('row').count()) === 51)
    expect(page.url()).toContain('target=queue')
  })

  test('is not for owners', async () => {
    const desk = await makeDesk()
    const page = await desk.open('/audit', { as: 'owner' })
    await page.waitForURL('**/jobs')
    expect(await page.getByRole('alert').count()).toBe(0)
    expect(await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Audit' }).count()).toBe(0)
  })
})
