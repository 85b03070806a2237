import type { Page } from 'playwright-core'

export interface Acting {
  /** What the button that opens the dialog says. */
  open: string
  /** In which row or card; the first of the page when left out. */
  within?: string
  reason?: string
  /** By label. */
  fields?: Readonly<Record<string, string>>
  /** What the button of the dialog says. */
  verb: string
}

/** Opens the dialog of an act, waits for its preview, fills it in and confirms. Gives what the preview said. */
export async function act(page: Page, { open, within, reason = 'a test', fields = {}, verb }: Acting): Promise<string> {
  const place = within === undefined ? page.getByRole('main') : page.locator(within)
  await place.getByRole('button', { name: open, exact: true }).first().click()
  const dialog = page.getByRole('dialog')
  for (const [label, value] of Object.entries(fields)) await dialog.getByLabel(label).fill(value)
  const preview = dialog.locator('.preview')
  await preview.filter({ hasNotText: 'Asking the server' }).waitFor()
  const said = (await preview.textContent()) ?? ''
  if (reason !== '') await dialog.getByLabel('Reason').fill(reason)
  await dialog.getByRole('button', { name: verb, exact: true }).click()
  return said
}

/** What was done, as the corner of the page says it. */
export const told = (page: Page) => page.getByRole('log')
