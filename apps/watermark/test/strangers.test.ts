import { rmSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { startServer } from '../../../packages/redress/src/http/index.ts'
import { redress } from '../../../packages/redress/src/index.ts'
import type { Shown } from '../../../test/support/apps/client.ts'
import { keepingLog } from '../../../test/support/scene.ts'
import { smallDisk } from '../../../test/support/stores/small-disk.ts'
import { temporaryFolder } from '../../../test/support/stores/sqlite.ts'
import { until } from '../../../test/support/until.ts'
import { watermarkApp } from '../src/index.ts'
import { ffmpegMedia } from '../src/media.ts'
import { FONT, ffmpeg, isHere, makeClip, mediaFolder, needsFfmpeg } from './media/media-files.ts'
import { Rig, WatermarkClient } from './rig.ts'
import { StandIn, VIDEO } from './stand-in.ts'

describe('what is uploaded', () => {
  needsFfmpeg()
  const { file } = mediaFolder()
  let rig: Rig
  beforeAll(async () => {
    rig = await Rig.open({ media: ffmpegMedia({ fontFile: FONT, attemptMs: 60_000 }) })
    if (!isHere) return
    await makeClip(file('film.ts'), 'testsrc2=size=320x180:rate=5', 1)
    await ffmpeg('-f', 'lavfi', '-i', 'testsrc2=size=64x64:rate=5', '-t', '1', '-loop', '0', file('moving.webp'))
    writeFileSync(file('list.mp4'), '#EXTM3U\n#EXTINF:10,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n')
    writeFileSync(
      file('picture.svg'),
      '<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>',
    )
  })
  const sent = async (name: string) => rig.as('ann').upload('/assets', await readFile(file(name)), name)

  test('a film as a broadcast has it, with the name of its channel, is a film like any other', async () => {
    expect(await sent('film.ts')).toMatchObject({ status: 201, json: { kind: 'video', width: 320, codec: 'h264' } })
  })

  test('WATERMARK_TIMEOUT_MINUTES is how long ffmpeg may take: it is ended by nothing else', async () => {
    const [source, target] = [file('film.ts'), file('late.mp4')]
    const request = { source, target, visibleText: 'Rita', invisible: null, onProgress: () => undefined }
    const mark = (attemptMs: number) =>
      ffmpegMedia({ fontFile: FONT, attemptMs }).mark('video', { ...request, signal: AbortSignal.timeout(60_000) })
    await expect(mark(1)).rejects.toMatchObject({ code: 'TIMED_OUT' })
    expect(await mark(60_000)).toMatchObject({ codec: 'h264' })
  })

  const refusals = [
    ['moving.webp', 'SOURCE_ANIMATED'],
    ['list.mp4', 'SOURCE_UNSUPPORTED'],
    ['picture.svg', 'SOURCE_UNSUPPORTED'],
  ] as const
  test.each(refusals)('%s is refused with its own code and not kept', async (name, code) => {
    expect(await sent(name)).toMatchObject({ status: 400, json: { error: { code } } })
    expect(rig.workLeft()).toEqual([])
  })
})

test('an upload without room to probe it is answered 507, and accepted when there is room', async (context) => {
  const disk = smallDisk(context)
  const rig = await open({ WATERMARK_WORK_DIR: join(disk.folder, 'work') })
  disk.fill()
  const upload = () => rig.me.upload('/assets', Buffer.concat([VIDEO, Buffer.alloc(100_000)]), 'spring.mov')
  expect(await upload()).toMatchObject({ status: 507, json: { error: { code: 'DISK_FULL' } } })
  disk.empty()
  expect((await upload()).status).toBe(201)
})

test('an unusable work folder is answered 503, and the log has the cause', async () => {
  const place = join(temporaryFolder(), 'work')
  writeFileSync(place, 'not a folder')
  const { me, log } = await open({ WATERMARK_WORK_DIR: place })
  const answer = await me.upload('/assets', VIDEO, 'spring.mov')
  expect(answer).toMatchObject({ status: 503, json: { error: { code: 'WRITE_FAILED' } } })
  expect(answer.text).not.toContain(place)
  expect(log.lines.map(({ fields }) => fields.event)).toContain('upload_failed')
  rmSync(place)
  expect((await me.upload('/assets', VIDEO, 'spring.mov')).status).toBe(201)
})

test('a recipient with an invisible name is refused with the draft', async () => {
  const { me } = await open({})
  const asset = (await me.upload('/assets', VIDEO, 'spring.mov')).json
  const recipients = [{ name: '\u200b\u2060', email: 'rita@example.org' }]
  const answer = await me.post('/campaigns', { assetId: asset.id, name: 'Spring', recipients })
  expect(answer).toMatchObject({ status: 400, json: { error: { code: 'REQUEST_INVALID' } } })
  expect(answer.text).toContain('must have a visible character')
})

test('a campaign whose file was damaged is cloned with another one, for the same recipients', async () => {
  const { me } = await open({})
  const [damaged, whole] = [await me.upload('/assets', VIDEO, 'a.mov'), await me.upload('/assets', VIDEO, 'b.mov')]
  const recipients = [{ name: 'Rita', email: 'rita@example.org' }]
  const { id } = (await me.post('/campaigns', { assetId: damaged.json.id, name: 'Spring', recipients })).json
  const clone = await me.post(`/campaigns/${id}/clone`, { assetId: whole.json.id })
  expect(clone).toMatchObject({ status: 201, json: { assetId: whole.json.id, tokens: [{ name: 'Rita' }] } })
  expect((await me.post(`/campaigns/${id}/clone`)).json.assetId).toBe(damaged.json.id)
  expect((await me.post(`/campaigns/${id}/clone`, { assetId: id })).status).toBe(404)
})

test('with another secret no copy is made and none is searched for: its mark could not be found', async () => {
  const folder = temporaryFolder()
  const [ours, others] = ['the secret of this place, which is long', 'another secret, which is as long as it']
  const first = await open({ WATERMARK_SECRET: ours }, folder)
  const asset = (await first.me.upload('/assets', VIDEO, 'spring.mov')).json
  const recipients = [{ name: 'Rita', email: 'rita@example.org' }]
  const { id } = (await first.me.post('/campaigns', { assetId: asset.id, name: 'Spring', recipients })).json
  await first.me.post(`/campaigns/${id}/publish`)

  const second = await open({ WATERMARK_SECRET: others }, folder)
  await second.app.work({ pollMs: 20 })
  const jobs = async (): Promise<Shown[]> => (await second.app.jobs.list({ batch: id })).jobs
  await until('it was left alone', async () => (await jobs())[0].errorCode === 'KEY_MISSING')
  expect((await jobs())[0]).toMatchObject({ status: 'queued', retryCount: 1 })
  expect(second.media.marked).toEqual([])
  const search = (await second.me.upload(`/campaigns/${id}/detect`, VIDEO, 'leak.mp4')).json
  const ended = await until('the search is over', async () => {
    const job: Shown = await second.app.jobs.find(search.id)
    return ['failed', 'complete'].includes(job.status) && job
  })
  expect(ended).toMatchObject({ status: 'failed', errorCode: 'KEY_MISSING' })
})

test('a start without ffmpeg logs a warning with an action', async () => {
  vi.stubEnv('FFMPEG_PATH', '/nowhere/ffmpeg')
  onTestFinished(() => void vi.unstubAllEnvs())
  const log = keepingLog()
  const app = redress({ store: 'sqlite::memory:' })
  const installed = await watermarkApp().install(app, { home: temporaryFolder(), env: {}, log })
  onTestFinished(async () => {
    await app.stop()
    await installed.stop?.()
  })
  await installed.start?.()
  expect(log.lines.map(({ fields }) => fields)).toMatchObject([
    { event: 'program_missing', detail: expect.stringContaining('/nowhere/ffmpeg'), action: expect.any(String) },
  ])
})

/** The app with a stand-in for ffmpeg, as somebody would start it in a folder. */
async function open(env: Record<string, string>, folder = temporaryFolder()) {
  const log = keepingLog()
  const media = new StandIn()
  const app = redress({ store: `sqlite:${join(folder, 'redress.db')}` })
  const space = { DISK_FREE_SOFT_MB: '0', DISK_FREE_HARD_MB: '0' }
  const installContext = { home: join(folder, 'watermark'), env: { ...space, ...env }, log }
  const installed = await watermarkApp({ media }).install(app, installContext)
  const http = await startServer({ app, port: 0, auth: 'none', mounts: [installed.mount ?? (() => undefined)] })
  onTestFinished(async () => {
    await http.stop({ graceMs: 0 })
    await app.stop({ graceMs: 5_000 })
    await installed.stop?.()
  })
  await http.ready
  return { app, log, media, me: new WatermarkClient(http.url, null) }
}
