import { beforeAll, describe, expect, test } from 'vitest'
import { did, size } from '../../../../test/support/size.ts'
import { detect, MATCH_Z_MIN } from '../../src/media/detection/detect.ts'
import { markImage, markVideo } from '../../src/media/mark.ts'
import { ffmpeg, isHere, KEY, makeClip, mediaFolder, needsFfmpeg } from './media-files.ts'

needsFfmpeg()
const { file } = mediaFolder()

const TOKENS = Array.from({ length: 50 }, (_, i) => `token-${i}`)
/** A few of them have a copy here; bench/watermark.ts has one for each. */
const RECIPIENTS = size(['token-17', 'token-49'], ['token-3', 'token-17', 'token-33', 'token-48', 'token-49'])

beforeAll(async () => {
  if (!isHere) return
  await makeClip(file('film.mp4'), 'testsrc2=s=480x270:r=12,noise=alls=6:allf=t', 1)
  await ffmpeg('-i', file('film.mp4'), '-frames:v', '1', '-q:v', '2', '-update', '1', file('picture.jpg'))
  for (const tokenId of RECIPIENTS) {
    const invisible = { key: KEY, tokenId }
    await markVideo({ source: file('film.mp4'), target: file(`${tokenId}.mp4`), invisible })
    await markImage({ source: file('picture.jpg'), target: file(`${tokenId}.jpg`), invisible })
  }
})

const X264 = ['-c:v', 'libx264', '-preset', 'veryfast', '-threads', '2']

/** The copy of each recipient, after the same was done to it, is the copy of that recipient and of nobody else. */
async function expectAllFound(copies: '.mp4' | '.jpg', source: string, args: string[]): Promise<void> {
  for (const tokenId of RECIPIENTS) {
    await ffmpeg('-i', file(`${tokenId}${copies}`), ...args, file(`suspect${copies}`))
    const found = await detect({ suspect: file(`suspect${copies}`), source: file(source), key: KEY, tokens: TOKENS })
    const [first, second] = found.ranking
    expect(found).toMatchObject({ verdict: 'match', decoys: 1000 })
    expect(first?.tokenId).toBe(tokenId)
    expect(first?.z).toBeGreaterThanOrEqual(MATCH_Z_MIN)
    expect(Math.max(found.bestDecoyZ, second?.z ?? 0)).toBeLessThan(MATCH_Z_MIN)
    did({ tokenId, args, z: first?.z, bestDecoyZ: found.bestDecoyZ })
  }
}

describe("every recipient's copy is told from those of all others", () => {
  test('after a film was encoded again at CRF 28', () => expectAllFound('.mp4', 'film.mp4', [...X264, '-crf', '28']))

  test('after a film was made smaller by a third', () =>
    expectAllFound('.mp4', 'film.mp4', ['-vf', 'scale=320:180', ...X264, '-crf', '23']))

  // What ffmpeg calls 7 divides by the same as what others call a quality of 75.
  test('after a picture was compressed again at quality 75', () =>
    expectAllFound('.jpg', 'picture.jpg', ['-q:v', '7', '-update', '1']))

  test('after a picture was made smaller, to 70 percent', () =>
    expectAllFound('.jpg', 'picture.jpg', ['-vf', 'scale=336:190', '-q:v', '3', '-update', '1']))
})

describe('a copy whose picture was moved is found with the source', () => {
  const moves: [what: string, filter: string][] = [
    ['cropped by 5 percent', 'crop=456:256'],
    ['mirrored', 'hflip'],
    ['given borders', 'pad=600:270:60:0:gray'],
    ['turned by 3 degrees', 'rotate=PI/60'],
  ]
  test.each(moves)('when it was %s', async (_, filter) => {
    const args = ['-i', file('token-17.mp4'), '-vf', filter, ...X264, '-crf', '23', file('moved.mp4')]
    await ffmpeg(...args)
    const found = await detect({ suspect: file('moved.mp4'), source: file('film.mp4'), key: KEY, tokens: TOKENS })
    expect(found.verdict).toBe('match')
    expect(found.ranking[0]?.tokenId).toBe('token-17')
    expect(Math.max(found.bestDecoyZ, found.ranking[1]?.z ?? 0)).toBeLessThan(MATCH_Z_MIN)
  })

  test('a shifted film without a mark is inconclusive', async () => {
    await ffmpeg('-i', file('film.mp4'), '-vf', 'hflip,crop=456:256', ...X264, '-crf', '23', file('moved.mp4'))
    const found = await detect({ suspect: file('moved.mp4'), source: file('film.mp4'), key: KEY, tokens: TOKENS })
    expect(found.verdict).toBe('inconclusive')
    expect(Math.max(found.bestDecoyZ, found.ranking[0]?.z ?? 0)).toBeLessThan(MATCH_Z_MIN)
  })
})
