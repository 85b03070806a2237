import type { Page } from 'playwright-core'
import { expect } from 'vitest'

/** The numbers of a bar by their names. What is said of the whole is their sum, whenever one looks. */
export async function numbers(page: Page, label: string): Promise<Record<string, number>> {
  // At one moment: what is read part by part may change in between.
  const texts = await page.getByRole('list', { name: label }).evaluate((list) => {
    return [...list.children].map((part) => part.textContent ?? '')
  })
  const parts = texts.map((text) => /^(of )?([\d,]+) (.*)$/.exec(text) ?? [])
  const counted = parts.map(([, of, count = '', name = '']): [string, number] => [
    of === undefined ? name : 'of',
    Number(count.replaceAll(',', '')),
  ])
  const { of: whole, ...rest } = Object.fromEntries(counted)
  expect(Object.values(rest).reduce((sum, count) => sum + count, 0)).toBe(whole)
  return rest
}
