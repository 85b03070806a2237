import { startServer } from 'redress/http'
import { expect, test } from 'vitest'
import { expectAccessible } from '../../../../test/support/browser/axe.ts'
import { until } from '../../../../test/support/until.ts'
import { makeDesk } from './desk.ts'

test('a lost connection is shown with its time, and missed changes appear without a reload', async () => {
  const desk = await makeDesk()
  const page = await desk.open('/failures?fault=caller')
  await page.getByText('Live', { exact: true }).waitFor()
  await page.evaluate('window.wasNotReloaded = true')
  const otto = await desk.open('/queues', { name: 'otto' })
  await otto.getByRole('region', { name: 'mail' }).getByRole('button', { name: 'Pause' }).click()
  const dialog = otto.getByRole('dialog')
  await dialog.getByText('pauses queue mail').waitFor()
  const ulla = await desk.open('/queues', { name: 'ulla' })
  await ulla.getByRole('region', { name: 'mail' }).waitFor()
  const port = Number(new URL(desk.server.url).port)
  await desk.server.stop({ graceMs: 0 })
  await page
    .getByRole('alert')
    .getByText(/^Stale since \d\d:\d\d:\d\d\.$/)
    .waitFor()
  await page.getByText('Not connected').waitFor()
  await expectAccessible(page)
  // Who goes on is told that the next page cannot come; who asks what an act would do, that nobody can say.
  await ulla.getByRole('link', { name: 'Breakers' }).click()
  await ulla.getByRole('heading', { name: 'This page is not loaded' }).waitFor()
  await dialog.getByLabel('For how long').fill('10m')
  await dialog.getByText(/^Not possible: The server cannot be reached\.$/).waitFor()
  await desk.app.submit('mail.send', { does: 'refuse' })
  await desk.kit.tick()
  const again = await startServer({ app: desk.app, port })
  try {
    await page.getByText('Live', { exact: true }).waitFor()
    const row = page.getByRole('row').filter({ hasText: 'mail.send' })
    await until('the new failure is counted on the page', async () => (await row.textContent())?.includes('5'))
    expect(await page.getByRole('alert').count()).toBe(0)
    expect(await page.evaluate('window.wasNotReloaded')).toBe(true)
    await dialog.getByText('pauses queue mail').waitFor()
    await ulla.getByRole('region', { name: 'converter' }).waitFor()
  } finally {
    await again.stop({ graceMs: 0 })
  }
})

test('an expired session keeps the page, and signing in again returns to it', async () => {
  const desk = await makeDesk()
  const page = await desk.open('/failures?fault=caller')
  const row = page.getByRole('row').filter({ hasText: 'mail.send' })
  await row.waitFor()
  const { tokens } = await desk.app.perform('tokens.list', { kind: 'session' })
  for (const { id } of tokens) await desk.app.perform('tokens.revoke', { id, actor: 'adam', reason: 'a test' })
  await desk.app.submit('mail.send', { does: 'refuse' })
  await desk.kit.tick()
  await page.getByRole('alert').getByText('Your session is over.').waitFor()
  // Nothing that is told from now on is for this page.
  await page.getByText('Signed out', { exact: true }).waitFor()
  await row.waitFor()
  const { code } = await desk.app.perform('sign-in-links.create', { role: 'viewer', name: 'vera', actor: 'adam' })
  await page.context().request.post('/sign-in', { data: { code }, headers: { origin: desk.server.url } })
  await page.getByRole('link', { name: 'load this page again' }).click()
  await page.getByText('Live', { exact: true }).waitFor()
  expect(page.url()).toContain('fault=caller')
  expect(await page.getByRole('alert').count()).toBe(0)
  await page.getByTitle('Role: viewer').getByText('vera').waitFor()
})

test('a visitor without a session gets the sign-in page, and a link works once', async () => {
  const desk = await makeDesk()
  const page = await desk.open('/')
  await page.context().clearCookies()
  await page.goto('/jobs')
  await page.getByRole('heading', { name: 'Sign in' }).waitFor()
  await expectAccessible(page)
  const { path } = await desk.app.perform('sign-in-links.create', { role: 'admin', name: 'adam', actor: 'adam' })
  await page.goto(String(path))
  await expectAccessible(page)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByText('adam').waitFor()
  await page.goto(String(path))
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('alert').getByText('This link is invalid, expired or already used.').waitFor()
  await page.goto('/')
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByRole('heading', { name: 'Sign in' }).waitFor()
  await page.goto('/')
  expect(page.url()).toContain('/sign-in')
})

test('a page that becomes visible again catches up and keeps typed text', async () => {
  const desk = await makeDesk()
  const page = await desk.open('/policies/pdf.convert')
  const field = page.getByLabel('If attempts end like this')
  await page.getByRole('table', { name: 'Failure codes' }).waitFor()
  await page.getByText('Live', { exact: true }).waitFor()
  await field.fill('GW_5XX,cra')
  const look = (isHidden: boolean) =>
    page.evaluate(`Object.defineProperty(document, 'hidden', { value: ${isHidden}, configurable: true });
      document.dispatchEvent(new Event('visibilitychange'))`)
  await look(true)
  await page.getByText('Connecting …').waitFor()
  expect(await page.getByRole('alert').count()).toBe(0)
  const asked = page.waitForResponse((response) => response.url().includes('/preview'))
  await look(false)
  await page.getByText('Live', { exact: true }).waitFor()
  await asked
  expect(await page.getByRole('alert').count()).toBe(0)
  expect(await field.inputValue()).toBe('GW_5XX,cra')
})

test('every page works by keyboard, with a skip link to the content', async () => {
  const desk = await makeDesk()
  const page = await desk.open('/queues')
  await page.getByRole('region', { name: 'mail' }).waitFor()
  await page.keyboard.press('Tab')
  await page.getByRole('link', { name: 'Skip to the content' }).waitFor()
  await page.keyboard.press('Enter')
  await page.keyboard.press('Tab')
  await page.keyboard.press('Enter')
  const dialog = page.getByRole('dialog', { name: 'Pause queue documents' })
  await dialog.getByLabel('For how long').waitFor()
  await page.keyboard.press('Escape')
  await dialog.waitFor({ state: 'detached' })
  // Whoever closed it stands where they were.
  expect(await page.evaluate('document.activeElement.textContent')).toBe('Pause')
})
