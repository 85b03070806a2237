import { AxeBuilder } from '@axe-core/playwright'
import type { Page } from 'playwright-core'
import { expect } from 'vitest'

const LOOKS = [
  ['light', 1280],
  ['dark', 1280],
  ['light', 360],
] as const

/** No violations: as it stands, in both themes, and at the width of a small phone. */
export async function expectAccessible(page: Page): Promise<void> {
  const size = page.viewportSize()
  for (const [colorScheme, width] of LOOKS) {
    await page.emulateMedia({ colorScheme })
    await page.setViewportSize({ width, height: 800 })
    // There are no frames in these pages; without them in mind it need not open a page of its own.
    const { violations } = await new AxeBuilder({ page })
      .setLegacyMode()
      .options({ resultTypes: ['violations'] })
      .analyze()
    const found = violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html }) => html).join(' ')}`)
    expect(found, `${page.url()} ${colorScheme} ${width}`).toEqual([])
    // Nothing may be cut off, or need scrolling in two directions.
    const overflow = await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')
    expect(overflow, `${page.url()} is wider than ${width}`).toBeLessThanOrEqual(0)
  }
  await page.emulateMedia({ colorScheme: null })
  if (size !== null) await page.setViewportSize(size)
}
