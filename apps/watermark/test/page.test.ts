import { rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import type { Shown } from '../../../test/support/apps/client.ts'
import { expectAccessible } from '../../../test/support/browser/axe.ts'
import { until } from '../../../test/support/until.ts'
import { badgeOf, comesToSay, rowOf, visit, WITHOUT_SCRIPT, watch } from './campaign-page.ts'
import { Rig } from './rig.ts'
import { corrupt, outOfMemory } from './stand-in.ts'

let rig: Rig
beforeAll(async () => {
  rig = await Rig.open()
})
beforeEach(() => {
  rig.media.onMark = () => undefined
})

/** What becomes of whose copy. Who is not named gets theirs. */
function fates(byName: Record<string, () => unknown>): void {
  rig.media.onMark = ({ visibleText }) => byName[visibleText ?? '']?.()
}
const dies = () => {
  throw outOfMemory()
}
const breaks = () => {
  throw corrupt()
}
const noScript = { context: WITHOUT_SCRIPT }
const banner = (page: Page) => page.locator('#part-banner')
const warning = (count: number) =>
  `Warning: ${count} watermarking job(s) failed permanently. Use the retry buttons below to re-attempt individual tokens.`
const tokenNamed = (campaign: Shown, name: string): Shown => campaign.tokens.find((token: Shown) => token.name === name)
/** Proves that a page was not loaded anew: nothing of it survives that. */
const markPage = (page: Page) => page.evaluate('globalThis.isSame = true')
const isSamePage = (page: Page) => page.evaluate<boolean>('globalThis.isSame === true')
/** A page hears of what happens from the moment at which its stream is open, and it has asked what it missed. */
async function live(path: string, as: 'ann' | 'operator' = 'ann') {
  const page = await visit(rig, '/campaigns/assets/campaigns.css', { as })
  const seen = watch(page)
  await page.goto(path)
  await until('the page listens', () => seen.asked() > 0)
  await markPage(page)
  return { page, seen }
}

test('the token table shows badge, retry count, error and retry form, without JavaScript [W42 W43 W44 W45]', async () => {
  fates({ Fay: dies, Cora: breaks, Penny: breaks, Paul: breaks })
  const names = ['Alice', 'Conrad', 'Fay', 'Cora', 'Penny', 'Paul', 'Rex']
  const { id, tokens } = await rig.published(names, { maxDownloads: 1 })
  for (const wait of ['0s', '1m', '5m', '15m']) await rig.advance(wait)
  const ann = rig.as('ann')
  const post = (name: string, act: string) =>
    ann.post(`/campaigns/${id}/tokens/${tokenNamed({ tokens }, name).id}/${act}`)
  expect((await rig.as('nobody').get(tokenNamed({ tokens }, 'Conrad').link)).status).toBe(200)
  await post('Rex', 'revoke')
  let go: () => void = () => undefined
  onTestFinished(async () => {
    go()
    await rig.idle()
  })
  rig.media.onMark = async ({ visibleText, onProgress }) => {
    if (visibleText === 'Penny') throw outOfMemory()
    onProgress(42)
    await new Promise<void>((resolve) => {
      go = resolve
    })
  }
  await post('Penny', 'retry')
  await rig.idle()
  await post('Paul', 'retry')
  await until('it is at 42 percent', async () => {
    await rig.kit.advance('10s')
    return tokenNamed(await rig.campaign(id), 'Paul').progress === 42
  })

  const page = await visit(rig, `/campaigns/${id}`, noScript)
  const badges = await page.locator('#rows .status-badge').allTextContents()
  expect(badges).toEqual(['ACTIVE', 'CONSUMED', 'FAILED', 'FAILED', 'PENDING', 'PROCESSING (42%)', 'EXPIRED'])
  expect(await page.locator('#rows tr').evaluateAll((rows) => rows.map((row) => row.dataset.tokenId))).toEqual(
    tokens.map((token: Shown) => token.id),
  )
  const of = async (selector: string) => {
    const found: string[] = []
    for (const name of names) if ((await rowOf(page, name).locator(selector).count()) > 0) found.push(name)
    return found
  }
  expect(await of('.retry-badge')).toEqual(['Fay', 'Penny'])
  expect(await rowOf(page, 'Fay').locator('.retry-badge').innerText()).toContain('3/3')
  expect(await rowOf(page, 'Penny').locator('.retry-badge').innerText()).toContain('1/3')
  expect(await of('details.error-details')).toEqual(['Fay', 'Cora'])
  expect(await of('form.retry-form')).toEqual(['Fay', 'Cora'])
  await rowOf(page, 'Fay').getByText('Error', { exact: true }).click()
  await rowOf(page, 'Fay').getByText('Watermarking ran out of memory each time.').waitFor()
  expect(await rowOf(page, 'Penny').locator('.note').textContent()).toMatch(
    /^Retry 1 of 3 at 00:2\d UTC\. Watermarking ran out of memory\. We’ll retry\.$/,
  )
  expect(await rowOf(page, 'Conrad').locator('.downloads').innerText()).toBe('1/1')
  expect(await of('input.url')).not.toContain('Rex')
  // W48: it is for PARTIAL and FAILED, and here copies are still being made.
  expect(await banner(page).textContent()).toBe('')
  await page.getByRole('link', { name: 'Stop that' }).click()
  expect(await page.locator('meta[http-equiv=refresh]').count()).toBe(0)
  await page.goto(`/campaigns/${id}?show=failed`)
  expect(await page.locator('#rows .name').allTextContents()).toEqual(['Fay', 'Cora'])
})

test('token_failed updates row, banner, counts and badges without a reload [W46 W47 W48]', async () => {
  fates({ Sam: dies })
  const { id } = await rig.published(['Rita', 'Sam'], { name: 'Live' })
  await rig.idle()
  for (const wait of ['1m', '5m']) await rig.advance(wait)
  const { page } = await live(`/campaigns/${id}`)
  const { page: list } = await live('/campaigns', 'operator')
  await comesToSay(page, 'Sam', 'PENDING')
  expect(await badgeOf(list, 'Live').textContent()).toBe('PROCESSING')
  expect(await rowOf(page, 'Sam').locator('.retry-form, .error-details').count()).toBe(0)
  await rig.advance('15m')

  await comesToSay(page, 'Sam', 'FAILED')
  expect(await badgeOf(page, 'Sam').getAttribute('class')).toBe('status-badge status-failed')
  expect(await rowOf(page, 'Sam').locator('.error-details').textContent()).toContain('ran out of memory each time')
  expect(await rowOf(page, 'Sam').locator('.retry-form button').innerText()).toContain('Retry')
  expect(await rowOf(page, 'Sam').locator('.retry-badge').innerText()).toContain('3/3')
  await banner(page).getByText(warning(1)).waitFor()
  await page.locator('#part-head .status-partial').getByText('PARTIAL').waitFor()
  expect(await page.locator('#part-head .counts').textContent()).toBe('1 of 2 ready, 1 failed')
  await expect.poll(() => page.locator('#announced').textContent()).toContain('Sam: FAILED.')

  await comesToSay(list, 'Live', 'PARTIAL')
  expect(await rowOf(list, 'Live').locator('.counts').textContent()).toBe('1 of 2 ready, 1 failed')
  expect([await isSamePage(page), await isSamePage(list)]).toEqual([true, true])
})

test('the page shows the progress of a copy as it is reported, without a reload [W42]', async () => {
  const going = new Map<string, { go: () => void; onProgress: (percent: number) => void }>()
  rig.media.onMark = async ({ visibleText, onProgress }) => {
    await new Promise<void>((go) => going.set(visibleText ?? '', { go, onProgress }))
  }
  onTestFinished(async () => {
    for (const { go } of going.values()) go()
    await rig.idle()
  })
  const { id } = await rig.published(['Paul', 'Quinn'])
  await until('both are being made', async () => {
    await rig.kit.tick()
    return going.size === 2
  })
  const { page } = await live(`/campaigns/${id}`)
  await comesToSay(page, 'Paul', 'PROCESSING (0%)')
  going.get('Paul')?.onProgress(42)
  await until('it is at 42 percent', async () => {
    await rig.kit.advance('1s')
    return tokenNamed(await rig.campaign(id), 'Paul').progress === 42
  })
  await comesToSay(page, 'Paul', 'PROCESSING (42%)')
  going.get('Quinn')?.go()
  await until('Quinn has theirs', async () => {
    await rig.kit.tick()
    return tokenNamed(await rig.campaign(id), 'Quinn').state === 'ACTIVE'
  })
  await expect.poll(() => page.locator('#part-head .counts').textContent()).toBe('1 of 2 ready, 1 being made')
  expect(await isSamePage(page)).toBe(true)
})

test('the amber PARTIAL badge has its tooltip for mouse, keyboard and screen reader [W47]', async () => {
  fates({ Sam: breaks })
  const { id } = await rig.published(['Rita', 'Sam'], { name: 'Amber' })
  await rig.idle()
  const page = await visit(rig, '/campaigns')
  const badge = badgeOf(page, 'Amber')
  const tip = rowOf(page, 'Amber').getByRole('tooltip', { includeHidden: true })
  expect(await tip.textContent()).toBe('Some watermarking jobs failed. Click to review.')
  expect(await badge.getAttribute('aria-describedby')).toBe(await tip.getAttribute('id'))
  const ground = await page.evaluate(`getComputedStyle(document.querySelector('.status-partial')).backgroundColor`)
  expect(ground).toBe('rgb(255, 239, 199)')
  expect(await tip.isVisible()).toBe(false)
  await rowOf(page, 'Amber').locator('a.name').focus()
  await page.keyboard.press('Tab')
  expect(await tip.isVisible()).toBe(true)
  await page.locator('h1').hover()
  await page.keyboard.press('Shift+Tab')
  expect(await tip.isVisible()).toBe(false)
  await badge.hover()
  expect(await tip.isVisible()).toBe(true)
  await badge.click()
  await page.getByRole('heading', { name: 'Amber' }).waitFor()
  expect(new URL(page.url()).pathname).toBe(`/campaigns/${id}`)
})

test('without JavaScript a retry returns to the campaign with its flash, and a second retry is refused there [W30 W32]', async () => {
  fates({ Sam: breaks })
  const { id } = await rig.published(['Rita', 'Sam'])
  await rig.idle()
  const [page, stale] = [await visit(rig, `/campaigns/${id}`, noScript), await visit(rig, `/campaigns/${id}`, noScript)]
  expect(await page.locator('meta[http-equiv=refresh]').count()).toBe(0)
  await page.getByRole('button', { name: 'Retry Sam' }).click()
  await page.locator('#said').getByText('Retry queued for Sam.', { exact: true }).waitFor()
  expect(new URL(page.url()).pathname).toBe(`/campaigns/${id}`)
  expect(await badgeOf(page, 'Sam').textContent()).toBe('PENDING')
  expect(await page.locator('meta[http-equiv=refresh]').getAttribute('content')).toBe('5')
  await page.reload()
  expect(await page.locator('#said').textContent()).toBe('')
  const answered = stale.waitForResponse((response) => response.request().method() === 'POST')
  await stale.getByRole('button', { name: 'Retry Sam' }).click()
  expect((await answered).status()).toBe(400)
  await stale.locator('#said .bad').getByText('Token is not in a failed state.', { exact: true }).waitFor()
  await rig.idle()
})

test('a retry without a source is refused on the page with an action', async () => {
  const { id, assetId } = await rig.published(['Rita'])
  rmSync(join(rig.folder, 'watermark/assets/sources', assetId))
  await rig.idle()
  const page = await visit(rig, `/campaigns/${id}`, noScript)
  const answered = page.waitForResponse((response) => response.request().method() === 'POST')
  await page.getByRole('button', { name: 'Retry Rita' }).click()
  expect((await answered).status()).toBe(409)
  await page.locator('#said .bad').getByText('The uploaded file is not there any more. Upload it again').waitFor()
})

test('with JavaScript a retry moves the campaign from PARTIAL to PROCESSING to READY without a reload [W51]', async () => {
  fates({ Sam: breaks })
  const { id } = await rig.published(['Rita', 'Sam'])
  await rig.idle()
  rig.media.onMark = () => undefined
  const { page, seen } = await live(`/campaigns/${id}`)
  await page.evaluate(`document.querySelector('#rows tr').isSame = true`)
  await rowOf(page, 'Sam').getByRole('button', { name: 'Retry' }).focus()
  await page.keyboard.press('Enter')
  await page.locator('#said').getByText('Retry queued for Sam.').waitFor()
  await page.locator('#part-head .status-processing').waitFor()
  await comesToSay(page, 'Sam', 'PENDING')
  // The button is gone with what it could do; its row is still where the reader is.
  expect(await page.evaluate(`document.activeElement.querySelector('.name')?.textContent`)).toBe('Sam')
  await rig.idle()
  await page.locator('#part-head .status-ready').waitFor()
  await comesToSay(page, 'Sam', 'ACTIVE')
  expect(await banner(page).textContent()).toBe('')
  // Rows that did not change were not touched.
  expect(await page.evaluate(`document.querySelector('#rows tr').isSame`)).toBe(true)
  expect([await isSamePage(page), seen.opened()]).toEqual([true, 1])
  await until('its stream is closed', () => rig.app.hub.subscribers === 0)
  const quiet = await visit(rig, '/campaigns/assets/rows.css')
  const quietSeen = watch(quiet)
  await quiet.goto(`/campaigns/${id}`)
  await quiet.evaluate(`fetch('/healthz')`)
  expect([quietSeen.opened(), quietSeen.asked()]).toEqual([0, 0])
})

test('open details stay open when their row changes, and a link can be copied', async () => {
  fates({ Sam: breaks })
  const { id, tokens } = await rig.published(['Rita', 'Sam'])
  await rig.idle()
  rig.media.onMark = () => undefined
  const { page } = await live(`/campaigns/${id}`)
  await rowOf(page, 'Sam').locator('.revoke summary').click()
  await rig.as('ann').post(`/campaigns/${id}/tokens/${tokenNamed({ tokens }, 'Sam').id}/retry`)
  await rig.idle()
  await comesToSay(page, 'Sam', 'ACTIVE')
  expect(await rowOf(page, 'Sam').locator('details.revoke[open]').count()).toBe(1)
  await rowOf(page, 'Rita').getByRole('button', { name: 'Copy the link of Rita' }).click()
  await page.locator('#announced', { hasText: 'The link is copied.' }).waitFor({ state: 'attached' })
  const link = `${rig.url}${tokenNamed({ tokens }, 'Rita').link}`
  expect(await page.evaluate('getSelection().toString()')).toBe(link)
})

test('a page without its event stream says so, reconnects and catches up', async () => {
  const { id } = await rig.published(['Rita'])
  const page = await visit(rig, '/campaigns/assets/rows.css')
  await page.route('**/api/events**', (route) => route.abort())
  await page.goto(`/campaigns/${id}`)
  await page.locator('#connection').getByText('The connection is lost. Trying again…').waitFor()
  await rig.idle()
  await page.unroute('**/api/events**')
  await comesToSay(page, 'Rita', 'ACTIVE')
  expect(await page.locator('#connection').isHidden()).toBe(true)
})

test('a hidden tab closes its stream and catches up when it is shown', async () => {
  const { id } = await rig.published(['Rita'])
  const { page } = await live(`/campaigns/${id}`)
  const look = (isHidden: boolean) =>
    page.evaluate(`
      Object.defineProperty(document, 'hidden', { value: ${isHidden}, configurable: true })
      document.dispatchEvent(new Event('visibilitychange'))`)
  await look(true)
  await until('its stream is closed', () => rig.app.hub.subscribers === 0)
  await rig.idle()
  expect(await badgeOf(page, 'Rita').textContent()).toBe('PENDING')
  await look(false)
  await comesToSay(page, 'Rita', 'ACTIVE')
  expect(await isSamePage(page)).toBe(true)
})

test('a large campaign is shown in pages of a hundred, and the script updates only changed rows', async () => {
  const recipients = Array.from({ length: 110 }, (_, i) => ({ name: `R${i}.`, email: `r${i}@example.org` }))
  fates({ 'R0.': breaks, 'R109.': breaks })
  const { id, tokens } = await rig.published([], { recipients })
  await rig.idle()
  rig.media.onMark = () => undefined
  const { page } = await live(`/campaigns/${id}`)
  expect(await page.locator('#rows tr').count()).toBe(100)
  const asked: string[] = []
  page.on('request', (request) => {
    if (request.url().includes('/state?')) asked.push(new URL(request.url()).searchParams.get('ids') ?? '')
  })
  await rig.as('ann').post(`/campaigns/${id}/tokens/${tokens[0].id}/retry`)
  await rig.idle()
  await comesToSay(page, 'R0.', 'ACTIVE')
  expect([...new Set(asked)]).toEqual([tokens[0].id])
  await page.getByRole('link', { name: 'Next' }).click()
  await page.getByText('101–110 of 110').waitFor()
  await page.getByRole('link', { name: 'Show failed only' }).click()
  await rowOf(page, 'R109.').waitFor()
  expect(await page.locator('#rows tr').count()).toBe(1)
})

test('names that would be markup, turn the text around or have no end are text, and break no layout', async () => {
  const hostile = '<img src=x onerror=alert(1)>'
  const name = `${hostile} ${'W'.repeat(50)}`
  const recipients = [
    { name, email: `${'w'.repeat(60)}@example.org` },
    { name: '"></bdi><script>alert(1)</script>', email: 'b@example.org' },
  ]
  rig.media.onMark = breaks
  const { id } = await rig.published([], { name, recipients })
  await rig.idle()
  const { page } = await live(`/campaigns/${id}`)
  expect(await page.locator('#rows .name').first().textContent()).toBe(name)
  await page.getByRole('button', { name: 'Retry' }).first().click()
  await page.locator('#said').getByText(hostile).waitFor()
  await rig.idle()
  await comesToSay(page, hostile, 'FAILED')
  expect(await page.locator('#page img:not(.thumbnail img), #page script').count()).toBe(0)
  await expectAccessible(page)
  await page.goto('/campaigns?said=You+have+won&flash=You+have+won')
  expect(await page.locator('body').textContent()).not.toContain('You have won')
  await expectAccessible(page)
})

test('owners see only their own campaigns; viewers see all and get no buttons [W28]', async () => {
  fates({ Sam: breaks })
  const { id } = await rig.published(['Rita', 'Sam'], { name: 'Of ann' })
  await rig.idle()
  const bob = await visit(rig, '/campaigns', { as: 'bob' })
  await bob.getByText('There are no campaigns yet. Upload a video or an image to begin with.').waitFor()
  await expectAccessible(bob)
  const answer = await bob.goto(`/campaigns/${id}`)
  expect(answer?.status()).toBe(404)
  await bob.getByRole('heading', { name: 'There is no such campaign.' }).waitFor()
  const viewer = await visit(rig, '/campaigns', { as: 'viewer' })
  await rowOf(viewer, 'Of ann').getByText('ann', { exact: true }).waitFor()
  expect(await viewer.locator('#page form').count()).toBe(0)
  await viewer.goto(`/campaigns/${id}`)
  expect(await badgeOf(viewer, 'Sam').textContent()).toBe('FAILED')
  expect(await viewer.locator('#page form').count()).toBe(0)
})

test('older campaigns are on pages of their own', async () => {
  const { assetId } = await rig.draft(['Rita'], { name: 'The first' })
  for (let i = 0; i < 40; i++) {
    const recipients = [{ name: 'Rita', email: 'rita@example.org' }]
    await rig.as('ann').post('/campaigns', { assetId, name: `Later ${i}`, recipients })
  }
  const page = await visit(rig, '/campaigns', noScript)
  expect(await page.locator('#rows .name').first().textContent()).toBe('Later 39')
  expect(await page.locator('#rows > *').count()).toBe(40)
  await page.getByRole('link', { name: 'Older' }).click()
  await rowOf(page, 'The first').waitFor()
  expect(await page.locator('#page form').count()).toBe(0)
})
