import { readFile, writeFile } from 'node:fs/promises'
import { beforeAll, expect, test } from 'vitest'
import { ffmpegMedia } from '../src/media.ts'
import { FONT, ffmpeg, isHere, makeClip, mediaFolder, needsFfmpeg } from './media/media-files.ts'
import { Rig } from './rig.ts'

needsFfmpeg()
const { file } = mediaFolder()

let rig: Rig
beforeAll(async () => {
  rig = await Rig.open({ media: ffmpegMedia({ fontFile: FONT, attemptMs: 60_000 }) })
  if (isHere) await makeClip(file('spring.mp4'), 'testsrc2=size=320x240:rate=10', 2)
})

test('a real film is marked for each recipient, downloaded, encoded anew, and found to be whose it was', async () => {
  const { id, tokens } = await rig.published(['Rita', 'Sam'], {}, await readFile(file('spring.mp4')))
  await rig.idle()
  expect(await rig.campaign(id)).toMatchObject({ state: 'READY', counts: { completed: 2 } })
  const answer = await fetch(rig.url + tokens[1].link)
  expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'video/mp4'])
  await writeFile(file('sam.mp4'), new Uint8Array(await answer.arrayBuffer()))
  await ffmpeg('-i', file('sam.mp4'), '-c:v', 'libx264', '-preset', 'ultrafast', '-crf', '28', file('leaked.mp4'))
  const sent = await rig.as('ann').upload(`/campaigns/${id}/detect`, await readFile(file('leaked.mp4')), 'leaked.mp4')
  await rig.idle()
  const { status, result } = (await rig.as('ann').get(`/api/jobs/${sent.json.id}`)).json
  expect(status).toBe('complete')
  expect(result).toMatchObject({ verdict: 'match', ranked: [{ name: 'Sam' }, { name: 'Rita' }] })
})

test('a truncated film or photo is refused at upload [W22]', async () => {
  const whole = await readFile(file('spring.mp4'))
  await ffmpeg('-i', file('spring.mp4'), '-c', 'copy', '-movflags', '+faststart', file('front.mp4'))
  const front = await readFile(file('front.mp4'))
  await ffmpeg('-i', file('spring.mp4'), '-frames:v', '1', '-update', '1', '-q:v', '3', file('spring.jpg'))
  const photo = await readFile(file('spring.jpg'))
  const cuts = [whole.subarray(0, 2_000), front.subarray(0, front.length * 0.7), photo.subarray(0, photo.length / 2)]
  for (const cut of cuts) {
    const refused = await rig.as('ann').upload('/assets', cut, 'cut.mp4')
    expect(refused).toMatchObject({ status: 400, json: { error: { code: 'SOURCE_CORRUPT' } } })
  }
})

test('a trimmed film becomes a campaign', async () => {
  await ffmpeg('-ss', '1.3', '-i', file('spring.mp4'), '-c', 'copy', file('trimmed.mp4'))
  const { id } = await rig.published(['Rita'], {}, await readFile(file('trimmed.mp4')))
  await rig.idle()
  expect(await rig.campaign(id)).toMatchObject({ state: 'READY' })
})

test('a recipient whose name no font here can draw is refused by it, unless the mark is invisible', async () => {
  const asset = await rig.as('ann').upload('/assets', await readFile(file('spring.mp4')), 'spring.mp4')
  // Unassigned in Unicode, so that no machine has a font for it.
  const recipients = [{ name: 'Ann \u{2fe0}', email: 'ann@example.org' }]
  const draft = { assetId: asset.json.id, name: 'Spring', recipients }
  const refused = await rig.as('ann').post('/campaigns', draft)
  expect(refused).toMatchObject({ status: 400, json: { error: { code: 'TEXT_UNDRAWABLE' } } })
  expect(refused.json.error.message).toContain('U+2FE0')
  const form = { assetId: asset.json.id, name: 'Spring', recipients: 'Ann \u{2fe0}, ann@example.org' }
  expect((await rig.as('ann').form('/campaigns', form)).text).toContain('U+2FE0')
  expect((await rig.as('ann').post('/campaigns', { ...draft, visible: false })).status).toBe(201)
})
