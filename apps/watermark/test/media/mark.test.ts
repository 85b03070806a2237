import { readFileSync, writeFileSync } from 'node:fs'
import { basename } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { markImage, markVideo } from '../../src/media/mark.ts'
import type { ProbedMedia } from '../../src/media/probe.ts'
import { makeThumbnail } from '../../src/media/thumbnail.ts'
import { cleanText, textFilter } from '../../src/media/visible-text.ts'
import { FONT, failureOf, ffmpeg, filesIn, isHere, KEY, makeClip, mediaFolder, needsFfmpeg } from './media-files.ts'

needsFfmpeg()
const { file } = mediaFolder()
const outputs = mediaFolder()

const invisible = { key: KEY, tokenId: 'token-7' }
const visible = { text: 'Ada Lovelace', fontFile: FONT }
const percents: number[] = []
let marked: ProbedMedia

beforeAll(async () => {
  if (!isHere) return
  const secrets = ['-metadata', 'title=the secret title', '-metadata', 'location=+48.8577+002.2950/']
  const tone = ['-f', 'lavfi', '-i', 'sine=220', '--', '-c:a', 'aac', ...secrets]
  await makeClip(file('clip.mp4'), 'mandelbrot=s=320x180:r=25:end_pts=60', 2, ...tone)
  const onProgress = (percent: number) => percents.push(percent)
  marked = await markVideo({
    source: file('clip.mp4'),
    target: outputs.file('both.mp4'),
    visible,
    invisible,
    onProgress,
  })
})

/** How alike two files look: signal over noise in dB, and structure from 0 to 1. */
async function likeness(a: string, b: string): Promise<{ psnr: number; ssim: number }> {
  const graph = '[0:v]split[a][b];[1:v]split[c][d];[a][c]psnr;[b][d]ssim'
  const said = await ffmpeg('-i', a, '-i', b, '-lavfi', graph, '-f', 'null', '-')
  const figure = (name: RegExp) => Number(name.exec(said)?.[1] ?? Number.NaN)
  return { psnr: figure(/PSNR y:([\d.]+|inf)/), ssim: figure(/SSIM (?:Y|R|All):([\d.]+)/) }
}

describe('the copy of a video', () => {
  test('is H.264 in MP4, as long as the source, with its sound, and plays before it is loaded', () => {
    const { frames, durationMs, width, height } = marked
    expect(marked).toMatchObject({ codec: 'h264', pixelFormat: 'yuv420p', sound: [{ codec: 'aac' }] })
    expect({ frames, durationMs, width, height }).toEqual({ frames: 50, durationMs: 2000, width: 320, height: 180 })
    const bytes = readFileSync(outputs.file('both.mp4'))
    expect(bytes.indexOf('moov')).toBeLessThan(bytes.indexOf('mdat'))
  })

  test('says how far it is, in percent that only grow, and 100 when the copy is in its place', () => {
    expect(percents).toEqual([...new Set(percents)].sort((a, b) => a - b))
    expect(percents.at(-1)).toBe(100)
    expect(percents.length).toBeGreaterThan(2)
  })

  test('leaves nothing beside itself', () => {
    expect(filesIn(outputs.folder)).toEqual(['both.mp4'])
    expect(basename(marked.file.path)).toBe('both.mp4')
  })

  test('a copy contains no metadata of the source', () => {
    expect(readFileSync(file('clip.mp4')).includes('the secret title')).toBe(true)
    const copy = readFileSync(outputs.file('both.mp4'))
    for (const secret of ['secret', '48.8577', file('')]) expect(copy.includes(secret)).toBe(false)
  })

  test('is the same to the last bit when it is made again, and another for another token', async () => {
    const target = file('again.mp4')
    const bytesOf = async (tokenId: string) => {
      await markVideo({ source: file('clip.mp4'), target, visible, invisible: { key: KEY, tokenId } })
      return readFileSync(target)
    }
    expect((await bytesOf('token-7')).equals(readFileSync(outputs.file('both.mp4')))).toBe(true)
    expect((await bytesOf('token-8')).equals(readFileSync(outputs.file('both.mp4')))).toBe(false)
  })

  test('looks like one without the invisible mark, and shows the visible one', async () => {
    const source = file('clip.mp4')
    await markVideo({ source, target: file('visible.mp4'), visible })
    await markVideo({ source, target: file('invisible.mp4'), invisible })
    const unseen = await likeness(outputs.file('both.mp4'), file('visible.mp4'))
    expect(unseen.psnr >= 40 || unseen.ssim >= 0.98, JSON.stringify(unseen)).toBe(true)
    // The text is at the lower edge: there the two differ plainly, and above it hardly.
    const crop = (name: string, height: string, y: string) =>
      ffmpeg('-i', file(`${name}.mp4`), '-vf', `crop=iw:ih*${height}:0:ih*${y}`, '-crf', '1', file(`${name}-${y}.mp4`))
    for (const name of ['visible', 'invisible']) await Promise.all([crop(name, '0.15', '0.85'), crop(name, '0.5', '0')])
    const below = await likeness(file('visible-0.85.mp4'), file('invisible-0.85.mp4'))
    const above = await likeness(file('visible-0.mp4'), file('invisible-0.mp4'))
    expect(below.ssim).toBeLessThan(0.93)
    expect(above.ssim).toBeGreaterThan(0.97)
  })

  test('is upright, even in size and with AAC, whatever the source was', async () => {
    const tone = ['-f', 'lavfi', '-i', 'sine=330', '--', '-c:a', 'libopus']
    await makeClip(file('odd.mkv'), 'testsrc2=s=181x121:r=30,format=yuv444p', 1, ...tone, '-pix_fmt', 'yuv444p')
    await ffmpeg('-display_rotation', '90', '-i', file('clip.mp4'), '-t', '1', '-c', 'copy', file('turned.mov'))
    const odd = await markVideo({ source: file('odd.mkv'), target: file('odd.mp4'), visible, invisible })
    expect(odd).toMatchObject({ width: 180, height: 120, sound: [{ codec: 'aac' }], frames: 30 })
    const turned = await markVideo({ source: file('turned.mov'), target: file('turned.mp4'), invisible })
    expect(turned).toMatchObject({ width: 180, height: 320, rotation: 0 })
  })

  test('is not made of an image, nor the copy of an image of a video', async () => {
    await ffmpeg('-i', file('clip.mp4'), '-frames:v', '1', '-update', '1', file('still.png'))
    const image = await failureOf(markVideo({ source: file('still.png'), target: file('no.mp4'), invisible }))
    const video = await failureOf(markImage({ source: file('clip.mp4'), target: file('no.png'), invisible }))
    for (const failure of [image, video]) {
      expect(failure).toMatchObject({ code: 'SOURCE_UNSUPPORTED', isPermanent: true })
    }
  })
})

describe('the copy of an image', () => {
  test('the copy of a PNG is a PNG that keeps its transparency', async () => {
    const clear = 'format=rgba,geq=r=X:g=Y:b=99:a=if(gt(X\\,160)\\,0\\,255)'
    await ffmpeg('-f', 'lavfi', '-i', `color=s=320x180,${clear}`, '-frames:v', '1', '-update', '1', file('clear.png'))
    const copy = await markImage({ source: file('clear.png'), target: file('clear-marked.png'), invisible })
    expect(copy).toMatchObject({ kind: 'image', codec: 'png', pixelFormat: 'rgba', width: 320, height: 180 })
    const alpha = (name: string) => ffmpeg('-i', file(name), '-vf', 'extractplanes=a', '-f', 'md5', file(`${name}.md5`))
    await Promise.all([alpha('clear.png'), alpha('clear-marked.png')])
    expect(readFileSync(file('clear-marked.png.md5'), 'utf8')).toBe(readFileSync(file('clear.png.md5'), 'utf8'))
  })

  test('is a JPEG of a JPEG, looks like it, and tells nothing else of it', async () => {
    await ffmpeg('-i', file('clip.mp4'), '-frames:v', '1', '-q:v', '2', '-update', '1', file('plain.jpg'))
    const plain = readFileSync(file('plain.jpg'))
    // A comment of 18 bytes after the first two.
    const comment = Buffer.from('\xff\xfe\0\x12the secret place', 'latin1')
    writeFileSync(file('told.jpg'), Buffer.concat([plain.subarray(0, 2), comment, plain.subarray(2)]))
    const target = file('marked.jpg')
    const copy = await markImage({ source: file('told.jpg'), target, invisible, visible })
    expect(copy).toMatchObject({ codec: 'mjpeg', width: 320, height: 180 })
    expect(readFileSync(target).includes('secret')).toBe(false)
    await markImage({ source: file('told.jpg'), target: file('unmarked.jpg'), visible })
    const { psnr, ssim } = await likeness(target, file('unmarked.jpg'))
    expect(psnr >= 40 || ssim >= 0.98, `${psnr} ${ssim}`).toBe(true)
  })

  test('a thumbnail is a small JPEG of a video or an image, and never larger than it', async () => {
    const video = await makeThumbnail({ source: file('clip.mp4'), target: file('small.jpg'), sideMax: 160 })
    expect(video).toMatchObject({ kind: 'image', codec: 'mjpeg', width: 160, height: 90 })
    const image = await makeThumbnail({ source: file('clear.png'), target: file('same.jpg'), sideMax: 999 })
    expect(image).toMatchObject({ width: 320, height: 180 })
  })
})

describe('the visible text', () => {
  const HOSTILE = `O'Brien": 100%{pts}\\ [a];b,c=d\n:textfile=/etc/passwd \u202egnp.exe \ud83d\ude00 \u05e9\u05dc\u05d5\u05dd`

  test('is one line: no controls, no change of direction, no more than 80 characters', () => {
    expect(cleanText('  Ada\r\n\tLovelace\0\u2028x ')).toBe('Ada Lovelace x')
    expect(cleanText('abc\u202edef\u2066')).toBe('abcdef')
    expect(cleanText('\ud83d')).toBe('\ufffd')
    const family = '\ud83d\udc68\u200d\ud83d\udc69\u200d\ud83d\udc67'
    expect(cleanText(family.repeat(100))).toBe(family.repeat(80))
  })

  test('never becomes part of the filter, whatever it holds', async () => {
    const size = { width: 320, height: 180 }
    const own = mediaFolder()
    const filter = await textFilter({ text: HOSTILE, fontFile: FONT }, own.folder, size)
    expect(filter).toMatch(/^drawtext=fontfile=font:textfile=text:expansion=none:fontsize=\d+:[\w=@.:()/*-]+$/)
    expect(readFileSync(own.file('text'), 'utf8')).toBe(cleanText(HOSTILE))
  })

  test('is drawn with quotes, percents, emoji and Hebrew in it', async () => {
    const text = { text: HOSTILE, fontFile: FONT }
    const target = file('hostile.png')
    const copy = await markImage({ source: file('clear.png'), target, visible: text })
    expect(copy).toMatchObject({ codec: 'png', width: 320 })
    expect((await likeness(target, file('clear.png'))).ssim).toBeLessThan(0.99)
  })

  test('that is empty is refused for good; a font that is missing is not', async () => {
    const mark = (text: string, fontFile: string) =>
      failureOf(markImage({ source: file('clear.png'), target: file('none.png'), visible: { text, fontFile } }))
    expect(await mark(' \n\u202e', FONT)).toMatchObject({ code: 'TEXT_UNUSABLE', isPermanent: true })
    expect(await mark('Ada', file('no.ttf'))).toMatchObject({ code: 'FONT_MISSING', isPermanent: false })
  })
})
