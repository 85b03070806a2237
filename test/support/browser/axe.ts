import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { Page } from 'playwright-core'
import { expect } from 'vitest'

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

const LOOKS = [
  { colorScheme: 'light', width: 1280 },
  { colorScheme: 'dark', width: 1280 },
  { colorScheme: 'light', width: 360 },
] as const

/** No violations: as it stands, in both themes, and at the width of a small phone. */
export async function expectAccessible(page: Page): Promise<void> {
  const size = page.viewportSize()
  if (await page.evaluate<boolean>('globalThis.axe === undefined')) await page.evaluate(AXE)
  for (const { colorScheme, width } of LOOKS) {
    await page.emulateMedia({ colorScheme })
    await page.setViewportSize({ width, height: 800 })
    const found = await page.evaluate<
      string[]
    >(`axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) =>
      violations.map(({ id, help, nodes }) => id + ': ' + help + ': ' + nodes.map(({ html }) => html).join(' ')))`)
    expect(found, `${page.url()} ${colorScheme} ${width}`).toEqual([])
    // Nothing may be cut off, or need scrolling in two directions.
    const overflow = await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')
    expect(overflow, `${page.url()} is wider than ${width}`).toBeLessThanOrEqual(0)
  }
  await page.emulateMedia({ colorScheme: null })
  if (size !== null) await page.setViewportSize(size)
}
