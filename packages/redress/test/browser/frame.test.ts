import { expect, test } from 'vitest'
import { expectAccessible } from '../../../../test/support/browser/axe.ts'
import { makeDesk } from './desk.ts'

test('the frame shows the user, the live state and the navigation', async () => {
  const desk = await makeDesk()
  const page = await desk.open('/')
  await page.getByText('Live', { exact: true }).waitFor()
  expect(await page.getByRole('navigation').getByRole('link').allTextContents()).toContain('Dead letters')
  await expectAccessible(page)
  // Charts take the colours of the theme when they are drawn: with another theme they are drawn anew.
  const canvas = page.locator('.chart canvas')
  await canvas.nth(2).waitFor()
  await page.evaluate(`document.querySelectorAll('.chart canvas').forEach((one) => one.classList.add('before'))`)
  for (const next of ['light', 'dark']) await page.getByRole('button', { name: `Change to ${next}` }).click()
  await page.locator('.chart canvas.before').first().waitFor({ state: 'detached' })
  await canvas.nth(2).waitFor()
})

test('a page that crashes shows an error, other pages work, and the focus follows', async () => {
  const desk = await makeDesk()
  const page = await desk.open('/queues')
  await page.getByRole('region', { name: 'mail' }).waitFor()
  await page.route('**/api/breakers', (route) => route.fulfill({ json: { breakers: [null] } }))
  await page.getByRole('link', { name: 'Breakers' }).click()
  await page.getByRole('alert').getByText('It met something that it was not made for.').waitFor()
  await expectAccessible(page)
  expect(desk.troubles.splice(0)).toEqual([expect.stringContaining('TypeError')])
  await page.getByRole('link', { name: 'Schedules' }).click()
  await page.getByText('nightly-report').waitFor()
  expect(await page.evaluate('document.activeElement.textContent')).toBe('Schedules')
  // An address is anybody's to write.
  await page.goto('/failures?state=constructor')
  await page.getByRole('row').filter({ hasText: 'GW_5XX' }).waitFor()
})

test('ages use the clock of the server, not of the browser', async () => {
  const desk = await makeDesk()
  const page = await desk.open('/workers')
  const started = page.getByRole('row').filter({ hasText: 'worker-1' }).locator('[data-head="Started"]')
  for (const hours of [-5, 5]) {
    await page.clock.setFixedTime(Date.now() + hours * 3_600_000)
    await page.reload()
    expect(await started.innerText()).toBe('1 h ago')
  }
})

test('an owner who signs in, or opens any page of operators, lands on a page that works for them', async () => {
  const desk = await makeDesk()
  const context = { viewport: { width: 390, height: 844 }, colorScheme: 'dark' } as const
  for (const [path, options] of [
    ['/', {}],
    ['/', { context }],
    ['/failures', {}],
    ['/audit', {}],
  ] as const) {
    const page = await desk.open(path, { as: 'owner', ...options })
    await page.waitForURL('**/jobs')
    await page.getByText('Live', { exact: true }).waitFor()
    await page.getByRole('row').filter({ hasText: 'pdf.convert' }).first().waitFor()
    expect(await page.locator('[role=alert], .notice.bad, .problem').count()).toBe(0)
    await page.getByRole('link', { name: 'Redress' }).click()
    await page.getByRole('row').filter({ hasText: 'pdf.convert' }).first().waitFor()
    expect(new URL(page.url()).pathname).toBe('/jobs')
    await expectAccessible(page)
  }
})
