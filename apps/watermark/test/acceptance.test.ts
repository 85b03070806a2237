import { readFile, writeFile } from 'node:fs/promises'
import type { Page } from 'playwright-core'
import { beforeAll, beforeEach, expect, test } from 'vitest'
import { freePort, mailServer } from '../../../test/support/servers/smtp.ts'
import { until } from '../../../test/support/until.ts'
import { markVideo } from '../src/media/mark.ts'
import { probeMedia } from '../src/media/probe.ts'
import { ffmpegMedia, type Media } from '../src/media.ts'
import { comesToSay, rowOf, visit, watch } from './campaign-page.ts'
import { disguised, FONT, ffmpeg, isHere, makeClip, mediaFolder, needsFfmpeg } from './media/media-files.ts'
import { Rig } from './rig.ts'

/** Real films and programs, a real mail server and a real browser; only the time is the test's. */
needsFfmpeg()
const { file } = mediaFolder()
const real = ffmpegMedia({ fontFile: FONT, attemptMs: 60_000 })

/** Those whose encodes are killed, each time, as a machine without memory does it. */
const doomed = new Set<string>()
const mark: Media['mark'] = (kind, request) => {
  if (!doomed.has(request.visibleText ?? '')) return real.mark(kind, request)
  const programs = disguised(file('killed-ffmpeg'), 'kill -9 $$')
  return markVideo({ ...request, visible: undefined, invisible: request.invisible ?? undefined, programs })
}

let rig: Rig
let smtpPort: number
beforeAll(async () => {
  smtpPort = await freePort()
  const env = { SMTP_URL: `smtp://127.0.0.1:${smtpPort}`, MAIL_FROM: 'campaigns@example.org' }
  // Of a film that is too long to be decoded while its owner waits, no more is known at the door.
  rig = await Rig.open({ media: { ...real, mark, probe: (path) => probeMedia(path) }, env })
  if (!isHere) return
  await makeClip(file('clip.mp4'), 'testsrc2=size=160x90:rate=10', 1)
  await ffmpeg('-i', file('clip.mp4'), '-c', 'copy', '-movflags', '+faststart', file('front.mp4'))
})
beforeEach(() => doomed.clear())

/** The page of a campaign that hears of everything from now on, and is never loaded again. */
async function watching(id: string): Promise<Page> {
  const page = await visit(rig, '/campaigns/assets/rows.css')
  const seen = watch(page)
  await page.goto(`/campaigns/${id}`)
  await until('the page listens', () => seen.asked() > 0)
  await page.evaluate('globalThis.isSame = true')
  return page
}
const stateOf = (page: Page, state: string) => page.locator('#part-head .status-badge', { hasText: state }).waitFor()

test('a killed encode is retried after 1, 5 and 15 minutes, then fails; the owner is mailed and retries it [W1 W49 W51 W52]', async () => {
  const { mails } = await mailServer({ port: smtpPort })
  doomed.add('Sam')
  const { id, tokens } = await rig.published(['Rita', 'Sam'], {}, await readFile(file('clip.mp4')))
  const page = await watching(id)
  await page.evaluate(`
    globalThis.heard = []
    new EventSource('/api/events?topic=campaign:${id}').addEventListener('token_failed', ({ data }) => heard.push(data))`)
  await rig.idle()
  const startMs = rig.kit.clock.nowMs()
  let waitedMs = 0
  for (const [retry, minutes] of [
    [1, 1],
    [2, 5],
    [3, 15],
  ] as const) {
    waitedMs += minutes * 60_000
    const at = new Date(startMs + waitedMs).toISOString()
    await rowOf(page, 'Sam').getByText(`Retry ${retry} of 3 at`).waitFor()
    expect(await rowOf(page, 'Sam').locator('.note time').getAttribute('datetime')).toBe(at)
    expect(await rowOf(page, 'Sam').locator('.retry-badge').innerText()).toContain(`${retry}/3`)
    expect((await rig.campaign(id)).counts).toEqual({ total: 2, completed: 1, failed: 0, pending: 1, running: 0 })
    expect(mails).toEqual([])
    await rig.advance(`${minutes}m`)
  }
  await comesToSay(page, 'Sam', 'FAILED')
  await stateOf(page, 'PARTIAL')
  expect((await rig.campaign(id)).counts).toEqual({ total: 2, completed: 1, failed: 1, pending: 0, running: 0 })
  const heard = await page.evaluate<string[]>('heard')
  expect(heard.map((data) => JSON.parse(data))).toEqual([
    { token_id: tokens[1].id, error: expect.stringContaining('ran out of memory each time') },
  ])
  await until('the owner has both mails', async () => {
    await rig.idle()
    return mails.length === 2
  })
  expect(mails.map(({ to, parsed }) => [to, parsed.subject]).sort()).toEqual([
    [['ann@example.org'], 'Spring: 1 copy failed'],
    [['ann@example.org'], 'Spring: the copy for Sam failed'],
  ])

  doomed.clear()
  await page.getByRole('button', { name: 'Retry Sam' }).click()
  await page.locator('#said').getByText('Retry queued for Sam.').waitFor()
  await stateOf(page, 'PROCESSING')
  await rig.idle()
  await stateOf(page, 'READY')
  await comesToSay(page, 'Sam', 'ACTIVE')
  expect(await page.evaluate('globalThis.isSame')).toBe(true)
  const answer = await fetch(rig.url + tokens[1].link)
  await writeFile(file('sam.mp4'), new Uint8Array(await answer.arrayBuffer()))
  expect(await real.probe(file('sam.mp4'))).toMatchObject({ kind: 'video', width: 160, height: 90, codec: 'h264' })
})

test('a truncated film fails at once and the page shows the reason [W49]', async () => {
  await mailServer({ port: smtpPort })
  const whole = await readFile(file('front.mp4'))
  const cut = whole.subarray(0, Math.floor(whole.length * 0.7))
  const { id, tokens } = await rig.published(['Rita'], {}, cut)
  const page = await watching(id)
  await rig.idle()
  await comesToSay(page, 'Rita', 'FAILED')
  await stateOf(page, 'FAILED')
  expect(await rig.history(tokens[0].id)).toEqual(['queued', 'processing', 'failed'])
  expect(await rowOf(page, 'Rita').locator('.retry-badge').count()).toBe(0)
  await rowOf(page, 'Rita').getByText('Error', { exact: true }).click()
  await rowOf(page, 'Rita').getByText('The uploaded file is damaged or not complete.').waitFor()
})

test('a copy whose worker died 31 minutes ago is made by another worker without costing a retry [W50]', async () => {
  await rig.kit.crashingWorker({ at: 'verify' })
  const { id, tokens } = await rig.published(['Rita'], {}, await readFile(file('clip.mp4')))
  await until('the worker is dead', async () => {
    await rig.kit.tick()
    const job = await rig.app.jobs.find(tokens[0].id)
    return job?.status === 'processing' && rig.copies().includes(tokens[0].id)
  })
  const page = await watching(id)
  await comesToSay(page, 'Rita', 'PROCESSING')
  await rig.advance('31m')
  await comesToSay(page, 'Rita', 'ACTIVE')
  await stateOf(page, 'READY')
  expect(await rig.history(tokens[0].id)).toContain('reclaimed')
  expect(await rowOf(page, 'Rita').locator('.retry-badge').count()).toBe(0)
})
