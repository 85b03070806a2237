import { beforeAll, describe, expect, test } from 'vitest'
import { did, size } from '../../../../test/support/size.ts'
import { type DetectOptions, detect, MATCH_Z_MIN } from '../../src/media/detection/detect.ts'
import { markImage, markVideo } from '../../src/media/mark.ts'
import { chipsOf } from '../../src/media/pattern.ts'
import { FONT, failureOf, ffmpeg, filesIn, isHere, KEY, makeClip, mediaFolder, needsFfmpeg } from './media-files.ts'

needsFfmpeg()
const { file } = mediaFolder()
const work = mediaFolder()

const TOKENS = Array.from({ length: 50 }, (_, i) => `token-${i}`)
const RIGHT = 'token-17'
const CLIPS = {
  fractal: 'mandelbrot=s=480x270:r=25:start_scale=0.5:end_scale=0.1:end_pts=50',
  chart: 'testsrc2=s=480x270:r=25',
} as const
type Clip = keyof typeof CLIPS

beforeAll(async () => {
  if (!isHere) return
  for (const [name, picture] of Object.entries(CLIPS)) {
    await makeClip(file(`${name}.mp4`), picture, 2)
    await markVideo({
      source: file(`${name}.mp4`),
      target: file(`${name}-marked.mp4`),
      visible: { text: 'Ada Lovelace', fontFile: FONT },
      invisible: { key: KEY, tokenId: RIGHT },
    })
  }
})

const look = (suspect: string, more: Partial<DetectOptions> = {}) =>
  detect({ suspect: file(suspect), key: KEY, tokens: TOKENS, workFolder: work.folder, ...more })

/** What somebody does who passes a copy on. */
async function attacked(clip: Clip, name: string, ...args: string[]): Promise<string> {
  const out = `${clip}-${name}`
  const encode = ['-c:v', 'libx264', '-preset', 'veryfast', '-threads', '2', '-an']
  await ffmpeg('-i', file(`${clip}-marked.mp4`), ...encode, ...args, file(out))
  return out
}

const SMALLER = ['-vf', 'scale=320:180']
const attacks: [what: string, args: string[]][] = [
  ['encoded again at CRF 23', ['-crf', '23']],
  ['encoded again at CRF 28', ['-crf', '28']],
  ['made smaller by a third, as 720p to 480p', [...SMALLER, '-crf', '18']],
  ['made smaller and encoded again at CRF 28', [...SMALLER, '-crf', '28']],
  ['cut at both ends', ['-ss', '0.6', '-t', '1', '-crf', '23']],
  ['made darker', ['-vf', 'eq=brightness=-0.08:contrast=0.9', '-crf', '23']],
]

describe('a copy is traced to its recipient', () => {
  const clips = Object.keys(CLIPS) as Clip[]
  // Every other attack is made on the same film; in the long run each is made on both.
  const tried = attacks.map(([what, args], i) => [what, args, size(clips.slice(i % 2, (i % 2) + 1), clips)] as const)

  test.each(tried)('after it was %s', async (what, args, clips) => {
    for (const clip of clips) {
      const suspect = await attacked(clip, `${what.replaceAll(/\W/g, '-')}.mp4`, ...args)
      const found = await look(suspect, { source: file(`${clip}.mp4`) })
      expect(found).toMatchObject({ verdict: 'match', usedSource: true, decoys: 1000 })
      expect(found.ranking[0]?.tokenId).toBe(RIGHT)
      expect(found.ranking[0]?.z).toBeGreaterThanOrEqual(MATCH_Z_MIN)
      expect(found.ranking).toHaveLength(50)
      // Neither another recipient nor one of a thousand that do not exist comes near.
      expect(Math.max(found.bestDecoyZ, found.ranking[1]?.z ?? 0)).toBeLessThan(MATCH_Z_MIN)
      did({ attack: what, clip, z: found.ranking[0]?.z, bestDecoyZ: found.bestDecoyZ })
    }
  })

  test('without the source, too', async () => {
    const found = await look('fractal-marked.mp4')
    expect(found).toMatchObject({
      verdict: 'match',
      usedSource: false,
      ranking: [{ tokenId: RIGHT }, ...TOKENS.slice(1).map(() => expect.anything())],
    })
  })

  test('from a single picture of it', async () => {
    await ffmpeg('-ss', '1', '-i', file('chart-marked.mp4'), '-frames:v', '1', '-update', '1', file('shot.png'))
    const found = await look('shot.png', { source: file('chart.mp4') })
    expect(found).toMatchObject({ verdict: 'match', frames: 1 })
    expect(found.ranking[0]?.tokenId).toBe(RIGHT)
  })

  test('when it is an image that was saved again as a JPEG', async () => {
    await ffmpeg('-i', file('fractal.mp4'), '-frames:v', '1', '-update', '1', file('still.png'))
    const invisible = { key: KEY, tokenId: RIGHT }
    await markImage({ source: file('still.png'), target: file('still-marked.png'), invisible })
    await ffmpeg('-i', file('still-marked.png'), '-q:v', '5', '-update', '1', file('still-again.jpg'))
    const found = await look('still-again.jpg', { source: file('still.png') })
    expect(found.verdict).toBe('match')
    expect(found.ranking[0]?.tokenId).toBe(RIGHT)
  })
})

describe('nobody is accused', () => {
  const innocent: [what: string, suspect: string, more: Partial<DetectOptions>][] = [
    ['of a file without a mark', 'fractal.mp4', {}],
    ['of a file without a mark, when there is no source', 'fractal.mp4', { source: undefined }],
    ["of another campaign's copy, whose key is another", 'fractal-marked.mp4', { key: 'the key of another campaign' }],
    ['when the recipient is not among those asked for', 'chart-marked.mp4', { tokens: ['token-90', 'token-91'] }],
    ['when nobody is asked for', 'chart-marked.mp4', { tokens: [] }],
  ]
  test.each(innocent)('%s', async (_, suspect, more) => {
    const found = await look(suspect, { source: file(suspect.replace('-marked', '')), ...more })
    expect(found.verdict).toBe('inconclusive')
    expect(Math.max(found.bestDecoyZ, found.ranking[0]?.z ?? 0)).toBeLessThan(MATCH_Z_MIN)
  })

  test('a crop without a source defeats the mark, and the search is inconclusive', async () => {
    const suspect = await attacked('fractal', 'crop.mp4', '-vf', 'crop=400:225:40:20', '-crf', '23')
    expect((await look(suspect)).verdict).toBe('inconclusive')
    expect((await look(suspect, { source: file('fractal.mp4') })).ranking[0]?.tokenId).toBe(RIGHT)
  })

  test('when the source is of another film, in which the suspect lies nowhere', async () => {
    const found = await look('fractal.mp4', { source: file('chart.mp4') })
    expect(found.verdict).toBe('inconclusive')
    expect(Math.max(found.bestDecoyZ, found.ranking[0]?.z ?? 0)).toBeLessThan(MATCH_Z_MIN)
  })

  test('for a picture of one colour, in which there is nothing to see', async () => {
    await ffmpeg('-f', 'lavfi', '-i', 'color=gray:s=320x180', '-frames:v', '1', '-update', '1', file('gray.png'))
    const found = await look('gray.png')
    expect(found).toMatchObject({ verdict: 'inconclusive', bestDecoyZ: 0 })
  })
})

test('a suspect that is no video is refused and leaves nothing in the work folder', async () => {
  const error = await failureOf(look('none.mp4'))
  expect(error).toMatchObject({ code: 'SOURCE_MISSING', isPermanent: true })
  expect(filesIn(work.folder)).toEqual([])
})

test('the patterns of two tokens, and of one token with two keys, have nothing in common', () => {
  const agreement = (a: Int8Array, b: Int8Array) => a.reduce((sum, chip, i) => sum + chip * (b[i] as number), 0) / 64
  expect(agreement(chipsOf(KEY, 'a'), chipsOf(KEY, 'a'))).toBe(64)
  expect(Math.abs(agreement(chipsOf(KEY, 'a'), chipsOf(KEY, 'b')))).toBeLessThan(4.5)
  expect(Math.abs(agreement(chipsOf(KEY, 'a'), chipsOf(`${KEY}!`, 'a')))).toBeLessThan(4.5)
})

test('progress grows to 100, and an abort ends the work', async () => {
  const percents: number[] = []
  await look('chart-marked.mp4', { source: file('chart.mp4'), onProgress: (percent) => percents.push(percent) })
  expect(percents).toEqual([...percents].sort((a, b) => a - b))
  expect(percents.at(-1)).toBe(100)
  const signal = AbortSignal.abort(new Error('enough'))
  await expect(look('chart-marked.mp4', { signal })).rejects.toMatchObject({ reason: 'aborted' })
})
