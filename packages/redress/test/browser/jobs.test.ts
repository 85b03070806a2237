import type { Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { expectAccessible } from '../../../../test/support/browser/axe.ts'
import { until } from '../../../../test/support/until.ts'
import { told } from './actions.ts'
import { makeDesk } from './desk.ts'

const list = (line: string): string => `/jobs?q=${encodeURIComponent(line)}`
const lineOf = (page: Page): string | null => new URL(page.url()).searchParams.get('q')
const table = (page: Page) => page.getByRole('table', { name: 'Jobs, the newest first' })
/** The jobs of the list by their ids, from the top. */
const shown = (page: Page): Promise<(string | null)[]> =>
  page.locator('tr[data-row]').evaluateAll((rows) => rows.map((row) => row.getAttribute('data-row')))

describe('finding jobs', () => {
  test('the filter line is completed by keyboard, applied at once, and kept in the address', async () => {
    const desk = await makeDesk()
    const page = await desk.open('/jobs')
    await table(page).waitFor()
    await page.keyboard.press('/')
    const field = page.getByRole('combobox', { name: 'Find jobs' })
    await page.keyboard.type('sta')
    const options = page.getByRole('listbox').getByRole('option')
    await page.getByRole('option', { name: 'status: how it stands' }).waitFor()
    await page.keyboard.press('ArrowDown')
    expect(await options.first().getAttribute('aria-selected')).toBe('true')
    expect(await field.getAttribute('aria-activedescendant')).toBe(await options.first().getAttribute('id'))
    await page.keyboard.press('Enter')
    expect(await field.inputValue()).toBe('status:')
    await page.keyboard.type('fa')
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('Enter')
    await until('the address has it', () => lineOf(page) === 'status:failed')
    // What is known to be there is offered, and a word is enough to find it.
    await page.keyboard.type('pdf')
    await page.getByRole('option', { name: 'type:pdf.convert' }).click()
    await until('both are in the address', () => lineOf(page) === 'status:failed type:pdf.convert')
    await until('only what fits is listed', async () => (await shown(page)).length === 1)
    await table(page).getByText('NOT_PDF').waitFor()
    await page.keyboard.type('o')
    await page.getByRole('option', { name: 'owner:' }).waitFor()
    await expectAccessible(page)

    // The address is all there is to it: whoever gets it sees the same.
    await page.reload()
    await until('it is found again', async () => (await shown(page)).length === 1)
    expect(await field.inputValue()).toBe('status:failed type:pdf.convert')
    await page.goBack()
    await until('the way back leads to the filter before', async () => (await field.inputValue()) === 'status:failed')
  })

  test('an invalid filter is explained, with a suggestion', async () => {
    const desk = await makeDesk()
    const page = await desk.open(list('sttus:failed'))
    const problem = page.getByRole('alert')
    await problem.getByText('There is no qualifier “sttus:”. Did you mean “status:”?').waitFor()
    await page.getByText('Nothing is listed until the filter can be read.').waitFor()
    expect(await page.getByRole('combobox').getAttribute('aria-invalid')).toBe('true')
    await expectAccessible(page)
    await problem.getByRole('link', { name: 'Use status:failed' }).click()
    await table(page).waitFor()
    expect(lineOf(page)).toBe('status:failed')

    const field = page.getByRole('combobox')
    await field.fill('status:faild')
    await field.press('Enter')
    await page.getByText('No job has the status “faild”. Did you mean “failed”?').waitFor()
    await field.fill('type:pdf.convrt')
    await field.press('Enter')
    await page.getByText('No job fits this filter.').waitFor()
    await page.getByRole('link', { name: 'type:pdf.convert' }).click()
    await table(page).waitFor()
    // What only the server can judge is said in its words.
    await field.fill('x'.repeat(501))
    await field.press('Enter')
    await page.getByRole('alert').getByText('The input of jobs.list is invalid').waitFor()
  })

  test('status counts link to the jobs of that status, as the CLI lists them', async () => {
    const desk = await makeDesk()
    const context = { permissions: ['clipboard-read', 'clipboard-write'] }
    const page = await desk.open(list('owner:ann age:<24h'), { context })
    const counts = page.getByRole('navigation', { name: 'By status' })
    await counts.getByRole('link', { name: 'failed 5' }).click()
    await until('only failed ones are listed', async () => (await shown(page)).length === 5)
    expect(lineOf(page)).toBe('status:failed owner:ann age:<24h')
    expect(await counts.getByRole('link', { name: 'failed 5' }).getAttribute('aria-current')).toBe('true')
    await page.getByRole('button', { name: 'Copy as CLI' }).click()
    await told(page).getByText('Copied').waitFor()
    const copied = await page.evaluate<string>('navigator.clipboard.readText()')
    expect(copied).toBe('redress jobs list --status failed --owner ann --since 24h')
    await counts.getByRole('link', { name: 'failed 5' }).click()
    await until('every status is listed again', () => lineOf(page) === 'owner:ann age:<24h')
    // The field follows the address a moment later, and would take back what is typed before that.
    const field = page.getByRole('combobox')
    await until('the field says so, too', async () => (await field.inputValue()) === lineOf(page))
    await page.getByRole('combobox').fill('age:>1h')
    await page.getByRole('combobox').press('Enter')
    await counts.getByRole('link', { name: 'complete 30' }).waitFor()
    await until('only the old ones are listed', async () => (await shown(page)).length === 30)
  })

  test('views are saved, applied and removed in this browser', async () => {
    const desk = await makeDesk()
    const page = await desk.open('/jobs')
    const views = page.getByRole('navigation', { name: 'Views' })
    await views.getByRole('link', { name: 'Failed today' }).click()
    await until('it is applied', () => lineOf(page) === 'status:failed age:<24h')
    await views.getByRole('link', { name: 'Mine' }).click()
    await page.getByText('No job fits this filter.').waitFor()
    expect(lineOf(page)).toBe('owner:olga')

    await page.getByRole('combobox').fill('code:NOT_PDF owner:ann')
    await page.getByRole('combobox').press('Enter')
    await page.getByRole('button', { name: 'Save as a view' }).click()
    await page.getByLabel('Name of the view').fill('Not ours')
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    await views.getByRole('link', { name: 'All' }).click()
    await page.reload()
    await views.getByRole('link', { name: 'Not ours' }).click()
    await until('it is applied', () => lineOf(page) === 'code:NOT_PDF owner:ann')
    expect(await views.getByRole('link', { name: 'Not ours' }).getAttribute('aria-current')).toBe('true')
    await views.getByRole('button', { name: 'Remove the view Not ours' }).click()
    await page.reload()
    await views.getByRole('link', { name: 'All' }).waitFor()
    expect(await views.getByRole('link', { name: 'Not ours' }).count()).toBe(0)
  })

  test('older jobs are on the next page, and the first page is reachable again', async () => {
    const desk = await makeDesk()
    const page = await desk.open('/jobs', { context: { viewport: { width: 1280, height: 300 } } })
    await until('a page is full', async () => (await shown(page)).length === 50)
    const newest = await shown(page)
    await page.getByRole('link', { name: 'Older' }).click()
    await page.getByText('These are the oldest.').waitFor()
    expect((await shown(page)).filter((id) => newest.includes(id))).toEqual([])
    await page.getByRole('link', { name: 'Newest' }).click()
    await until('the newest are there', async () => (await shown(page))[0] === newest[0])
    // A page that was looked at before is there at once, and is read from its top, too.
    await page.getByRole('link', { name: 'Older' }).click()
    await page.getByText('These are the oldest.').waitFor()
    expect(await page.evaluate('scrollY')).toBe(0)
  })

  test('a filter without matches shows an explanation', async () => {
    const desk = await makeDesk({ story: async () => undefined })
    const page = await desk.open('/jobs')
    await page.getByText('There is no job yet.').waitFor()
    await expectAccessible(page)
  })
})

describe('an open job list', () => {
  test('keeps its rows while jobs change, and new jobs appear on request', async () => {
    const desk = await makeDesk()
    const page = await desk.open(list('status:failed type:thumb.render'))
    await until('three are listed', async () => (await shown(page)).length === 3)
    const before = await shown(page)
    const [first = ''] = before as string[]
    const row = page.locator(`tr[data-row="${first}"]`)
    const sinceMs = performance.now()
    let counts = 0
    page.on('request', (request) => {
      if (request.url().includes('/jobs/count')) counts++
    })

    // Somebody else retries one: it stays where it is, and says how it stands now.
    await desk.app.perform('jobs.retry', { id: first, actor: 'otto', reason: 'a test' })
    await row.getByText('queued').waitFor()
    await row.getByText('Held by queue media').waitFor()
    expect(await shown(page)).toEqual(before)

    await desk.app.perform('queues.resume', { name: 'media', actor: 'otto', reason: 'a test' })
    for (let i = 0; i < 2; i++) await desk.app.submit('thumb.render', { does: 'break' })
    await desk.kit.tick()
    const news = page.getByRole('button', { name: '2 new' })
    await news.waitFor()
    await row.getByText('failed').waitFor()
    expect(await shown(page)).toEqual(before)
    await news.click()
    await until('the new ones are in', async () => (await shown(page)).length === 5)
    expect((await shown(page)).slice(2)).toEqual(before)
    expect(await page.getByRole('button', { name: '2 new' }).count()).toBe(0)
    // Rows follow at once. To count costs the server more: each of the five statuses is counted once in 5 s.
    expect(counts).toBeLessThanOrEqual(5 * (Math.floor((performance.now() - sinceMs) / 5_000) + 1))
  })

  test('works by keyboard alone, and an action keeps filter, position and focus', async () => {
    const desk = await makeDesk()
    const page = await desk.open(list('status:failed'), { context: { viewport: { width: 1280, height: 300 } } })
    await until('they are listed', async () => (await shown(page)).length === 9)
    const ids = (await shown(page)) as string[]
    for (const key of ['j', 'j', 'j', 'j', 'j', 'k']) await page.keyboard.press(key)
    const current = page.locator('tr.current')
    const isAt = (at: number) => page.locator(`tr.current[data-row="${ids[at]}"]`).waitFor()
    const focused = () => page.evaluate<string | null>(`document.activeElement.getAttribute('data-job')`)
    await isAt(3)
    expect(await focused()).toBe(ids[3])
    const scrolled = await page.evaluate<number>('scrollY')
    expect(scrolled).toBeGreaterThan(0)

    await page.keyboard.press('r')
    const dialog = page.getByRole('dialog', { name: 'Retry this job' })
    await dialog.getByText('sends it back to the queue').waitFor()
    await dialog.getByLabel('Reason').press('j')
    // A letter that is typed is a letter.
    expect(await dialog.getByLabel('Reason').inputValue()).toBe('j')
    await isAt(3)
    await page.keyboard.type('ust a try')
    await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    await told(page).getByText(`Job ${ids[3]} is back in the queue.`).waitFor()
    await current.getByText('queued').waitFor()
    expect(lineOf(page)).toBe('status:failed')
    expect(await shown(page)).toEqual(ids)
    expect(await page.evaluate<number>('scrollY')).toBe(scrolled)
    expect(await focused()).toBe(ids[3])
    // It cannot be retried twice, and says so.
    await page.keyboard.press('r')
    await told(page).getByText('only a failed job can be retried; this one is queued').waitFor()

    await page.keyboard.press('?')
    const keys = page.getByRole('dialog', { name: 'Keys of this page' })
    // By its tag: a closed dialog has no role any more, but it is still there until the browser sends its close event.
    const keysAreGone = () => page.locator('dialog').waitFor({ state: 'detached' })
    await keys.getByText('Open the job').waitFor()
    await expectAccessible(page)
    await keys.getByLabel('Use these keys in this browser').uncheck()
    await page.keyboard.press('Escape')
    // A key does nothing while a dialog is open.
    await keysAreGone()
    await page.keyboard.press('j')
    await isAt(3)
    await page.keyboard.press('?')
    await keys.getByLabel('Use these keys in this browser').check()
    await page.keyboard.press('Escape')
    await keysAreGone()
    await page.keyboard.press('j')
    await isAt(4)
    await page.keyboard.press('Enter')
    await page.waitForURL(`**/jobs/${ids[4]}`)
    // The address changes first. Until the page of the job is loaded, the old list is still there.
    await until('the list is gone', async () => (await shown(page)).length === 0)
    await page.goBack()
    await until('the list is there again', async () => (await shown(page)).length > 0)
    await page.keyboard.press('j')
    await current.waitFor()
    await page.keyboard.press('o')
    await page.waitForURL('**/jobs/*')
  })

  test('a viewer sees why a retry is not allowed', async () => {
    const desk = await makeDesk()
    const page = await desk.open(list('status:failed'), { as: 'viewer' })
    await until('they are listed', async () => (await shown(page)).length === 9)
    await page.keyboard.press('j')
    await page.keyboard.press('r')
    await told(page).getByText('This needs the role operator; vera has viewer.').waitFor()
    expect(await page.getByRole('dialog').count()).toBe(0)
  })

  test('an owner sees only their own jobs, whatever the filter', async () => {
    const desk = await makeDesk()
    const page = await desk.open(list('owner:bob type:mail.send'), { as: 'owner' })
    await until('they are listed', async () => (await shown(page)).length > 0)
    const owners = await page.locator('td[data-head="Owner"]').allTextContents()
    expect(owners).toEqual(Array(6).fill('ann'))
    expect(await page.getByRole('navigation', { name: 'Views' }).getByRole('link', { name: 'Mine' }).count()).toBe(0)
    expect(await page.getByRole('alert').count()).toBe(0)
    await expectAccessible(page)
  })
})
