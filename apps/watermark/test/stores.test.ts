import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readlinkSync } from 'node:fs'
import { type IncomingMessage, request } from 'node:http'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { startServer } from '../../../packages/redress/src/http/index.ts'
import { redress } from '../../../packages/redress/src/index.ts'
import type { Shown } from '../../../test/support/apps/client.ts'
import { keepingLog } from '../../../test/support/scene.ts'
import { ownDatabase } from '../../../test/support/stores/databases.ts'
import { startPostgres, type TestPostgres } from '../../../test/support/stores/postgres.ts'
import { openRaw, temporaryFolder } from '../../../test/support/stores/sqlite.ts'
import { until } from '../../../test/support/until.ts'
import { addAsset, findAsset, listAssets } from '../src/assets/assets.ts'
import {
  addCampaign,
  countDownload,
  findCampaign,
  findToken,
  listCampaigns,
  revokeToken,
  tokensOf,
} from '../src/campaigns/campaigns.ts'
import { watermarkApp } from '../src/index.ts'
import { openRows, type Rows } from '../src/rows/rows.ts'
import { TABLES } from '../src/rows/tables.ts'
import { WatermarkClient } from './rig.ts'
import { StandIn, VIDEO } from './stand-in.ts'

let server: TestPostgres
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server.stop())

const PLACES: [name: string, place: () => Promise<string>][] = [
  ['SQLite', async () => 'sqlite::memory:'],
  ['PostgreSQL', () => ownDatabase(server.url)],
]

const ASSET = {
  id: 'asset-1',
  account_id: 'ann',
  name: 'spring.mov',
  kind: 'video' as const,
  bytes: 5 * 2 ** 32,
  sha256: 'ab',
  width: 1920,
  height: 1080,
  duration_ms: 60_000,
  codec: 'h264',
  created_at: Date.UTC(2030, 0, 1),
}
const CAMPAIGN = {
  id: 'campaign-1',
  owner: 'ann',
  assetId: 'asset-1',
  name: 'Spring',
  maxDownloads: 5,
  expiresAtMs: Date.UTC(2031, 0, 1),
  visible: true,
  invisible: false,
}

/** A number of recipients that needs both shapes of the statement. */
const RECIPIENTS = Array.from({ length: 53 }, (_, i) => ({ name: `R${i}`, email: `r${i}@example.org` }))

async function opened(place: () => Promise<string>): Promise<Rows> {
  const rows = openRows({ location: await place(), tables: TABLES, storeOpened: async () => null })
  onTestFinished(() => rows.close())
  await addAsset(rows, ASSET)
  let made = 0
  await addCampaign(rows, { ...CAMPAIGN, recipients: RECIPIENTS }, () => `token-${++made}`, 7)
  return rows
}

describe.each(PLACES)('on %s', (_name, place) => {
  test('campaigns are kept as they were made, and downloads and revocations are counted once', async () => {
    const rows = await opened(place)
    expect(await findAsset(rows, 'asset-1', 'ann')).toEqual(ASSET)
    expect(await findAsset(rows, 'asset-1', 'bob')).toBeNull()
    expect(await findCampaign(rows, 'campaign-1', null)).toEqual({
      id: 'campaign-1',
      account_id: 'ann',
      asset_id: 'asset-1',
      name: 'Spring',
      max_downloads: 5,
      expires_at: CAMPAIGN.expiresAtMs,
      visible_wm: 1,
      invisible_wm: 0,
      state: 'DRAFT',
      created_at: 7,
      published_at: null,
    })
    const tokens = await tokensOf(rows, 'campaign-1')
    expect(tokens.map(({ recipient_name, position }) => [recipient_name, position])).toEqual(
      RECIPIENTS.map(({ name }, i) => [name, i + 1]),
    )

    for (const owner of ['ann', null]) {
      const page = { owner, limit: 10, before: null }
      expect(await listAssets(rows, page)).toHaveLength(1)
      expect(await listCampaigns(rows, page)).toHaveLength(1)
      expect(await listCampaigns(rows, { ...page, before: 'campaign-1' })).toEqual([])
    }
    expect(await listCampaigns(rows, { owner: 'bob', limit: 10, before: null })).toEqual([])

    const counted = await Promise.all(Array.from({ length: 100 }, () => countDownload(rows, 'token-1', 5)))
    expect(counted.filter(Boolean)).toHaveLength(5)
    for (let i = 0; i < 7; i++) expect(await countDownload(rows, 'token-2', null)).toBe(true)
    expect(await findToken(rows, 'token-2')).toMatchObject({ downloads: 7, revoked_at: null })

    expect(await revokeToken(rows, 'campaign-2', 'token-2', 11)).toBe(false)
    expect(await revokeToken(rows, 'campaign-1', 'token-2', 12)).toBe(true)
    expect(await revokeToken(rows, 'campaign-1', 'token-2', 13)).toBe(true)
    expect(await findToken(rows, 'token-2')).toMatchObject({ revoked_at: 12 })
    expect(await countDownload(rows, 'token-2', null)).toBe(false)
  })
})

test('on PostgreSQL a campaign goes all the way, its jobs and its rows in one database', async () => {
  const app = redress({ store: await ownDatabase(server.url) })
  const installContext = { home: join(temporaryFolder(), 'watermark'), env: {}, log: keepingLog() }
  const installed = await watermarkApp({ media: new StandIn() }).install(app, installContext)
  const http = await startServer({ app, port: 0, auth: 'none', mounts: [installed.mount ?? (() => undefined)] })
  onTestFinished(async () => {
    await http.stop({ graceMs: 0 })
    await app.stop({ graceMs: 5_000 })
    await installed.stop?.()
  })
  await http.ready
  await installed.start?.()
  await app.work({ pollMs: 20 })
  const me = new WatermarkClient(http.url, null)
  const asset = (await me.upload('/assets', VIDEO, 'spring.mov')).json
  const recipients = [{ name: 'Rita', email: 'rita@example.org' }]
  const draft = (await me.post('/campaigns', { assetId: asset.id, name: 'Spring', recipients, maxDownloads: 2 })).json
  await me.post(`/campaigns/${draft.id}/publish`)
  const shown: Shown = await until('it is ready', async () => {
    const { json } = await me.get(`/campaigns/${draft.id}`)
    return json.state === 'READY' ? json : null
  })
  const answers = await Promise.all(Array.from({ length: 10 }, () => me.get(shown.tokens[0].link)))
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(2)
  expect((await me.get(`/campaigns/${draft.id}`)).json.tokens[0]).toMatchObject({ state: 'CONSUMED', downloads: 2 })
})

/** Two servers on one store, and a link with five downloads to a copy of some megabytes. */
async function twoServers(store: string) {
  const home = join(temporaryFolder(), 'watermark')
  const urls: string[] = []
  for (let i = 0; i < 2; i++) {
    const app = redress({ store })
    const installed = await watermarkApp({ media: new StandIn() }).install(app, { home, env: {}, log: keepingLog() })
    const http = await startServer({ app, port: 0, auth: 'none', mounts: [installed.mount ?? (() => undefined)] })
    onTestFinished(async () => {
      await http.stop({ graceMs: 0 })
      await app.stop({ graceMs: 5_000 })
      await installed.stop?.()
    })
    await http.ready
    urls.push(http.url)
    if (i === 0) await app.work({ pollMs: 20 })
  }
  const me = new WatermarkClient(urls[0] ?? '', null)
  const film = Buffer.concat([VIDEO, Buffer.alloc(4 * 2 ** 20, '0123456789')])
  const asset = (await me.upload('/assets', film, 'spring.mov')).json
  const recipients = [{ name: 'Rita', email: 'rita@example.org' }]
  const draft = (await me.post('/campaigns', { assetId: asset.id, name: 'Spring', recipients, maxDownloads: 5 })).json
  await me.post(`/campaigns/${draft.id}/publish`)
  const token = async (): Promise<Shown> => (await me.get(`/campaigns/${draft.id}`)).json.tokens[0]
  const { link, id } = await until('it is ready', async () => ((await token()).state === 'ACTIVE' ? token() : null))
  return { urls, link: String(link), token, file: join(home, 'copies', String(id)) }
}

/** One request on a connection of its own. What is left in the middle is ended there, and gives its beginning. */
function asked(url: string, headers: Record<string, string>, { method = 'GET', isLeft = false } = {}) {
  return new Promise<{ answer: IncomingMessage; body: string; socket: Socket }>((resolve, reject) => {
    const sending = request(url, { method, headers, agent: false }, async (answer) => {
      const { socket } = answer
      if (!isLeft || answer.statusCode === 410) return resolve({ answer, body: await text(answer), socket })
      const [part] = (await once(answer, 'data')) as [Buffer]
      answer.destroy()
      resolve({ answer, body: part.toString(), socket })
    })
    sending.on('error', reject).end()
  })
}

const FILES: [name: string, store: () => Promise<string>][] = [
  ['SQLite', async () => `sqlite:${join(temporaryFolder(), 'redress.db')}`],
  ['PostgreSQL', () => ownDatabase(server.url)],
]

test.each(FILES)(
  'on %s, of a hundred connections to two servers, whole, in parts and broken off, exactly five get a copy',
  async (_name, store) => {
    const { urls, link, token, file } = await twoServers(await store())
    const kinds = [
      ...Array.from({ length: 40 }, () => ({})),
      ...Array.from({ length: 20 }, () => ({ isLeft: true })),
      ...Array.from({ length: 15 }, () => ({ range: 'bytes=0-' })),
      // From the middle, by somebody who was not counted: a download like any other.
      ...Array.from({ length: 15 }, (_, i) => ({ range: `bytes=${i + 5}-` })),
      ...Array.from({ length: 10 }, () => ({ method: 'HEAD' })),
    ].map((kind: { range?: string; method?: string; isLeft?: boolean }, i) => ({ kind, at: (i * 37) % 100 }))
    kinds.sort((one, other) => one.at - other.at)
    const answers = await Promise.all(
      kinds.map(async ({ kind: { range, ...how } }, i) => {
        const got = await asked((urls[i % 2] ?? '') + link, range === undefined ? {} : { range }, how)
        return { ...got, isLook: how.method === 'HEAD', status: got.answer.statusCode }
      }),
    )
    expect(new Set(answers.map(({ socket }) => socket)).size).toBe(100)
    const counted = answers.filter(({ isLook }) => !isLook).map(({ status }) => status)
    expect(counted.filter((status) => status === 410)).toHaveLength(85)
    expect(counted.filter((status) => status === 200 || status === 206)).toHaveLength(5)
    expect(await token()).toMatchObject({ state: 'CONSUMED', downloads: 5 })
    await until('no copy is open any more', () => !openFiles().includes(file))
  },
)

test('an interrupted download counts once and can be resumed at any server', async () => {
  const { urls, link, token, file } = await twoServers(`sqlite:${join(temporaryFolder(), 'redress.db')}`)
  const [here = '', there = ''] = urls
  const whole = (await asked(here + link, {})).body
  const { answer, body } = await asked(here + link, {}, { isLeft: true })
  expect(body.length).toBeLessThan(whole.length)
  await until('the server let go of it', () => !openFiles().includes(file))
  const rest = { range: `bytes=${body.length}-`, 'if-range': String(answer.headers.etag) }
  const goneOn = await asked(there + link, rest)
  expect([goneOn.answer.statusCode, body + goneOn.body === whole]).toEqual([206, true])
  expect((await token()).downloads).toBe(2)
})

function openFiles(): string[] {
  return readdirSync('/proc/self/fd').flatMap((name) => {
    try {
      return [readlinkSync(`/proc/self/fd/${name}`)]
    } catch {
      // It was the one that lists the others.
      return []
    }
  })
}

test.each(['before-jobs', 'after-jobs'])(
  'a publish that is killed %s is finished by the next process, each copy once',
  async (dieAt) => {
    const folder = temporaryFolder()
    const fixture = join(import.meta.dirname, 'fixtures/publisher.ts')
    const options = ['--conditions=redress-source', '--disable-warning=ExperimentalWarning']
    const child = spawn(process.execPath, [...options, fixture, folder, dieAt], {
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    const [, signal] = await once(child, 'exit')
    expect(signal).toBe('SIGKILL')

    const app = redress({ store: `sqlite:${join(folder, 'redress.db')}` })
    const media = new StandIn()
    const log = keepingLog()
    const installed = await watermarkApp({ media }).install(app, { home: join(folder, 'watermark'), env: {}, log })
    onTestFinished(async () => {
      await app.stop({ graceMs: 5_000 })
      await installed.stop?.()
    })
    expect((await app.batches.list({})).batches).toHaveLength(dieAt === 'before-jobs' ? 0 : 1)
    await installed.start?.()
    expect(log.lines.map(({ fields }) => fields.event)).toEqual(['publish_resumed'])
    await app.work({ pollMs: 20 })
    const { id } = await until('it is ready', async () => (await app.batches.list({ state: 'complete' })).batches[0])
    expect((await app.jobs.list({ batch: id })).jobs).toHaveLength(2)
    expect(media.marked).toHaveLength(2)
    const rows = openRaw(join(folder, 'redress.db')).prepare('SELECT id, state FROM wm_campaigns').all()
    expect(rows.map((row) => ({ ...row }))).toEqual([{ id, state: 'PUBLISHED' }])
  },
)
