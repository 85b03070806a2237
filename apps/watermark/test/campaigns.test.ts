import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, beforeEach, expect, test } from 'vitest'
import type { Shown } from '../../../test/support/apps/client.ts'
import { findCampaign } from '../src/campaigns/campaigns.ts'
import { openRows } from '../src/rows/rows.ts'
import { TABLES } from '../src/rows/tables.ts'
import { Rig, WatermarkClient } from './rig.ts'
import { corrupt, IMAGE, VIDEO } from './stand-in.ts'

let rig: Rig
beforeAll(async () => {
  rig = await Rig.open({ env: { WATERMARK_UPLOAD_MB: '1' } })
})
beforeEach(() => {
  rig.media.onMark = () => undefined
})

const failing = (...names: string[]) => {
  rig.media.onMark = ({ visibleText }) => {
    if (names.includes(visibleText ?? '')) throw corrupt()
  }
}
const inMinutes = (minutes: number) => new Date(rig.kit.clock.nowMs() + minutes * 60_000).toISOString()

test('an upload is probed, and a file that is neither video nor image is refused and not kept', async () => {
  const ann = rig.as('ann')
  const { status, json } = await ann.upload('/assets', VIDEO, '../../spring day.mov')
  expect(status).toBe(201)
  expect(json).toMatchObject({
    kind: 'video',
    name: 'spring day.mov',
    bytes: VIDEO.length,
    width: 64,
    durationMs: 1500,
  })
  expect((await ann.get('/assets')).json.assets[0]).toEqual(json)
  const thumbnail = await ann.get(json.thumbnail)
  expect([thumbnail.status, thumbnail.text, thumbnail.headers.get('content-type')]).toEqual([
    200,
    'small',
    'image/jpeg',
  ])
  const refused = await ann.upload('/assets', Buffer.from('a letter'), 'letter.mov')
  expect(refused).toMatchObject({ status: 400, json: { error: { code: 'SOURCE_UNSUPPORTED' } } })
  expect(await ann.upload('/assets', Buffer.alloc(0), 'empty.mov')).toMatchObject({ status: 400 })
  expect(await ann.post('/assets', {})).toMatchObject({ status: 400, json: { error: { code: 'REQUEST_INVALID' } } })
  expect((await ann.get('/assets')).json.assets).toHaveLength(1)
})

test('a file of more than is allowed is refused when the first byte too many arrives, and nothing of it is kept', async () => {
  const sources = join(rig.folder, 'watermark/assets/sources')
  const kept = () => readdirSync(sources).filter((name) => !name.startsWith('.')).length
  const before = kept()
  const most = Buffer.concat([VIDEO, Buffer.alloc(2 ** 20 - VIDEO.length, 1)])
  expect((await rig.as('ann').upload('/assets', most, 'most.mov')).status).toBe(201)
  const tooMuch = await rig.as('ann').upload('/assets', Buffer.concat([most, VIDEO]), 'more.mov')
  expect(tooMuch).toMatchObject({ status: 413, json: { error: { code: 'TOO_LARGE' } } })
  expect(kept()).toBe(before + 1)
})

test('a browser gets pages and a program gets JSON, also for refusals and sign-in', async () => {
  failing('Sam')
  const { id, tokens } = await rig.published(['Rita', 'Sam'])
  const html = { accept: 'text/html,*/*;q=0.8' }
  const ann = rig.as('ann')
  const waiting = await rig.as('nobody').get(tokens[0].link, html)
  expect([waiting.status, waiting.headers.get('content-type')]).toEqual([202, 'text/html'])
  await rig.idle()
  for (const path of ['/campaigns', `/campaigns/${id}`]) {
    const { status, text, headers } = await ann.get(path, html)
    expect([status, headers.get('content-type')], path).toEqual([200, 'text/html'])
    expect(text).toContain(id)
    const stranger = await rig.as('nobody').get(path, html)
    expect([stranger.status, stranger.headers.get('location')], path).toEqual([303, '/sign-in'])
    expect((await rig.as('nobody').get(path)).status, path).toBe(401)
  }
  // W30: the page of the campaign, with what was wrong.
  const wrong = await ann.form(`/campaigns/${id}/tokens/${tokens[0].id}/retry`)
  expect(wrong.status).toBe(400)
  expect(wrong.text).toContain('Token is not in a failed state.')
  const gone = await rig.as('nobody').get('/d/none', html)
  expect([gone.status, gone.headers.get('content-type')]).toEqual([404, 'text/html'])
  expect(gone.text).toContain('There is nothing under this link.')
})

test('a campaign goes from DRAFT to PROCESSING when published and to READY when every copy is done [W24]', async () => {
  const { id, state, tokens, counts } = await rig.draft(['Rita', 'Sam'], { maxDownloads: 3 })
  expect([state, counts.total]).toEqual(['DRAFT', 2])
  expect((await rig.as('ann').get('/campaigns')).json.campaigns[0]).toMatchObject({ id, counts })
  expect(tokens[0]).toMatchObject({ name: 'Rita', email: 'rita@example.org', state: 'PENDING', link: null })
  const published = (await rig.as('ann').post(`/campaigns/${id}/publish`)).json
  expect(published).toMatchObject({ state: 'PROCESSING', counts: { total: 2, pending: 2, running: 0 } })
  await rig.idle()
  const ready = await rig.campaign(id)
  expect(ready).toMatchObject({ state: 'READY', counts: { total: 2, completed: 2, failed: 0, pending: 0 } })
  expect(ready.tokens.map(({ state, link }: Shown) => [state, link])).toEqual([
    ['ACTIVE', expect.stringMatching(/^\/d\/[\w-]{36}\.[\w-]{43}$/)],
    ['ACTIVE', expect.stringMatching(/^\/d\//)],
  ])
  expect((await rig.as('ann').get('/campaigns')).json.campaigns[0]).toMatchObject({ id, state: 'READY' })
})

test('images are marked by jobs of their own type', async () => {
  const { id, tokens } = await rig.published(['Rita'], { visible: false }, IMAGE)
  await rig.idle()
  expect(await rig.app.jobs.find(tokens[0].id)).toMatchObject({ type: 'watermark.image', status: 'complete' })
  const got = await rig.as('nobody').get((await rig.campaign(id)).tokens[0].link)
  expect(got.headers.get('content-type')).toBe('image/png')
  expect(got.text).toBe(`null|${tokens[0].id}|${IMAGE}`)
})

test('publishing is idempotent: each copy is made once [W3]', async () => {
  const { id, tokens } = await rig.draft(['Rita', 'Sam', 'Tom'])
  const ann = rig.as('ann')
  const answers = await Promise.all(Array.from({ length: 5 }, () => ann.post(`/campaigns/${id}/publish`)))
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200])
  await rig.idle()
  expect((await ann.post(`/campaigns/${id}/publish`)).json.state).toBe('READY')
  await rig.idle()
  const ids = tokens.map((token: Shown) => token.id)
  expect(rig.media.marked.filter((one) => ids.includes(one)).sort()).toEqual(ids.sort())
  expect((await rig.app.jobs.list({ batch: id })).jobs).toHaveLength(3)
})

test('a publish that was cut short before there were jobs is finished at the next start, or when asked again', async () => {
  const { id } = await rig.draft(['Rita'])
  const other = await rig.draft(['Sam'])
  const create = rig.app.batches.create
  rig.app.batches.create = () => Promise.reject(new Error('killed'))
  for (const one of [id, other.id]) expect((await rig.as('ann').post(`/campaigns/${one}/publish`)).status).toBe(500)
  rig.app.batches.create = create
  expect(await rig.campaign(id)).toMatchObject({ state: 'PROCESSING', counts: { total: 1, pending: 1 } })
  expect(await rig.app.batches.find(id)).toBeNull()
  expect((await rig.as('ann').post(`/campaigns/${other.id}/publish`)).status).toBe(200)
  await rig.installed.start?.()
  await rig.idle()
  for (const one of [id, other.id]) expect(await rig.campaign(one)).toMatchObject({ state: 'READY' })
})

test('a retried token gets a fresh budget and its campaign goes from PARTIAL to PROCESSING to READY [W7 W19 W27 W28 W29 W31 W51]', async () => {
  failing('Sam')
  const { id, tokens } = await rig.published(['Rita', 'Sam'])
  await rig.idle()
  expect(await rig.campaign(id)).toMatchObject({ state: 'PARTIAL', counts: { completed: 1, failed: 1 } })
  failing()
  const path = `/campaigns/${id}/tokens/${tokens[1].id}/retry`
  const made = rig.media.marked.length
  const retried = await rig.as('ann').post(path)
  expect(retried).toMatchObject({ status: 200, json: { state: 'PROCESSING', counts: { pending: 1, failed: 0 } } })
  expect(retried.json.tokens[1]).toMatchObject({ state: 'PENDING', retryCount: 0, error: null })
  expect(await rig.app.jobs.find(tokens[1].id)).toMatchObject({
    ...{ status: 'queued', attemptCount: 0, retryCount: 0, maxAttempts: 4, manualRetryCount: 1, progress: 0 },
    ...{ retryAfter: null, errorCode: null, errorMessage: null, startedAt: null, finishedAt: null },
  })
  await rig.idle()
  expect(await rig.campaign(id)).toMatchObject({ state: 'READY', counts: { completed: 2, failed: 0 } })
  // A token has one job, which is its latest; and only the one that had failed was made again (W3).
  expect((await rig.app.jobs.list({ batch: id })).jobs).toHaveLength(2)
  expect(rig.media.marked.slice(made)).toEqual([tokens[1].id])
  expect((await rig.app.batches.find(id))?.settlements).toBe(2)
})

test('a retry answers 404 for a missing or foreign token and 400 for a token that has not failed [W28 W30 W33]', async () => {
  failing('Sam')
  const { id, tokens } = await rig.published(['Rita', 'Sam'])
  const other = await rig.published(['Uwe'])
  await rig.idle()
  const path = (campaign: string, token: string) => `/campaigns/${campaign}/tokens/${token}/retry`
  const [rita, sam] = tokens
  const nowhere = rig.app.newId()
  for (const [name, where] of [
    ['ann', path(nowhere, sam.id)],
    ['ann', path(id, nowhere)],
    ['ann', path(other.id, sam.id)],
    ['bob', path(id, sam.id)],
  ] as const) {
    expect((await rig.as(name).post(where)).status, where).toBe(404)
  }
  expect((await rig.as('nobody').post(path(id, sam.id))).status).toBe(401)
  expect((await rig.as('viewer').post(path(id, sam.id))).status).toBe(403)
  const { status, json } = await rig.as('ann').post(path(id, rita.id))
  expect([status, json.error.message]).toEqual([400, 'Token is not in a failed state.'])
  expect(await rig.campaign(id)).toMatchObject({ state: 'PARTIAL' })
  // Of several at once, one is the retry.
  const answers = await Promise.all(Array.from({ length: 5 }, () => rig.as('operator').post(path(id, sam.id))))
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 400, 400, 400, 400])
  await rig.idle()
})

test('a retry form redirects to the campaign with the flash "Retry queued for {recipientName}." [W32]', async () => {
  failing('Zoë Ⓩ')
  const { id, tokens } = await rig.published([], {
    recipients: [{ name: 'Zoë Ⓩ', email: 'zoe@example.org' }],
  })
  await rig.idle()
  const { status, headers } = await rig.as('ann').form(`/campaigns/${id}/tokens/${tokens[0].id}/retry`)
  expect([status, headers.get('location')]).toEqual([303, `/campaigns/${id}`])
  const [cookie = ''] = headers.getSetCookie()
  expect(cookie).toMatch(/^wm-flash=[^;]+; Max-Age=60; Path=\/campaigns; HttpOnly; SameSite=Lax$/)
  const value = /wm-flash=([^;]+)/.exec(cookie)?.[1] ?? ''
  expect(decodeURIComponent(value)).toBe('Retry queued for Zoë Ⓩ.')
  await rig.idle()
})

const ENDINGS: [state: string, failed: string[]][] = [
  ['READY', []],
  ['PARTIAL', ['Sam']],
  ['FAILED', ['Rita', 'Sam']],
]

test.each(ENDINGS)(
  'a %s campaign becomes EXPIRED at its expiresAt, not before [W24 W25 W26]',
  async (state, failed) => {
    failing(...failed)
    const { id } = await rig.published(['Rita', 'Sam'], { expiresAt: inMinutes(60) })
    await rig.idle()
    await rig.kit.advance(60 * 60_000 - 1)
    expect(await rig.campaign(id)).toMatchObject({ state })
    await rig.advance('1ms')
    expect(await rig.campaign(id)).toMatchObject({ state: 'EXPIRED' })
  },
)

test('a FAILED campaign goes to PROCESSING with a retry and to READY when all its tokens are retried [W26 W27 W31]', async () => {
  failing('Rita', 'Sam')
  const { id, tokens } = await rig.published(['Rita', 'Sam'])
  await rig.idle()
  expect(await rig.campaign(id)).toMatchObject({ state: 'FAILED' })
  failing()
  const states: string[] = []
  for (const token of tokens) {
    const { json } = await rig.as('ann').post(`/campaigns/${id}/tokens/${token.id}/retry`)
    await rig.idle()
    states.push(json.state, (await rig.campaign(id)).state)
  }
  expect(states).toEqual(['PROCESSING', 'PARTIAL', 'PROCESSING', 'READY'])
})

test('an expired campaign stays EXPIRED after a retry [W26]', async () => {
  failing('Sam')
  const { id, tokens } = await rig.published(['Rita', 'Sam'], { expiresAt: inMinutes(60) })
  await rig.idle()
  expect(await rig.campaign(id)).toMatchObject({ state: 'PARTIAL' })
  await rig.advance('61m')
  failing()
  const over = await rig.campaign(id)
  expect(over).toMatchObject({ state: 'EXPIRED' })
  expect(over.tokens.map(({ state }: Shown) => state)).toEqual(['EXPIRED', 'EXPIRED'])
  const path = `/campaigns/${id}/tokens/${tokens[1].id}/retry`
  expect(await rig.as('ann').post(path)).toMatchObject({ status: 400, json: { error: { code: 'TOKEN_NOT_FAILED' } } })
  // The link is closed, so the copy would never be downloaded.
  const retried = await rig.as('operator').post(`/api/jobs/${tokens[1].id}/retry`, { reason: 'to see' })
  expect(retried.json.error).toMatchObject({ code: 'RETRY_REFUSED' })
  await rig.idle()
  expect(await rig.app.jobs.find(tokens[1].id)).toMatchObject({ status: 'failed' })
  expect(await rig.campaign(id)).toMatchObject({ state: 'EXPIRED', counts: { completed: 1 } })
})

test('a draft whose time has come is not published, and a clone of it can be', async () => {
  const { id } = await rig.draft(['Rita'], { expiresAt: inMinutes(5), maxDownloads: 2 })
  await rig.advance('6m')
  const ann = rig.as('ann')
  expect(await ann.post(`/campaigns/${id}/publish`)).toMatchObject({
    status: 409,
    json: { error: { code: 'CAMPAIGN_EXPIRED' } },
  })
  const { status, json } = await ann.post(`/campaigns/${id}/clone`, { name: 'Spring again' })
  expect(status).toBe(201)
  expect(json).toMatchObject({ state: 'DRAFT', name: 'Spring again', maxDownloads: 2, expiresAt: null })
  expect(json.tokens).toMatchObject([{ name: 'Rita', email: 'rita@example.org' }])
  expect(json.tokens[0].id).not.toBe((await rig.campaign(id)).tokens[0].id)
  expect((await ann.post(`/campaigns/${json.id}/publish`)).json.state).toBe('PROCESSING')
  await rig.idle()
  expect((await rig.as('bob').post(`/campaigns/${id}/clone`)).status).toBe(404)
})

test('a clone keeps an end that is still to come, unless it is given another or none', async () => {
  const expiresAt = inMinutes(30)
  const { id } = await rig.draft(['Rita'], { expiresAt, visible: false })
  const clone = async (changes: object) => (await rig.as('ann').post(`/campaigns/${id}/clone`, changes)).json
  expect(await clone({})).toMatchObject({ expiresAt, visible: false, invisible: true, name: 'Spring' })
  expect(await clone({ expiresAt: null })).toMatchObject({ expiresAt: null })
  const later = inMinutes(60)
  expect(await clone({ expiresAt: later })).toMatchObject({ expiresAt: later })
  expect((await rig.as('ann').post(`/campaigns/${id}/clone`, { expiresAt: 'soon' })).status).toBe(400)
})

test('an owner accesses only their own campaigns, an operator all of them, and a viewer only reads', async () => {
  const { id, assetId, tokens } = await rig.published(['Rita'])
  await rig.idle()
  const bob = rig.as('bob')
  const search = (await rig.as('ann').upload(`/campaigns/${id}/detect`, VIDEO, 'leak.mp4')).json.id
  await rig.idle()
  const readable = ['', '/state', '/links.csv', '/detections', `/detections/${search}`, `/detections/${search}/state`]
  for (const path of [...readable.map((end) => `/campaigns/${id}${end}`), `/assets/${assetId}/thumbnail`]) {
    expect((await bob.get(path)).status, path).toBe(404)
    const answer = await rig.as('operator').get(path)
    expect(answer.status, path).toBe(200)
    expect(answer.headers.get('cache-control'), path).toMatch(/thumbnail$/.test(path) ? /^private, / : /no-store/)
    expect((await rig.as('viewer').get(path)).status, path).toBe(200)
    expect((await rig.as('nobody').get(path)).status, path).toBe(401)
  }
  expect((await bob.get(`/campaigns/state?ids=${id}`)).json.rows).toEqual([])
  const copy = `tokens/${tokens[0].id}`
  for (const end of ['publish', 'clone', 'detect', `${copy}/retry`, `${copy}/revoke`]) {
    const path = `/campaigns/${id}/${end}`
    expect((await bob.post(path)).status, path).toBe(404)
    expect((await rig.as('viewer').post(path)).status, path).toBe(403)
    // A page of another site has its reader's cookies, and says where it is from.
    expect((await rig.as('ann').post(path, {}, { origin: 'https://evil.example' })).status, path).toBe(403)
  }
  expect((await bob.get(`/campaigns/${id}/clone`)).status).toBe(404)
  expect((await rig.as('viewer').get(`/campaigns/${id}/clone`)).status).toBe(403)
  expect((await bob.get('/campaigns')).json.campaigns).toEqual([])
  expect((await bob.get('/assets')).json.assets).toEqual([])
  const draft = { assetId, name: 'Stolen', recipients: [{ name: 'Eve', email: 'eve@example.org' }] }
  expect((await bob.post('/campaigns', draft)).status).toBe(404)
  // What an operator makes of ann's file is ann's.
  expect((await rig.as('operator').post('/campaigns', draft)).json).toMatchObject({ owner: 'ann', state: 'DRAFT' })
})

test('a token whose scopes have nothing to do with batches does not come in; one that has them needs no others', async () => {
  const client = async (...scopes: string[]) => {
    const whose = { role: 'owner', account: 'ann', actor: 'olga' } as const
    const { token } = await rig.app.perform('tokens.create', { name: 'narrow', ...whose, scopes })
    return new WatermarkClient(rig.url, String(token))
  }
  expect((await (await client('jobs.list', 'jobs.retry')).get('/campaigns')).status).toBe(403)
  failing('Rita')
  const { id, tokens } = await rig.published(['Rita'])
  await rig.idle()
  const path = `/campaigns/${id}/tokens/${tokens[0].id}/retry`
  const reader = await client('batches.show')
  expect((await reader.get(`/campaigns/${id}`)).status).toBe(200)
  expect((await reader.post(path)).status).toBe(403)
  expect((await (await client('batches.show', 'batches.retry-failed')).post(path)).status).toBe(200)
  await rig.idle()
})

test('a list of campaigns continues after its first page', async () => {
  const ids = [(await rig.draft(['A'])).id, (await rig.draft(['B'])).id, (await rig.draft(['C'])).id]
  const first = (await rig.as('ann').get('/campaigns?limit=2')).json
  const second = (await rig.as('ann').get(`/campaigns?limit=1&cursor=${first.nextCursor}`)).json
  const seen = [...first.campaigns, ...second.campaigns].map(({ id }: Shown) => id)
  expect(seen).toEqual(ids.reverse())
})

test.each([
  ['no recipients', { recipients: [] }, 'at least one recipient'],
  [
    'one address twice',
    {
      recipients: [
        { name: 'A', email: 'a@b.org' },
        { name: 'B', email: 'A@b.org' },
      ],
    },
    'once',
  ],
  ['a name that cannot be seen', { recipients: [{ name: '\u202e \u0007', email: 'a@b.org' }] }, 'visible character'],
  ['no address', { recipients: [{ name: 'A', email: 'nobody' }] }, 'recipients.0.email'],
  ['neither mark', { visible: false, invisible: false }, 'at least one kind of watermark'],
  ['no downloads at all', { maxDownloads: 0 }, 'maxDownloads'],
  ['an end in the past', { expiresAt: '2001-01-01T00:00:00Z' }, 'a time to come'],
  ['a word that means nothing', { colour: 'red' }, 'colour'],
])('a campaign with %s is refused, and told why', async (_what, more, said) => {
  const recipients = [{ name: 'Rita', email: 'rita@example.org' }]
  const draft = { assetId: 'x', name: 'Spring', recipients, ...more }
  const { status, json } = await rig.as('ann').post('/campaigns', draft)
  expect(status).toBe(400)
  expect(json.error.message).toContain(said)
})

test('a form may name its recipients line by line', async () => {
  const { assetId } = await rig.draft(['Rita'])
  const fields = {
    assetId,
    name: 'By hand',
    recipients: 'Rita Ray, rita@example.org\r\n\r\nSam;sam@example.org',
    maxDownloads: '',
  }
  const { status, headers } = await rig.as('ann').form('/campaigns', fields)
  expect(status).toBe(303)
  const shown = await rig.as('ann').get(headers.get('location') ?? '')
  expect(shown.json.tokens.map(({ name, email }: Shown) => [name, email])).toEqual([
    ['Rita Ray', 'rita@example.org'],
    ['Sam', 'sam@example.org'],
  ])
  const wrong = await rig.as('ann').form('/campaigns', { ...fields, recipients: 'Rita' })
  expect(wrong.status).toBe(400)
  expect(wrong.text).toContain('Line 1: there is no email address; write Name, email.')
})

test('a campaign of a thousand recipients is made and shown whole', async () => {
  const recipients = Array.from({ length: 1_000 }, (_, i) => ({ name: `R${i}`, email: `r${i}@example.org` }))
  const { tokens } = await rig.draft([], { recipients })
  expect(tokens.map(({ name }: Shown) => name)).toEqual(recipients.map(({ name }) => name))
})

test('links go into a spreadsheet that shows them and runs nothing', async () => {
  const recipients = [
    { name: '=HYPERLINK("http://evil.example","x")', email: 'a@example.org' },
    { name: '-2+3', email: 'b@example.org' },
    { name: 'Ann "the boss", Ltd', email: '+c@example.org' },
    { name: '＝1+1', email: 'd@example.org' },
  ]
  const { id, tokens } = await rig.published([], { recipients })
  await rig.idle()
  const { text, headers } = await rig.as('ann').get(`/campaigns/${id}/links.csv`)
  expect(headers.get('content-type')).toBe('text/csv; charset=utf-8')
  expect(headers.get('content-disposition')).toBe(`attachment; filename="links-${id}.csv"`)
  const [link0, link1, link2, link3] = tokens.map(({ link }: Shown) => `"${rig.url}${link}"`)
  expect(text.replace(/^\ufeff/, '').split('\r\n')).toEqual([
    '"name","email","state","link"',
    `"'=HYPERLINK(""http://evil.example"",""x"")","a@example.org","ACTIVE",${link0}`,
    `"'-2+3","b@example.org","ACTIVE",${link1}`,
    `"Ann ""the boss"", Ltd","'+c@example.org","ACTIVE",${link2}`,
    `"'＝1+1","d@example.org","ACTIVE",${link3}`,
    '',
  ])
  const draft = await rig.draft(['Rita'])
  expect((await rig.as('ann').get(`/campaigns/${draft.id}/links.csv`)).status).toBe(409)
})

test('whose copy a file is that leaked is found, and "inconclusive" is said where it is not', async () => {
  const { id, tokens } = await rig.published(['Rita', 'Sam'])
  await rig.idle()
  const ann = rig.as('ann')
  const leaked = await rig.as('nobody').get(tokens[1].link)
  const detect = async (content: string) => {
    const { status, json, headers } = await ann.upload(`/campaigns/${id}/detect`, Buffer.from(content), 'leak.mp4')
    expect([status, headers.get('location')]).toEqual([202, `/api/jobs/${json.id}`])
    await rig.idle()
    return (await ann.get(`/api/jobs/${json.id}`)).json.result
  }
  expect(await detect(leaked.text)).toMatchObject({
    verdict: 'match',
    ranked: [{ name: 'Sam', z: 9 }, { name: 'Rita' }],
  })
  expect(await detect('something else')).toMatchObject({ verdict: 'inconclusive' })
})

test('only the copies of ended campaigns are removed', async () => {
  const over = await rig.published(['Rita'], { expiresAt: inMinutes(10) })
  const kept = await rig.published(['Sam'])
  await rig.idle()
  expect(rig.copies()).toEqual(expect.arrayContaining([over.tokens[0].id, kept.tokens[0].id]))
  await rig.advance('2h')
  expect(rig.copies()).toContain(kept.tokens[0].id)
  expect(rig.copies()).not.toContain(over.tokens[0].id)
})

test('a long name is kept whole, of a campaign and of a recipient', async () => {
  const name = 'Long '.repeat(40).trim()
  const draft = await rig.draft([], { name, recipients: [{ name, email: 'long@example.org' }] })
  expect([draft.name, draft.tokens[0].name]).toEqual([name, name])
})

test('a migration creates the campaign tables, indexes and the CHECK on the state [W37 W38]', async () => {
  const rows = openRows({ location: 'sqlite::memory:', tables: TABLES, storeOpened: async () => null })
  const columns = await rows.all<{ name: string }>(`SELECT name FROM pragma_table_info('wm_campaigns')`)
  expect(columns.map(({ name }) => name)).toEqual([
    'id',
    'account_id',
    'asset_id',
    'name',
    'max_downloads',
    'expires_at',
    'visible_wm',
    'invisible_wm',
    'state',
    'created_at',
    'published_at',
  ])
  const indexes = await rows.all<{ sql: string }>(
    `SELECT sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'wm_campaigns' AND sql IS NOT NULL ORDER BY name`,
  )
  expect(indexes.map(({ sql }) => sql.replace('CREATE INDEX ', ''))).toEqual([
    'wm_campaigns_account ON wm_campaigns (account_id, id)',
    `wm_campaigns_publishing ON wm_campaigns (id) WHERE state = 'PUBLISHING'`,
  ])
  await expect(
    rows.run(
      `INSERT INTO wm_campaigns (id, account_id, asset_id, name, state, created_at) VALUES ('a', 'b', 'c', 'd', 'LOST', 1)`,
    ),
  ).rejects.toThrow('CHECK')
  expect(await findCampaign(rows, 'a', null)).toBeNull()
  await rows.close()
})
