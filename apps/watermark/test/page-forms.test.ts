import { beforeAll, beforeEach, expect, test } from 'vitest'
import type { Shown } from '../../../test/support/apps/client.ts'
import { expectAccessible } from '../../../test/support/browser/axe.ts'
import { badgeOf, rowOf, signInCode, visit, WITHOUT_SCRIPT } from './campaign-page.ts'
import { Rig } from './rig.ts'
import { outOfMemory, VIDEO } from './stand-in.ts'

let rig: Rig
beforeAll(async () => {
  rig = await Rig.open()
})
beforeEach(() => {
  rig.media.onMark = () => undefined
})

const noScript = { context: { ...WITHOUT_SCRIPT, timezoneId: 'America/New_York' } }
const file = (name: string, content: Uint8Array | string) => ({
  name,
  mimeType: 'application/octet-stream',
  buffer: Buffer.from(content),
})

test('without JavaScript a file becomes a draft and a campaign, problems are shown at their fields, and typed input is kept', async () => {
  const page = await visit(rig, '/campaigns', noScript)
  await page.getByLabel('Video or image').setInputFiles(file('notes.mov', 'only text'))
  await page.getByRole('button', { name: 'Upload' }).click()
  await page.getByRole('heading', { name: 'This is neither a video nor an image.' }).waitFor()
  await page.getByRole('link', { name: 'Back to the campaigns' }).click()
  await page.getByLabel('Video or image').setInputFiles(file('spring.mov', VIDEO))
  await page.getByRole('button', { name: 'Upload' }).click()
  await page.locator('#said').getByText('spring.mov was uploaded.').waitFor()
  await page.getByText('Your file is here: say who gets a copy of it.').waitFor()

  const field = (name: string) => page.locator(`[name="${name}"]:not([type=hidden])`)
  const written = 'name,email\n"Ray, Rita", rita@example.org\n\nnobody\nSam;sam@\nTom\trita@example.org'
  await field('name').fill('Spring & <Co>')
  await field('recipients').fill(written)
  await field('maxDownloads').fill('3')
  await field('expiresAt').fill('2030-03-01T10:30')
  await field('visible').uncheck()
  const answered = page.waitForResponse((response) => response.request().method() === 'POST')
  await page.getByRole('button', { name: 'Make a draft' }).click()
  expect((await answered).status()).toBe(400)
  expect(await page.locator('#problem-recipients > span').allTextContents()).toEqual([
    'Line 4: there is no email address; write Name, email.',
    'Line 5: "sam@" is no email address.',
    'Line 6: the address is that of line 2.',
  ])
  expect(await field('recipients').getAttribute('aria-describedby')).toContain('problem-recipients')
  expect(await field('recipients').inputValue()).toBe(written)
  expect(await field('name').inputValue()).toBe('Spring & <Co>')
  expect([await field('maxDownloads').inputValue(), await field('expiresAt').inputValue()]).toEqual([
    '3',
    '2030-03-01T10:30',
  ])
  expect([await field('visible').isChecked(), await field('invisible').isChecked()]).toEqual([false, true])

  await field('recipients').fill(written.replace('\nnobody\nSam;sam@', ''))
  await field('expiresAt').fill('2029-01-01T00:00')
  await page.getByRole('button', { name: 'Make a draft' }).click()
  await page.getByText('Line 4: the address is that of line 2.').waitFor()
  await field('recipients').fill('"Ray, Rita", rita@example.org\nSam;sam@example.org')
  await page.getByRole('button', { name: 'Make a draft' }).click()
  await page.getByText('A time to come, within ten years, or nothing.').waitFor()
  await field('expiresAt').fill('2030-03-01T10:30')
  await page.getByRole('button', { name: 'Make a draft' }).click()
  await page.locator('#said').getByText('Spring & <Co> is a draft.').waitFor()
  expect(await page.locator('#part-head').innerText()).toContain('Invisible mark only · 3 downloads each')
  const id = new URL(page.url()).pathname.split('/').at(-1)
  const draft = await rig.campaign(String(id))
  // What was typed is UTC, wherever the browser is.
  expect(draft).toMatchObject({ expiresAt: '2030-03-01T10:30:00.000Z', visible: false, invisible: true })
  expect(draft.tokens.map(({ name }: Shown) => name)).toEqual(['Ray, Rita', 'Sam'])

  await page.getByRole('button', { name: 'Publish' }).click()
  await page.locator('#said').getByText('Spring & <Co> is published.').waitFor()
  await rig.idle()
  await page.goto(`/campaigns/${id}`)
  expect(await badgeOf(page, 'Sam').textContent()).toBe('ACTIVE')
  const downloading = page.waitForEvent('download')
  await page.getByRole('link', { name: 'Links as CSV' }).click()
  expect((await downloading).suggestedFilename()).toBe(`links-${id}.csv`)
  // Two steps, so that no slip of the finger takes somebody's link away.
  await rowOf(page, 'Sam').locator('.revoke summary').click()
  await rowOf(page, 'Sam').getByRole('button', { name: 'Revoke it' }).click()
  await page.locator('#said').getByText('The link of Sam is revoked.').waitFor()
  expect(await badgeOf(page, 'Sam').textContent()).toBe('EXPIRED')
  // A clone can be corrected before it is made: its file, its end, and who gets it.
  await rig.as('ann').upload('/assets', VIDEO, 'again.mov')
  await page.getByRole('link', { name: 'Clone' }).click()
  expect([await field('name').inputValue(), await field('recipients').inputValue()]).toEqual([
    'Spring & <Co>',
    '"Ray, Rita", rita@example.org\nSam, sam@example.org',
  ])
  expect([await field('maxDownloads').inputValue(), await field('expiresAt').inputValue()]).toEqual([
    '3',
    '2030-03-01T10:30',
  ])
  expect([await field('visible').isChecked(), await field('invisible').isChecked()]).toEqual([false, true])
  expect(await page.locator('.asset', { has: page.locator(':checked') }).innerText()).toContain('spring.mov')
  await page.getByText('again.mov').click()
  await page.getByRole('button', { name: 'Make a draft' }).click()
  await page.locator('#said').getByText('Spring & <Co> is a draft.').waitFor()
  expect(await page.locator('.campaign-head').innerText()).toContain('again.mov')
  expect(await page.locator('#rows .name').allTextContents()).toEqual(['Ray, Rita', 'Sam'])
})

test('with script a file is refused on the spot, recipients come from a spreadsheet, and UTC is put into one’s own time', async () => {
  await rig.as('bob').upload('/assets', VIDEO, 'summer.mov')
  const page = await visit(rig, '/campaigns', { as: 'bob', context: { timezoneId: 'America/New_York' } })
  await page.getByText('Upload a file').click()
  await page.getByLabel('Video or image').setInputFiles(file('notes.mov', 'only text'))
  await page.getByRole('button', { name: 'Upload' }).click()
  await page.locator('form.upload .problem').getByText('This is neither a video nor an image.').waitFor()
  await page.getByLabel('Video or image').setInputFiles(file('autumn.mov', VIDEO))
  await page.getByRole('button', { name: 'Upload' }).click()
  await page.locator('#said').getByText('autumn.mov was uploaded.').waitFor()
  await page.locator('.asset .name', { hasText: 'autumn.mov' }).waitFor()
  await page
    .locator('[data-into]')
    .setInputFiles(file('people.csv', '\ufeffName,Email\r\n"Ray, Rita",rita@example.org\r\n'))
  await expect.poll(() => page.locator('[name=recipients]').inputValue()).toContain('"Ray, Rita",rita@example.org')
  await page.locator('[name=expiresAt]').fill('2030-03-01T10:30')
  expect(await page.locator('#hint-ends').textContent()).toMatch(/^For you, that is Mar 1, 2030, 5:30.AM\.$/)
  await expectAccessible(page)
  await page.getByRole('textbox', { name: 'Name' }).fill('Autumn')
  await page.getByRole('button', { name: 'Make a draft' }).click()
  await rowOf(page, 'Ray, Rita').waitFor()
})

test('sign-in returns visitors to the page they asked for', async () => {
  const { id } = await rig.published(['Rita'])
  await rig.idle()
  const page = await visit(rig, `/campaigns/${id}?show=failed`, { as: 'nobody' })
  await page.getByRole('heading', { name: 'Sign in' }).waitFor()
  await page.goto(`/sign-in?code=${await signInCode(rig, 'ann')}`)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByText('No copy failed.').waitFor()
  expect(new URL(page.url()).pathname).toBe(`/campaigns/${id}`)
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByRole('heading', { name: 'Sign in' }).waitFor()
  // Who did not say where: owners have campaigns, and operators have the dashboard.
  const landing = async (as: 'ann' | 'operator') => {
    const { status, headers } = await rig.as('nobody').form('/sign-in', { code: await signInCode(rig, as) })
    return [status, headers.get('location')]
  }
  expect([await landing('ann'), await landing('operator')]).toEqual([
    [303, '/campaigns'],
    [303, '/'],
  ])
})

test('a campaign is stopped in two steps, without script, too; then the page offers it no more', async () => {
  const { id } = await rig.published(['Rita'])
  await rig.idle()
  const page = await visit(rig, `/campaigns/${id}`, { context: WITHOUT_SCRIPT })
  await page.locator('.actions summary', { hasText: 'Stop' }).click()
  await page.getByRole('button', { name: 'Stop the campaign' }).click()
  await page.locator('#said').getByText('Spring is stopped.').waitFor()
  expect(await page.locator('#part-head .status-badge').textContent()).toBe('EXPIRED')
  expect(await page.getByText('Stop', { exact: true }).count()).toBe(0)
})

test('a recipient sees the progress of the copy, then gets it offered, and learns nothing about others', async () => {
  let go: () => void = () => undefined
  rig.media.onMark = () =>
    new Promise<void>((resolve) => {
      go = resolve
    })
  const { tokens } = await rig.published(['Rita'], { name: 'Secret plans', maxDownloads: 1 })
  await rig.kit.tick()
  const page = await visit(rig, tokens[0].link, { as: 'nobody' })
  await page.getByRole('heading', { name: 'Your copy is being prepared' }).waitFor()
  await page.getByText('0 %').waitFor()
  const text = await page.content()
  for (const secret of ['Secret plans', 'Rita', 'spring.mov', 'ann', 'script']) expect(text).not.toContain(secret)
  go()
  await rig.idle()
  await page.getByRole('heading', { name: 'Your copy is ready' }).waitFor()
  await expectAccessible(page)
  const downloading = page.waitForEvent('download')
  await page.getByRole('button', { name: 'Download' }).click()
  expect((await downloading).suggestedFilename()).toBe('spring.mp4')
  const gone = await page.goto(tokens[0].link)
  expect(gone?.status()).toBe(410)
  await page.getByRole('heading', { name: 'This link was used as often as it may be.' }).waitFor()
  expect(await page.getByRole('link').count()).toBe(0)
  await expectAccessible(page)
})

test('the page of a search shows the recipients or an inconclusive verdict, updates live, and offers no retry', async () => {
  const { id, tokens } = await rig.published(['Rita', 'Sam', 'Tom'])
  await rig.idle()
  const copy = await rig.as('nobody').get(tokens[1].link)
  const page = await visit(rig, `/campaigns/${id}`)
  await page.getByText('Whose copy is a file that leaked?').click()
  await page.getByLabel('The file').setInputFiles(file('leak.mp4', copy.text))
  await page.getByRole('button', { name: 'Look for the mark' }).click()
  await page.getByText('Waiting', { exact: true }).waitFor()
  await rig.idle()
  await page.getByText('This is the copy of Sam (sam@example.org).').waitFor()
  await page.getByText('The best of 1,000 unused marks scored 3.1.').waitFor()
  expect(await page.locator('.ranked .who').allTextContents()).toEqual([
    'Sam sam@example.org',
    'Rita rita@example.org',
    'Tom tom@example.org',
  ])
  expect(await page.locator('.ranked .z').allTextContents()).toEqual(['9.0', '1.0', '1.0'])
  await expectAccessible(page)

  const send = async (content: string) => {
    const { json } = await rig.as('ann').upload(`/campaigns/${id}/detect`, Buffer.from(content), 'other.mp4')
    await rig.idle()
    await page.goto(`/campaigns/${id}/detections/${json.id}`)
    return json.id
  }
  const other = await send('something else')
  await page.getByText('An inconclusive search accuses nobody').waitFor()
  const { detect } = rig.media
  const ranking = tokens.map(({ id: tokenId }: Shown, i: number) => ({ tokenId, z: 9 - 2 * i }))
  rig.media.detect = async () => ({ verdict: 'match', ranking, bestDecoyZ: 3.3, decoys: 1_000 })
  await send('a mix')
  await page.getByText('The marks of 2 recipients are in this file: Rita, Sam.').waitFor()
  rig.media.detect = () => Promise.reject(outOfMemory())
  await send('too much')
  rig.media.detect = detect
  await page.getByText('The search failed. There was not enough memory. Send a smaller file.').waitFor()
  await page.getByText('The search is not retried automatically. It has no result about any recipient.').waitFor()
  expect(await page.locator('#page button').count()).toBe(0)
  await page.getByRole('link', { name: 'Searches' }).click()
  expect((await page.locator('.searches p').allTextContents()).map((text) => text.replace(/ \S+ \S+$/, ''))).toEqual([
    'Failed: There was not enough memory. Send a smaller file.',
    '2 recipients’ marks found',
    'Inconclusive',
    'The copy of Sam',
  ])
  await expectAccessible(page)
  const { json } = await rig.as('ann').get(`/campaigns/${id}/detections/${other}`)
  expect(json).toMatchObject({ status: 'complete', fileName: 'other.mp4', result: { verdict: 'inconclusive' } })
  expect((await rig.as('ann').get(`/campaigns/${id}/detections`)).json.detections).toHaveLength(4)
  expect((await rig.as('bob').get(`/campaigns/${id}/detections/${other}`)).status).toBe(404)
})
