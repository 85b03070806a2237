import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import type { Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, onTestFinished, test } from 'vitest'
import { expectAccessible } from '../../../test/support/browser/axe.ts'
import { until } from '../../../test/support/until.ts'
import { type Gateway, startGateway } from '../src/gateway/server.ts'
import { choose, comesToSay, countPolls, drop, rowOf, tooLargeFile, untilSaid, visit } from './convert-page.ts'
import { pdfSaying, Rig, type RigOptions } from './rig.ts'

let gateway: Gateway
const pdfs: Uint8Array[] = []
beforeAll(async () => {
  gateway = await startGateway({ faults: true, parsers: 1 })
  for (const word of ['one', 'two', 'three']) pdfs.push(await pdfSaying(`Hello ${word}`))
})
const faults = (fault: object) =>
  fetch(`${gateway.url}/faults`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(fault),
  })
afterEach(() => fetch(`${gateway.url}/faults`, { method: 'DELETE' }))
afterAll(async () => {
  await gateway.stop()
})

const pdf = (index: number): Uint8Array => pdfs[index] as Uint8Array
const rig = (options: Partial<RigOptions> = {}) => Rig.open({ gatewayUrl: gateway.url, ...options })
const WITHOUT_SCRIPT = { javaScriptEnabled: false } as const
const button = (page: Page, name: string, row: string) => rowOf(page, row).getByRole('button', { name })

/**
 * Takes one job at a time, and only when it is told to. It goes on showing itself meanwhile: a worker that nobody has seen
 * for half a minute is taken for gone, and on a busy machine a test takes as long as that.
 */
async function slowWorker({ app }: Rig) {
  const worker = await app.makeWorker({ concurrency: 1, pollMs: 2 ** 31 })
  await worker.tick()
  const seen = setInterval(() => void worker.maintain(), 1_000)
  onTestFinished(() => clearInterval(seen))
  return worker
}

async function openBreaker({ app }: Rig): Promise<void> {
  await app.perform('breakers.open', { name: 'gateway', actor: 'olga', reason: 'a drill' })
}
async function releaseBreaker({ app }: Rig): Promise<void> {
  await app.perform('breakers.release', { name: 'gateway', actor: 'olga', reason: 'the drill is over' })
}

test('without script a form sends the file, the page reloads itself while it is converted, and a link gives the XML', async () => {
  const made = await rig({ hasWorker: false })
  const page = await visit(made, '/convert', WITHOUT_SCRIPT)
  expect(await page.locator('meta[http-equiv=refresh]').count()).toBe(0)
  await choose(page, { name: 'Annual report.pdf', content: pdf(0) })
  await page.getByLabel('Mapping').selectOption('layout')
  await page.getByRole('button', { name: 'Convert' }).click()
  await untilSaid(page, 'Annual report.pdf', 'Waiting')
  expect(await rowOf(page, 'Annual report.pdf').getAttribute('class')).toContain('marked')
  expect(await page.locator('meta[http-equiv=refresh]').getAttribute('content')).toBe('5')
  await page.getByRole('link', { name: 'Stop that' }).click()
  expect(await page.locator('meta[http-equiv=refresh]').count()).toBe(0)

  await made.app.work({ pollMs: 20 })
  await until('it is converted', async () => (await made.app.jobs.list({ status: 'complete' })).jobs.length === 1)
  await page.goto('/convert')
  await untilSaid(page, 'Annual report.pdf', /^Done 1 page, .* of XML$/)
  expect(await page.locator('meta[http-equiv=refresh]').count()).toBe(0)
  const downloading = page.waitForEvent('download')
  await page.getByRole('link', { name: 'Download' }).click()
  const download = await downloading
  expect(download.suggestedFilename()).toBe('Annual report.xml')
  expect(await text(await download.createReadStream())).toContain('>Hello<')
})

test('without JavaScript the page shows refusals and duplicates in one line [D5 D25]', async () => {
  const made = await rig()
  const page = await visit(made, '/convert', WITHOUT_SCRIPT)
  const send = () => page.getByRole('button', { name: 'Convert' }).click()
  const said = page.locator('#said')
  await choose(page, { name: 'notes.pdf', content: 'only text' })
  await send()
  await said.getByText('Only PDF files are supported. Send a PDF').waitFor()
  await untilSaid(page, 'notes.pdf', 'Failed Only PDF files are supported.')
  expect(await rowOf(page, 'notes.pdf').getByRole('button').count()).toBe(0)
  await page.locator('input[type=file]').setInputFiles(tooLargeFile())
  await send()
  await said.getByText('File exceeds 50 MB limit. Split the file').waitFor()
  await choose(page, { name: 'report.pdf', content: pdf(0) })
  await send()
  await rowOf(page, 'report.pdf').waitFor()
  expect(await said.textContent()).toBe('')
  await choose(page, { name: 'the same.pdf', content: pdf(0) })
  await send()
  await said.getByText('You have already sent this file.').waitFor()
  expect(await page.locator('.marked .name').textContent()).toBe('report.pdf')
  await page.goto('/convert?said=You+have+won&id=<b>')
  expect(await said.textContent()).toBe('')
})

test('a form without a file, or with an unknown mapping, is answered with the page', async () => {
  const visitor = (await rig({ hasWorker: false })).visitor()
  const form = (...parts: string[]) => ({
    method: 'POST',
    headers: { 'content-type': 'multipart/form-data; boundary=x-x' },
    body: `${parts.map((part) => `--x-x\r\ncontent-disposition: form-data; ${part}\r\n`).join('')}--x-x--\r\n`,
  })
  const noFile = form('name="file"; filename=""\r\ncontent-type: application/octet-stream\r\n\r\n')
  const noMapping = form('name="file"; filename="a.pdf"\r\n\r\n%PDF-1.7', 'name="mapping"\r\n\r\nnone')
  const answers = await Promise.all([form(), noFile, noMapping].map((wrong) => visitor.ask('/convert', wrong)))
  expect(answers.map(({ status }) => status)).toEqual([303, 303, 303])
  expect(answers.map(({ headers }) => headers.get('location')?.replace(/&id=.*/, ''))).toEqual([
    '/convert?said=no-file',
    '/convert?said=no-file',
    '/convert?said=mapping',
  ])
  expect((await visitor.ask('/convert?said=no-file')).text).toContain('There was no file to convert.')
})

test('several files that are dropped at once are sent, converted and announced; then the page asks no more', async () => {
  const made = await rig({ hasWorker: false })
  const page = await visit(made)
  // Only from now on: what the page has begun by itself goes by this clock.
  await page.clock.install()
  const polls = countPolls(page)
  await drop(page, ...[0, 1, 2].map((i) => ({ name: `part ${i}.pdf`, content: pdf(i) })))
  await expect.poll(() => page.locator('#rows .row').count()).toBe(3)
  expect(await page.locator('#sending .row').count()).toBe(0)
  await made.app.work({ pollMs: 20 })
  for (const i of [0, 1, 2]) await comesToSay(page, `part ${i}.pdf`, 'Done')
  expect(await page.locator('#announced').textContent()).toMatch(/part \d\.pdf: Done 1 page/)
  const before = polls()
  await page.clock.runFor(60_000)
  // A request that its timers had caused would be known of before the answer to this one.
  await page.evaluate(`fetch('/healthz')`)
  expect(polls()).toBe(before)

  // Somebody comes back to it: it looks once.
  await page.evaluate(`document.dispatchEvent(new Event('visibilitychange'))`)
  await expect.poll(polls).toBe(before + 1)
})

test('with JavaScript, a file that is no PDF or too large is refused before it is sent, and refusals of the server are shown', async () => {
  const made = await rig({ hasWorker: false })
  const page = await visit(made)
  const sending = page.locator('#sending .row')
  const uploads: string[] = []
  page.on('request', (request) => request.method() === 'POST' && uploads.push(request.url()))
  await choose(page, { name: 'notes.pdf', content: 'only text' })
  await sending.getByText('Only PDF files are supported. Send a PDF').waitFor()
  await sending.getByRole('button', { name: 'Remove' }).click()
  await page.locator('input[type=file]').setInputFiles(tooLargeFile())
  await sending.getByText('File exceeds 50 MB limit. Split the file').waitFor()
  expect(uploads).toEqual([])
  await sending.getByRole('button', { name: 'Remove' }).click()

  await page.route('**/api/upload', (route) => route.abort(), { times: 1 })
  await choose(page, { name: 'report.pdf', content: pdf(0) })
  await sending.getByText('Not connected. Send it again').waitFor()
  await sending.getByRole('button', { name: 'Send again' }).click()
  await rowOf(page, 'report.pdf').waitFor()
  expect(await sending.count()).toBe(0)
  await choose(page, { name: 'again.pdf', content: pdf(0) })
  await sending.getByText('You have already sent this file.').waitFor()
  await page.locator('.marked .name', { hasText: 'report.pdf' }).waitFor()
})

test('a failed row shows one line and a Retry link, which is disabled without its source [D24 D26 E20 E27]', async () => {
  const made = await rig()
  await faults({ status: 400, count: 2 })
  const page = await visit(made)
  await choose(page, { name: 'a.pdf', content: pdf(0) }, { name: 'b.pdf', content: pdf(1) })
  for (const name of ['a.pdf', 'b.pdf']) {
    await untilSaid(page, name, 'Failed Couldn’t convert this file with the selected mapping.')
  }
  await button(page, 'Retry a.pdf', 'a.pdf').click()
  await untilSaid(page, 'a.pdf', 'Done')

  const uploads = join(made.folder, 'pdf-xml/uploads')
  for (const file of readdirSync(uploads)) rmSync(join(uploads, file), { recursive: true })
  // Somebody who has the page open is told when they try.
  await button(page, 'Retry b.pdf', 'b.pdf').click()
  await page.locator('#said').getByText('File was removed by retention. Re-upload to regenerate.').waitFor()
  await page.reload()
  expect(await button(page, 'Retry', 'b.pdf').isDisabled()).toBe(true)
  await rowOf(page, 'b.pdf').getByText('File was removed by retention. Re-upload to regenerate.').waitFor()
  const results = join(made.folder, 'pdf-xml/results')
  for (const file of readdirSync(results)) rmSync(join(results, file), { recursive: true })
  await page.reload()
  await untilSaid(page, 'a.pdf', 'Expired File was removed by retention.')
  expect(await rowOf(page, 'a.pdf').getByRole('link').count()).toBe(0)
  await expectAccessible(page)

  // The page does not go with the folder: what is done can still be had.
  rmSync(uploads, { recursive: true })
  await page.reload()
  await page.getByText('Uploads are paused – where files are kept cannot be reached at the moment.').waitFor()
})

test("a visitor can neither see nor retry another visitor's conversion [D22]", async () => {
  const made = await rig()
  await faults({ status: 400 })
  const ann = await visit(made)
  await choose(ann, { name: 'private.pdf', content: pdf(0) })
  await untilSaid(ann, 'private.pdf', 'Failed')
  const [job] = (await made.app.jobs.list()).jobs
  const ben = await visit(made, `/convert?id=${job?.id}`, WITHOUT_SCRIPT)
  expect(await ben.locator('body').textContent()).not.toContain('private.pdf')
  const origin = made.url
  const answer = await ben.request.post(`/convert/jobs/${job?.id}/retry`, {
    headers: { origin },
    maxRedirects: 0,
    form: {},
  })
  expect([answer.status(), answer.headers().location]).toEqual([303, '/convert?said=forbidden'])
  await ben.goto('/convert?said=forbidden')
  await ben.getByText('This file isn’t yours.').waitFor()
  expect((await made.app.jobs.find(job?.id ?? ''))?.status).toBe('failed')
  const state = await ben.request.get(`/convert/state?id=${job?.id}`)
  expect([state.status(), (await state.json()).rows]).toEqual([200, []])
  expect((await made.visitor().ask(`/convert/state?id=${job?.id}`)).status).toBe(401)
})

test('the busy banner and the rows appear while the breaker is open and disappear when it closes [D19 E13 E27]', async () => {
  const made = await rig({ hasWorker: false })
  const worker = await slowWorker(made)
  await openBreaker(made)
  const page = await visit(made)
  const banner = page.locator('#banner')
  await banner.getByText('Converter busy — jobs will resume automatically.').waitFor()
  await choose(page, { name: 'a.pdf', content: pdf(0) })
  await untilSaid(page, 'a.pdf', 'Gateway busy, paused. Will retry automatically.')
  await releaseBreaker(made)
  await comesToSay(page, 'a.pdf', 'Waiting, next in line')
  await expect.poll(() => banner.textContent()).toBe('')
  await worker.tick()
  await untilSaid(page, 'a.pdf', 'Done')
})

test('the page says when conversions fail fast and when uploads are paused [D20]', async () => {
  const made = await rig({
    env: { CIRCUIT_MODE: 'fail-fast', DISK_FREE_HARD_MB: '99000000', DISK_FREE_SOFT_MB: '99000000' },
  })
  await openBreaker(made)
  const page = await visit(made)
  await page.getByText('Converter is down – new conversions fail at once. Retry them when it is back.').waitFor()
  await page.getByText('Uploads are paused – there is no room for more files at the moment.').waitFor()
  await choose(page, { name: 'a.pdf', content: pdf(0) })
  await page.locator('#sending').getByText('Uploads are paused').waitFor()
  await page.getByRole('button', { name: 'Send again a.pdf' }).waitFor()
})

test('a waiting conversion shows its position in the whole queue and can be cancelled', async () => {
  const made = await rig({ hasWorker: false })
  await slowWorker(made)
  await made.visitor().uploaded(pdf(0))
  const page = await visit(made)
  await choose(page, { name: 'a.pdf', content: pdf(1) })
  await untilSaid(page, 'a.pdf', 'Waiting, 2nd in line')
  await choose(page, { name: 'b.pdf', content: pdf(2) })
  await untilSaid(page, 'b.pdf', 'Waiting, 3rd in line')
  await button(page, 'Cancel a.pdf', 'a.pdf').click()
  await untilSaid(page, 'a.pdf', 'Cancelled')
  await untilSaid(page, 'b.pdf', 'Waiting, 2nd in line')
  const others = Array.from({ length: 250 }, () => ({ fileName: 'x.pdf', mapping: 'text', bytes: 5, sha256: null }))
  await made.app.submitMany('pdf.convert', others)
  await untilSaid(page, 'b.pdf', 'Waiting in a line of 252')
})

test('a conversion that waits for a retry shows when and why, without internals [D29]', async () => {
  const made = await rig({ env: { RETRY_BASE_DELAY_MS: '3600000' } })
  await faults({ status: 503 })
  const page = await visit(made)
  await choose(page, { name: 'a.pdf', content: pdf(0) })
  const words = 'Converter service is having an issue. We’ll retry shortly.'
  await untilSaid(page, 'a.pdf', new RegExp(`^Waiting to try again at \\d\\d:\\d\\d [AP]M ${words}$`))
})

test('a page that cannot reach the server says so, retries and continues', async () => {
  const made = await rig({ hasWorker: false })
  const page = await visit(made)
  await choose(page, { name: 'a.pdf', content: pdf(0) })
  await untilSaid(page, 'a.pdf', 'Waiting')
  await page.route('**/convert/state**', (route) => route.abort())
  await page.getByText('Not connected. Trying again…').waitFor()
  await page.unroute('**/convert/state**')
  await made.app.work({ pollMs: 20 })
  await comesToSay(page, 'a.pdf', 'Done')
  expect(await page.locator('#connection').textContent()).toBe('')
})

test('names that would be markup, turn the text around or have no end are text, and break no layout', async () => {
  const made = await rig({ hasWorker: false })
  const page = await visit(made)
  const names = ['<img src=x onerror=alert(1)>.pdf', 'a\u202Efdp.exe.pdf', `${'W'.repeat(220)}.pdf`]
  await drop(page, ...names.map((name, i) => ({ name, content: pdf(i) })))
  await expect.poll(() => page.locator('#rows .row').count()).toBe(3)
  expect(await page.locator('#rows img').count()).toBe(0)
  expect(await page.locator('#rows .name').allTextContents()).toEqual(
    expect.arrayContaining(['<img src=x onerror=alert(1)>.pdf', 'afdp.exe.pdf', 'W'.repeat(200)]),
  )
  await choose(page, { name: names[0] as string, content: 'no PDF' })
  await page.locator('#sending .row').getByText('Only PDF').waitFor()
  await expectAccessible(page)
})

test('everything can be done by keyboard, and the focus stays where it was when rows change', async () => {
  const made = await rig({ hasWorker: false })
  const worker = await slowWorker(made)
  const page = await visit(made)
  const choosing = page.waitForEvent('filechooser')
  await page.keyboard.press('Tab')
  const focused = () => page.evaluate<string>(`document.activeElement.name || document.activeElement.textContent`)
  expect(await focused()).toBe('file')
  const outline = await page.evaluate<string>(`getComputedStyle(document.querySelector('.drop')).outlineStyle`)
  expect(outline).toBe('solid')
  await page.keyboard.press('Enter')
  await (await choosing).setFiles({ name: 'a.pdf', mimeType: 'application/pdf', buffer: Buffer.from(pdf(0)) })
  await untilSaid(page, 'a.pdf', 'Waiting')
  await page.keyboard.press('Tab')
  expect(await focused()).toBe('mapping')
  await page.keyboard.press('Tab')
  await page.keyboard.press('Enter')
  await untilSaid(page, 'a.pdf', 'Cancelled')
  // The button is gone with what it could do; its row is still where the reader is.
  expect(await page.evaluate(`document.activeElement.querySelector('.name')?.textContent`)).toBe('a.pdf')
  await faults({ status: 400, count: 1 })
  await choose(page, { name: 'b.pdf', content: pdf(1) })
  await untilSaid(page, 'b.pdf', 'Waiting')
  await worker.tick()
  await untilSaid(page, 'b.pdf', 'Failed')
  await button(page, 'Retry', 'b.pdf').focus()
  await page.keyboard.press('Space')
  await untilSaid(page, 'b.pdf', 'Waiting')
  await worker.tick()
  await untilSaid(page, 'b.pdf', 'Done')
  await page.keyboard.press('Tab')
  expect(await focused()).toBe('Download b.pdf')
})

test('an operator sees their own conversions and a link to all of them; a visitor has no such link', async () => {
  const made = await rig({ hasWorker: false })
  const { code } = await made.app.perform('sign-in-links.create', { role: 'viewer', name: 'vera', actor: 'adam' })
  const page = await visit(made)
  expect(await page.getByRole('link', { name: 'All conversions' }).count()).toBe(0)
  await choose(page, { name: 'a.pdf', content: pdf(0) })
  await untilSaid(page, 'a.pdf', 'Waiting')
  await page.request.post('/sign-in', { data: { code }, headers: { origin: made.url } })
  await page.reload()
  expect(await rowOf(page, 'a.pdf').count()).toBe(0)
  await choose(page, { name: 'b.pdf', content: pdf(1) })
  await button(page, 'Cancel b.pdf', 'b.pdf').click()
  await untilSaid(page, 'b.pdf', 'Cancelled')
  await page.getByRole('link', { name: 'All conversions' }).click()
  await page
    .getByRole('link', { name: /pdf\.convert/ })
    .first()
    .waitFor()
  expect(new URL(page.url()).searchParams.get('q')).toBe('type:pdf.convert')
})

test('older conversions are on pages of their own', async () => {
  const made = await rig({ hasWorker: false })
  const page = await visit(made)
  const cookie = (await page.context().cookies()).find(({ name }) => name === 'pdf-xml')
  const input = { mapping: 'text', bytes: 5, sha256: null }
  const inputs = Array.from({ length: 25 }, (_, i) => ({ ...input, fileName: `${i}.pdf` }))
  await made.app.submitMany('pdf.convert', inputs, { owner: cookie?.value.split('.')[0] as string })
  await page.reload()
  expect(await page.locator('#rows .name').first().textContent()).toBe('24.pdf')
  await page.getByRole('link', { name: 'Older' }).click()
  await rowOf(page, '0.pdf').waitFor()
  expect(await page.locator('#rows .row').count()).toBe(5)
  expect(await page.getByRole('link', { name: 'Older' }).count()).toBe(0)
})
