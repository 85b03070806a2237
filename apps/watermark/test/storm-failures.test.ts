import { once } from 'node:events'
import { open, readFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { artifactStore } from '../../../packages/redress/src/artifacts/index.ts'
import type { Shown } from '../../../test/support/apps/client.ts'
import { freePort, mailServer } from '../../../test/support/servers/smtp.ts'
import { until } from '../../../test/support/until.ts'
import { markVideo } from '../src/media/mark.ts'
import { ffmpegMedia } from '../src/media.ts'
import { encodesIn, killEncode } from './encodes.ts'
import { disguised, FONT, ffmpeg, isHere, makeClip, mediaFolder, needsFfmpeg } from './media/media-files.ts'
import { Rig } from './rig.ts'

needsFfmpeg()
const { file } = mediaFolder()

let rig: Rig
let hook: Server
let smtpPort: number
const told: Shown[] = []
/** Those whose encodes are killed, each time. */
const doomed = new Set<string>()

beforeAll(async () => {
  hook = createServer(async (request, response) => {
    let body = ''
    for await (const part of request) body += String(part)
    told.push(JSON.parse(body).data)
    response.end()
  }).listen(0, '127.0.0.1')
  await once(hook, 'listening')
  smtpPort = await freePort()
  const real = ffmpegMedia({ fontFile: FONT, attemptMs: 60_000 })
  rig = await Rig.open({
    media: {
      ...real,
      mark: (kind, request) =>
        doomed.has(request.invisible?.tokenId ?? '')
          ? // It reads no faster than the film plays, so that nobody has to be quick to kill it.
            markVideo({ ...request, invisible: request.invisible ?? undefined, programs: slow() })
          : real.mark(kind, request),
    },
    env: {
      SMTP_URL: `smtp://127.0.0.1:${smtpPort}`,
      MAIL_FROM: 'campaigns@example.org',
      WEBHOOK_URL: `http://127.0.0.1:${(hook.address() as AddressInfo).port}/`,
      WEBHOOK_SECRET: `whsec_${Buffer.alloc(32, 7).toString('base64')}`,
    },
  })
  if (!isHere) return
  await makeClip(file('clip.mp4'), 'testsrc2=size=320x180:rate=5', 3)
  await ffmpeg('-i', file('clip.mp4'), '-c', 'copy', '-movflags', '+faststart', file('front.mp4'))
})
afterAll(() => hook.close())

const slow = () => disguised(file('slow-ffmpeg'), 'exec FFMPEG -re "$@"')
const clip = () => readFile(file('front.mp4'))

/** Deliveries are jobs of their own: they come after what they tell of. */
async function everythingTold(): Promise<void> {
  await until('everything is told', async () => {
    await rig.idle()
    const { notices } = await rig.app.perform('notices.list', { waiting: true })
    const { jobs } = await rig.app.jobs.list({ limit: 1_000 })
    return (
      notices.length === 0 && !jobs.some(({ type, status }) => type.startsWith('redress.') && status !== 'complete')
    )
  })
}

test('a campaign with repeatedly killed encodes becomes PARTIAL once, and a retry makes it READY [W6 W8 W9 W25 W26]', async () => {
  const { mails } = await mailServer({ port: smtpPort })
  const names = ['Rita', 'Sam', 'Tom', 'Uma', 'Vic', 'Wes']
  const { id, tokens } = await rig.published(names, {}, await clip())
  for (const { id: tokenId } of tokens.slice(0, 2)) doomed.add(tokenId)
  const work = join(rig.folder, 'watermark/work')
  // By attempt: on a busy machine, one that was killed may be seen again before it is gone.
  const kills = new Set<string>()
  const killer = setInterval(() => {
    for (const encode of encodesIn(work)) {
      const { tokenId, attempt } = encode
      if (doomed.has(tokenId) && killEncode(encode, work)) kills.add(`${tokenId}.${attempt}`)
    }
  }, 20)
  await rig.idle()
  for (const wait of ['1m', '5m', '15m']) await rig.advance(wait)
  clearInterval(killer)
  expect(kills).toEqual(new Set([...doomed].flatMap((one) => [1, 2, 3, 4].map((attempt) => `${one}.${attempt}`))))
  await everythingTold()

  const campaign = await rig.campaign(id)
  expect(campaign).toMatchObject({ state: 'PARTIAL', counts: { total: 6, completed: 4, failed: 2 } })
  expect(campaign.tokens.map(({ state, retryCount }: Shown) => `${state} ${retryCount}`)).toEqual([
    'FAILED 3',
    'FAILED 3',
    ...Array.from({ length: 4 }, () => 'ACTIVE 0'),
  ])
  expect(campaign.tokens[0].error.code).toBe('OUT_OF_MEMORY')
  expect((await rig.app.batches.find(id))?.history.map(({ kind }) => kind)).toEqual(['settled'])
  expect(told).toMatchObject([{ campaign_id: id, state: 'PARTIAL', completed: 4, failed: 2 }])
  expect(mails.map(({ parsed }) => parsed.subject).toSorted()).toEqual([
    'Spring: 2 copies failed',
    'Spring: the copy for Rita failed',
    'Spring: the copy for Sam failed',
  ])
  expect(await statusesOf(tokens)).toEqual([409, 409, 200, 200, 200, 200])

  doomed.clear()
  for (const { id: tokenId } of tokens.slice(0, 2)) {
    expect((await rig.as('ann').post(`/campaigns/${id}/tokens/${tokenId}/retry`)).json.state).toBe('PROCESSING')
  }
  await everythingTold()
  expect(await rig.campaign(id)).toMatchObject({ state: 'READY', counts: { total: 6, completed: 6, failed: 0 } })
  expect(told.map(({ state }) => state)).toEqual(['PARTIAL', 'READY'])
  expect(mails).toHaveLength(3)
  expect(await statusesOf(tokens)).toEqual([200, 200, 200, 200, 200, 200])
  // W3: nobody made those again that were ready.
  for (const token of tokens.slice(2)) expect(await rig.history(token.id)).toEqual(['queued', 'processing', 'complete'])
  expect(rig.workLeft()).toEqual([])
})

const statusesOf = (tokens: Shown[]) =>
  Promise.all(tokens.map(async ({ link }: Shown) => (await rig.as('nobody').get(link)).status))

async function expectCorruptAtOnce(campaignId: string): Promise<void> {
  await rig.idle()
  const campaign = await rig.campaign(campaignId)
  expect(campaign).toMatchObject({ state: 'FAILED', counts: { total: 3, failed: 3, completed: 0 } })
  for (const { id, error, retryCount, link } of campaign.tokens) {
    expect([error.code, retryCount]).toEqual(['SOURCE_CORRUPT', 0])
    expect(await rig.history(id)).toEqual(['queued', 'processing', 'failed'])
    expect(rig.copies()).not.toContain(id)
    expect((await rig.as('nobody').get(link)).status).toBe(409)
  }
  expect(rig.workLeft()).toEqual([])
}

test('a source overwritten in the store fails every copy at once without a retry [W20 W22 W49]', async () => {
  const { id, assetId } = await rig.published(['Rita', 'Sam', 'Tom'], {}, await clip())
  const source = await open(join(rig.folder, 'watermark/assets/sources', assetId), 'r+')
  await source.write(Buffer.alloc(512, 0xee), 0, 512, 9_000)
  await source.close()
  await expectCorruptAtOnce(id)
})

test('a source truncated in the store fails every copy at once without a retry [W20 W22 W49]', async () => {
  const { id, assetId } = await rig.published(['Rita', 'Sam', 'Tom'], {}, await clip())
  const whole = await clip()
  const assets = await artifactStore({ url: `file:${join(rig.folder, 'watermark/assets')}` })
  await assets.put(`sources/${assetId}`, whole.subarray(0, Math.floor(whole.length * 0.6)))
  await assets.close()
  await expectCorruptAtOnce(id)
})
