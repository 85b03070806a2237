import { readFile, writeFile } from 'node:fs/promises'
import { beforeAll, expect, test } from 'vitest'
import { ffmpegMedia } from '../../../apps/watermark/media.ts'
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

test('W22 a film that is cut off is refused at the door, or fails at once where only its end is missing', async () => {
  const whole = await readFile(file('spring.mp4'))
  const refused = await rig.as('ann').upload('/assets', whole.subarray(0, 2_000), 'cut.mp4')
  expect(refused).toMatchObject({ status: 400, json: { error: { code: 'SOURCE_CORRUPT' } } })
  await ffmpeg('-i', file('spring.mp4'), '-c', 'copy', '-movflags', '+faststart', file('front.mp4'))
  const front = await readFile(file('front.mp4'))
  const { id, tokens } = await rig.published(['Rita'], {}, front.subarray(0, Math.floor(front.length * 0.7)))
  await rig.idle()
  expect(await rig.history(tokens[0].id)).toEqual(['queued', 'processing', 'failed'])
  expect((await rig.campaign(id)).tokens[0]).toMatchObject({ state: 'FAILED', error: { code: 'SOURCE_CORRUPT' } })
  expect(rig.copies()).not.toContain(tokens[0].id)
})
