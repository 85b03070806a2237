import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, type TestContext, test } from 'vitest'
import { startServer } from '../../../packages/redress/src/http/index.ts'
import { redress } from '../../../packages/redress/src/index.ts'
import { running } from '../../../packages/redress/test/cli/command.ts'
import type { Shown } from '../../../test/support/apps/client.ts'
import { keepingLog } from '../../../test/support/scene.ts'
import { did, size } from '../../../test/support/size.ts'
import { type SmallDisk, smallDisk } from '../../../test/support/stores/small-disk.ts'
import { temporaryFolder } from '../../../test/support/stores/sqlite.ts'
import { until } from '../../../test/support/until.ts'
import { watermarkApp } from '../src/index.ts'
import { encodesIn, killEncode } from './encodes.ts'
import { makeClip, mediaFolder, needsFfmpeg, programs } from './media/media-files.ts'
import { WatermarkClient } from './rig.ts'

needsFfmpeg()
const { file } = mediaFolder()

const RECIPIENTS = size(16, 50)
/** So many encodes are killed, and so many copies find no room. */
const [KILLED_MIN, FULL_MIN, AFTERWARDS_MIN] = [size(2, 6), size(2, 3), size(2, 5)]

test('a campaign survives killed encodes, a killed worker and a full disk: every copy is made once [W2 W3 W5 W40]', async (context) => {
  const place = await storm(context)
  const { campaignId, links, disk, work } = place
  const downloads = place.watchDownloads()
  const killed = new Set<string>()
  const completed = async () => (await place.jobs()).filter(({ status }) => status === 'complete').length
  const [first] = [await place.worker(), await place.worker()]
  await until(
    `${KILLED_MIN} encodes are killed`,
    () => {
      const fresh = encodesIn(work).find(({ tokenId }) => !killed.has(tokenId))
      if (fresh !== undefined && killEncode(fresh, work)) killed.add(fresh.tokenId)
      return killed.size >= KILLED_MIN
    },
    { everyMs: 5 },
  )

  disk.fill()
  const starved = await until('copies find no room', async () => {
    const found = (await place.jobs()).filter(({ errorCode }) => errorCode === 'DISK_FULL')
    return found.length >= FULL_MIN && found.map(({ id }) => id)
  })
  disk.empty()
  const before = await completed()
  await until('there is room again', async () => (await completed()) >= before + AFTERWARDS_MIN)

  const held = async () => {
    const jobs = (await place.jobs()).filter(({ worker }) => String(worker).includes(`:${first.child.pid}:`))
    return jobs.map(({ id }) => id)
  }
  await until('the worker has work', async () => {
    const found = await held()
    return encodesIn(work).some(({ tokenId }) => found.includes(tokenId))
  })
  first.child.kill('SIGKILL')
  await first.ended
  // Only now: until its end it may have taken another.
  const orphans = await held()
  await until('the campaign is over', async () => (await place.campaign()).state !== 'PROCESSING', { withinMs: 90_000 })

  const campaign = await place.campaign()
  expect(campaign).toMatchObject({ state: 'READY', counts: { total: RECIPIENTS, completed: RECIPIENTS, failed: 0 } })
  await downloads.stop()
  expect(downloads.wrong).toEqual([])
  expect(downloads.seen).toEqual(new Set([200, 202]))

  const reclaimed = new Set<string>()
  for (const { id, retryCount } of await place.jobs()) {
    const kinds = (await place.app.jobs.events(id)).events.map(({ kind }) => kind)
    expect(kinds.filter((kind) => kind === 'complete')).toHaveLength(1)
    // A worker that was lost costs nothing (W40): only what failed was counted.
    expect(retryCount, kinds.join()).toBe(kinds.filter((kind) => kind === 'retry').length)
    if (kinds.includes('reclaimed')) reclaimed.add(id)
    const codes = (await place.app.perform('jobs.failures', { id })).failures.map(({ code }: Shown) => code)
    expect(codes.includes('OUT_OF_MEMORY'), `${id}: ${codes}`).toBe(killed.has(id))
    if (starved.includes(id)) expect(codes).toContain('DISK_FULL')
    expect(codes.filter((code: string) => !['OUT_OF_MEMORY', 'DISK_FULL'].includes(code))).toEqual([])
  }
  did({ recipients: RECIPIENTS, killed: killed.size, withoutRoom: starved.length, reclaimed: reclaimed.size })
  expect(reclaimed.size).toBeGreaterThan(0)
  expect([...reclaimed].filter((id) => !orphans.includes(id))).toEqual([])

  expect(readdirSync(work)).toEqual([])
  expect(
    readdirSync(join(disk.folder, 'copies'))
      .filter((name) => !name.startsWith('.'))
      .toSorted(),
  ).toEqual(campaign.tokens.map(({ id }: Shown) => id).toSorted())
  const shas = new Set<string>()
  for (const { id, link } of links) shas.add(await place.expectWhole(id, link))
  // Each has a mark of its own.
  expect(shas.size).toBe(RECIPIENTS)
  expect((await place.app.batches.find(campaignId))?.history.map(({ kind }) => kind)).toEqual(['settled'])
  await until('it was told', () => place.told.length > 0)
  expect(place.told.map(({ data }) => data)).toMatchObject([{ campaign_id: campaignId, state: 'READY', failed: 0 }])
}, 180_000)

/** A published campaign whose copies are made on a small disk, by nobody yet. */
async function storm(context: TestContext) {
  const folder = temporaryFolder()
  const disk: SmallDisk = smallDisk(context, '12m')
  const work = join(disk.folder, 'work')
  mkdirSync(work)
  const told: Shown[] = []
  const hook = createServer(async (request, response) => {
    let body = ''
    for await (const part of request) body += String(part)
    told.push(JSON.parse(body))
    response.end()
  }).listen(0, '127.0.0.1')
  onTestFinished(() => void hook.close())
  await until('the hook listens', () => hook.listening)
  const env = {
    WATERMARK_WORK_DIR: work,
    WATERMARK_COPIES_DIR: join(disk.folder, 'copies'),
    WATERMARK_RETRY_DELAYS: '500ms,1s,2s',
    WATERMARK_LEASE_SEC: '2',
    WEBHOOK_URL: `http://127.0.0.1:${(hook.address() as AddressInfo).port}/`,
    WEBHOOK_SECRET: `whsec_${Buffer.alloc(32, 7).toString('base64')}`,
    DISK_FREE_SOFT_MB: '0',
    DISK_FREE_HARD_MB: '0',
  }
  const app = redress({ store: `sqlite:${join(folder, 'redress.db')}` })
  const installed = await watermarkApp().install(app, { home: join(folder, 'watermark'), env, log: keepingLog() })
  const http = await startServer({ app, port: 0, auth: 'none', mounts: [installed.mount ?? (() => undefined)] })
  onTestFinished(async () => {
    await http.stop({ graceMs: 0 })
    await app.stop({ graceMs: 0 })
    await installed.stop?.()
  })
  await http.ready
  const me = new WatermarkClient(http.url, null)
  await makeClip(file('clip.mp4'), 'testsrc2=size=320x180:rate=5', 1)
  const asset = (await me.upload('/assets', await readFile(file('clip.mp4')), 'clip.mp4')).json
  const recipients = Array.from({ length: RECIPIENTS }, (_, i) => ({ name: `R${i}`, email: `r${i}@example.org` }))
  const draft = (await me.post('/campaigns', { assetId: asset.id, name: 'Storm', recipients })).json
  const published = (await me.post(`/campaigns/${draft.id}/publish`)).json
  const links: { id: string; link: string }[] = published.tokens

  const download = async (link: string) => {
    const answer = await fetch(http.url + link)
    const body = new Uint8Array(await answer.arrayBuffer())
    return { status: answer.status, body, length: Number(answer.headers.get('content-length')) }
  }
  const resultOf = async (id: string): Promise<Shown> => (await app.jobs.find(id))?.result
  return {
    app,
    campaignId: String(draft.id),
    links,
    disk,
    work,
    told,
    worker: () =>
      running(['worker', '--apps', 'watermark', '--data', folder, '--concurrency', '2'], {
        says: 'Ctrl-C stops it',
        env,
      }),
    jobs: async () => (await app.jobs.list({ batch: draft.id, limit: 100 })).jobs,
    campaign: async (): Promise<Shown> => (await me.get(`/campaigns/${draft.id}`)).json,
    /** Asks for one copy after another until it is told to stop, and keeps whatever is not as it has to be. */
    watchDownloads() {
      const wrong: string[] = []
      const seen = new Set<number>()
      let isOver = false
      let asked = 0
      const look = async () => {
        const { id, link } = links[asked++ % links.length] as { id: string; link: string }
        const { status, body, length } = await download(link)
        seen.add(status)
        if (status === 200 && (body.length !== length || sha256(body) !== (await resultOf(id)).sha256)) {
          wrong.push(`${id}: ${body.length} of ${length} bytes`)
        }
        return isOver
      }
      const watching = until('nobody watches any more', look, { everyMs: 50, withinMs: 170_000 })
      return {
        wrong,
        seen,
        stop: () => {
          isOver = true
          return watching
        },
      }
    },
    async expectWhole(id: string, link: string): Promise<string> {
      const { status, body } = await download(link)
      const result = await resultOf(id)
      expect([status, body.length, sha256(body)]).toEqual([200, result.bytes, result.sha256])
      await writeFile(file('got.mp4'), body)
      const entries = 'stream=codec_name,width,height,duration'
      const args = ['-v', 'error', '-of', 'csv=p=0', '-show_entries', entries, file('got.mp4')]
      const { stdout } = await promisify(execFile)(programs.ffprobe.path, args)
      expect(stdout.trim()).toBe('h264,320,180,1.000000')
      return result.sha256
    },
  }
}

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')
