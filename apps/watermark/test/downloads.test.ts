import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Shown } from '../../../test/support/apps/client.ts'
import { until } from '../../../test/support/until.ts'
import { openLinks } from '../src/copies/links.ts'
import { Rig } from './rig.ts'
import { corrupt, VIDEO } from './stand-in.ts'

let rig: Rig
beforeAll(async () => {
  rig = await Rig.open()
})
beforeEach(() => {
  rig.media.onMark = () => undefined
})

const anybody = () => rig.as('nobody')
/** The link of a copy that is ready, and what it is expected to give. */
async function ready(
  more: object = {},
  content: Uint8Array = VIDEO,
): Promise<{ link: string; campaign: string; id: string; text: string }> {
  const { id, tokens } = await rig.published(['Rita'], more, content)
  await rig.idle()
  const [token] = tokens
  return { link: token.link, campaign: id, id: token.id, text: `Rita|${token.id}|${Buffer.from(content)}` }
}
const countOf = async (campaign: string): Promise<number> => (await rig.campaign(campaign)).tokens[0].downloads
const LARGE = Buffer.concat([Buffer.from('VIDEO'), Buffer.alloc(100_000, 7)])

test('a recipient gets their copy by the link alone, as a file to save, and it is counted', async () => {
  const { link, campaign, text } = await ready()
  const got = await anybody().get(link)
  expect([got.status, got.text]).toEqual([200, text])
  expect(Object.fromEntries(got.headers)).toMatchObject({
    'content-type': 'video/mp4',
    'content-length': String(Buffer.byteLength(text)),
    'content-disposition': `attachment; filename="spring.mp4"; filename*=UTF-8''spring.mp4`,
    'accept-ranges': 'bytes',
    'cache-control': 'private, no-store',
    'referrer-policy': 'no-referrer',
  })
  expect(await countOf(campaign)).toBe(1)
})

test('of a hundred concurrent requests to a link with five downloads exactly five succeed, and it is CONSUMED', async () => {
  const { link, campaign } = await ready({ maxDownloads: 5 })
  const answers = await Promise.all(Array.from({ length: 100 }, () => anybody().get(link)))
  const statuses = answers.map(({ status }) => status)
  expect(statuses.filter((status) => status === 200)).toHaveLength(5)
  expect(statuses.filter((status) => status === 410)).toHaveLength(95)
  const [token] = (await rig.campaign(campaign)).tokens
  expect(token).toMatchObject({ state: 'CONSUMED', downloads: 5 })
  const late = await anybody().get(link)
  expect(late).toMatchObject({ status: 410, json: { error: { code: 'LINK_CONSUMED' } } })
})

test('a link that was not signed by us leads nowhere, and neither does one of a draft', async () => {
  const { link, id } = await ready()
  const draft = await rig.draft(['Rita'])
  const ours = openLinks(readFileSync(join(rig.folder, 'watermark/watermark.key'), 'utf8'))
  expect(ours.pathOf(id)).toBe(link)
  const others = openLinks('the secret of another place, which is not ours')
  for (const wrong of [
    link.replace(/.$/, (last) => (last === 'A' ? 'B' : 'A')),
    link.slice(0, -1),
    `/d/${id}`,
    `/d/${id}.`,
    `${link}.x`,
    others.pathOf(id),
    `/d/${draft.tokens[0].id}.${link.split('.')[1]}`,
    ours.pathOf(draft.tokens[0].id),
    ours.pathOf(rig.app.newId()),
    '/d/%2e%2e%2fetc',
  ]) {
    expect((await anybody().get(wrong)).status, wrong).toBe(404)
  }
  expect((await anybody().get(link)).status).toBe(200)
})

test('while a copy is prepared the answer is 202 and when to come back; when it failed, that it is not there yet', async () => {
  let go: () => void = () => undefined
  rig.media.onMark = () =>
    new Promise((_resolve, reject) => {
      go = () => reject(corrupt())
    })
  const { tokens } = await rig.published(['Rita'])
  const [{ link, id }] = tokens
  const waiting = await anybody().get(link)
  expect([waiting.status, waiting.headers.get('retry-after'), waiting.json.state]).toEqual([202, '15', 'PROCESSING'])
  await until('it runs', async () => {
    await rig.kit.tick()
    return rig.media.marked.includes(id)
  })
  expect((await anybody().get(link)).status).toBe(202)
  go()
  await rig.idle()
  expect(await anybody().get(link)).toMatchObject({ status: 409, json: { error: { code: 'NOT_READY' } } })
})

test('a revoked link stops working for everyone, also during a download', async () => {
  const { link, campaign, id } = await ready({}, LARGE)
  const first = await anybody().get(link, { range: 'bytes=0-50000' })
  const [cookie = ''] = (first.headers.getSetCookie()[0] ?? '').split(';')
  const path = `/campaigns/${campaign}/tokens/${id}/revoke`
  const revoked = (await rig.as('ann').post(path)).json.tokens[0]
  expect(revoked).toMatchObject({ state: 'EXPIRED', revokedAt: expect.stringMatching(/Z$/) })
  await rig.kit.advance('1s')
  expect((await rig.as('ann').post(path)).json.tokens[0].revokedAt).toBe(revoked.revokedAt)
  expect(await anybody().get(link)).toMatchObject({ status: 410, json: { error: { code: 'LINK_REVOKED' } } })
  expect((await anybody().get(link, { range: 'bytes=50001-', cookie })).status).toBe(410)
})

test('an expired link answers 404 [W26]', async () => {
  const expiresAt = new Date(rig.kit.clock.nowMs() + 600_000).toISOString()
  const { link } = await ready({ expiresAt })
  await rig.kit.advance(599_999 - (rig.kit.clock.nowMs() - (Date.parse(expiresAt) - 600_000)))
  expect((await anybody().get(link)).status).toBe(200)
  await rig.advance('1ms')
  expect(await anybody().get(link)).toMatchObject({ status: 404, json: { error: { code: 'LINK_EXPIRED' } } })
})

test('a counted download resumes by cookie or If-Range, even if it was the last one', async () => {
  const { link, campaign, text } = await ready({ maxDownloads: 1 }, LARGE)
  const first = await anybody().get(link, { range: 'bytes=0-49999' })
  expect([first.status, first.headers.get('content-range')]).toEqual([206, `bytes 0-49999/${text.length}`])
  const [cookie = ''] = (first.headers.getSetCookie()[0] ?? '').split(';')
  expect(first.headers.getSetCookie()[0]).toContain(`; Path=${link}; HttpOnly`)
  const etag = first.headers.get('etag') ?? ''
  const byCookie = await anybody().get(link, { range: 'bytes=50000-', cookie })
  const byTag = await anybody().get(link, { range: 'bytes=50000-', 'if-range': etag })
  expect(first.text + byCookie.text).toBe(text)
  expect(first.text + byTag.text).toBe(text)
  // A program that goes on for a second time is known by what it was given the first time.
  expect(byTag.headers.get('etag')).toBe(etag)
  const last = await anybody().get(link, { range: 'bytes=-10', cookie })
  expect([last.status, last.text]).toEqual([206, text.slice(-10)])
  expect(await countOf(campaign)).toBe(1)
})

test('a consumed link gives no part to an uncounted client, from any byte', async () => {
  const { link, id } = await ready({ maxDownloads: 1 }, LARGE)
  const other = await ready({}, LARGE)
  const [foreign = ''] = ((await anybody().get(other.link)).headers.getSetCookie()[0] ?? '').split(';')
  expect((await anybody().get(link)).status).toBe(200)
  const forged = `wm-download=${rig.kit.clock.nowMs()}.AAAA`
  const tries: Record<string, string>[] = [
    { range: 'bytes=1-' },
    { range: 'bytes=1-', cookie: foreign },
    { range: 'bytes=1-', cookie: forged },
    { range: 'bytes=1-', 'if-range': `"${'0'.repeat(32)}-${id}.x"` },
    { range: 'bytes=0-10' },
    { range: 'bytes=0-0,5-9' },
    {},
  ]
  for (const headers of tries) expect((await anybody().get(link, headers)).status, JSON.stringify(headers)).toBe(410)
  expect((await anybody().ask(link, { method: 'HEAD' })).status).toBe(410)
})

test('a proof of download expires, and a whole file counts each time', async () => {
  const { link, campaign } = await ready({ maxDownloads: 3 }, LARGE)
  const first = await anybody().get(link)
  const [cookie = ''] = (first.headers.getSetCookie()[0] ?? '').split(';')
  expect((await anybody().get(link, { cookie })).status).toBe(200)
  expect(await countOf(campaign)).toBe(2)
  await rig.kit.advance('6h')
  expect((await anybody().get(link, { range: 'bytes=9-', cookie })).status).toBe(206)
  expect(await countOf(campaign)).toBe(3)
})

test('looking at a link does not use it up: neither its head nor the first bytes that a player asks for', async () => {
  const { link, campaign, text } = await ready({ maxDownloads: 1 }, LARGE)
  const head = await anybody().ask(link, { method: 'HEAD' })
  expect([head.status, head.headers.get('content-length'), head.text]).toEqual([200, String(text.length), ''])
  // A head is always that of the whole: ranges are for GET alone.
  for (const range of ['bytes=5-9', 'bytes=9999999-']) {
    const part = await anybody().ask(link, { method: 'HEAD', headers: { range } })
    expect([part.status, part.headers.get('content-length')], range).toEqual([200, String(text.length)])
  }
  const probe = await anybody().get(link, { range: 'bytes=0-1' })
  expect([probe.status, probe.text, probe.headers.getSetCookie()]).toEqual([206, text.slice(0, 2), []])
  expect(await countOf(campaign)).toBe(0)
  expect((await anybody().get(link, { range: 'bytes=0-' })).status).toBe(206)
  expect(await countOf(campaign)).toBe(1)
})

test('a conditional request for an unchanged copy is answered 304 and not counted', async () => {
  const { link, campaign } = await ready({ maxDownloads: 1 }, LARGE)
  const etag = (await anybody().get(link)).headers.get('etag') ?? ''
  const again = await anybody().get(link, { 'if-none-match': etag })
  expect([again.status, again.text]).toEqual([304, ''])
  expect(await countOf(campaign)).toBe(1)
})

test('bytes that a copy does not have are refused before anything is counted', async () => {
  const { link, campaign, text } = await ready({ maxDownloads: 1 })
  const { status, headers } = await anybody().get(link, { range: 'bytes=9999999-' })
  expect([status, headers.get('content-range')]).toEqual([416, `bytes */${text.length}`])
  expect(await countOf(campaign)).toBe(0)
})

test('a client that probed first can request the rest with If-Range and is counted', async () => {
  const { link, campaign, text } = await ready({ maxDownloads: 1 }, LARGE)
  const probe = await anybody().get(link, { range: 'bytes=0-9' })
  const rest = { range: 'Bytes=10-', 'if-range': probe.headers.get('etag') ?? '' }
  const got = await anybody().get(link, rest)
  expect([got.status, got.headers.get('content-range')]).toEqual([206, `bytes 10-${text.length - 1}/${text.length}`])
  expect(probe.text + got.text).toBe(text)
  expect(await countOf(campaign)).toBe(1)
  expect((await anybody().get(link, rest)).status).toBe(410)
})

test('each recipient’s link gives their own copy', async () => {
  const { tokens } = await rig.published(['Rita', 'Sam'])
  await rig.idle()
  const texts = await Promise.all(tokens.map(async ({ link }: Shown) => (await anybody().get(link)).text))
  expect(texts.map((text) => text.split('|')[0])).toEqual(['Rita', 'Sam'])
})

describe('the page of a link', () => {
  const asBrowser = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' }
  const PREVIEWS = [
    'Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)',
    'facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)',
    'WhatsApp/2.23.20.0',
    'TelegramBot (like TwitterBot)',
    'Mozilla/5.0 (compatible; Discordbot/2.0; +https://discordapp.com)',
    'Mozilla/5.0 (Windows NT 6.1; WOW64) SkypeUriPreview Preview/0.5 skype-url-preview@microsoft.com',
  ]

  test('is sent to browsers and link previews, and uses up no download', async () => {
    const { link, campaign } = await ready({ maxDownloads: 1 })
    const looks = [asBrowser, ...PREVIEWS.map((agent) => ({ accept: '*/*', 'user-agent': agent }))]
    for (const headers of looks) {
      const page = await anybody().get(link, headers)
      expect([page.status, page.headers.get('content-type')], JSON.stringify(headers)).toEqual([200, 'text/html'])
      expect(page.text).toContain('Your copy is ready')
      await anybody().ask(link, { method: 'HEAD', headers })
    }
    expect(await countOf(campaign)).toBe(0)
    expect((await anybody().get(link)).status).toBe(200)
    expect(await countOf(campaign)).toBe(1)
    expect((await anybody().get(link, asBrowser)).status).toBe(410)
  })

  test('has a button that counts one download, which can begin, break off and be resumed', async () => {
    const { link, campaign, text } = await ready({ maxDownloads: 1 }, LARGE)
    const pressed = await anybody().ask(link, { method: 'POST', redirect: 'manual', headers: asBrowser })
    expect(pressed.status).toBe(303)
    expect(await countOf(campaign)).toBe(1)
    const file = pressed.headers.get('location') ?? ''
    const begun = await anybody().get(file, asBrowser)
    expect([begun.status, begun.text]).toEqual([200, text])
    const tag = begun.headers.get('etag') ?? ''
    const rest = await anybody().get(file, { ...asBrowser, range: 'bytes=5000-', 'if-range': tag })
    expect([rest.status, rest.text]).toEqual([206, text.slice(5000)])
    expect(await countOf(campaign)).toBe(1)
    const again = await anybody().ask(link, { method: 'POST', redirect: 'manual' })
    expect(again).toMatchObject({ status: 410, json: { error: { code: 'LINK_CONSUMED' } } })
  })

  test('leads to an address that begins a download for two minutes, and is worth nothing for other links', async () => {
    const [one, other] = [await ready({ maxDownloads: 1 }), await ready({ maxDownloads: 1 })]
    const pressed = await anybody().ask(one.link, { method: 'POST', redirect: 'manual' })
    const file = pressed.headers.get('location') ?? ''
    const stolen = file.replace(one.link, other.link)
    expect((await anybody().get(stolen)).status).toBe(200)
    expect(await countOf(other.campaign)).toBe(1)
    await rig.kit.advance('3m')
    expect((await anybody().get(file)).status).toBe(410)
  })

  test('is skipped by a client that asks for the file itself', async () => {
    const { link, campaign, text } = await ready()
    const got = await anybody().get(`${link}?download=1`, asBrowser)
    expect([got.status, got.text]).toEqual([200, text])
    expect(await countOf(campaign)).toBe(1)
  })
})
