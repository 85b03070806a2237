import { expect, test } from 'vitest'
import { expectAccessible } from './axe.ts'
import { makeDesk } from './desk.ts'

test('the frame says who looks, that it is live, and where one can go', async () => {
  const desk = await makeDesk()
  const page = await desk.open('/')
  await page.getByText('Live', { exact: true }).waitFor()
  expect(await page.getByRole('navigation').getByRole('link').allTextContents()).toContain('Dead letters')
  await expectAccessible(page)
})
