import { readFileSync, writeFileSync } from 'node:fs'
import { beforeAll, describe, expect, test } from 'vitest'
import { fontFor } from '../../src/media/fonts.ts'
import { markImage, markVideo } from '../../src/media/mark.ts'
import { probeMedia } from '../../src/media/probe.ts'
import { checkSource, isDamage } from '../../src/media/strict.ts'
import { makeThumbnail } from '../../src/media/thumbnail.ts'
import { FONT, failureOf, ffmpeg, isHere, KEY, mediaFolder, needsFfmpeg } from './media-files.ts'

needsFfmpeg()
const { file } = mediaFolder()
const invisible = { key: KEY, tokenId: 'token-7' }

const PICTURE = ['-f', 'lavfi', '-i', 'testsrc2=s=160x90:r=25,noise=alls=12:allf=t']
const TONE = ['-f', 'lavfi', '-i', 'sine=220']
const X264 = [
  '-c:v',
  'libx264',
  '-preset',
  'veryfast',
  '-pix_fmt',
  'yuv420p',
  '-g',
  '50',
  '-c:a',
  'aac',
  '-threads',
  '2',
]
const OPEN = ['-x264-params', 'open-gop=1:bframes=3']

beforeAll(async () => {
  if (!isHere) return
  await ffmpeg(...PICTURE, ...TONE, '-t', '4', ...X264, file('film.mp4'))
  await ffmpeg(...PICTURE, ...TONE, '-t', '4', ...X264, ...OPEN, file('open.mp4'))
  // In a picture with much in it, whatever is wrong is soon impossible.
  const busy = ['-f', 'lavfi', '-i', 'testsrc2=s=320x180:r=25,noise=alls=12:allf=t', ...TONE]
  await ffmpeg(...busy, '-t', '3', ...X264, file('busy.mp4'))
  await ffmpeg(...PICTURE, '-frames:v', '1', '-update', '1', '-q:v', '3', file('photo.jpg'))
  await ffmpeg(...PICTURE, '-frames:v', '1', '-update', '1', file('photo.png'))
  await ffmpeg(...PICTURE, '-frames:v', '1', '-update', '1', '-c:v', 'libwebp', file('photo.webp'))
})

describe('a sound source is accepted and marked', () => {
  const trims: [what: string, args: () => string[], name: string][] = [
    ['an MP4 trimmed between key frames', () => ['-ss', '1.3', '-i', file('film.mp4'), '-c', 'copy'], 'a.mp4'],
    ['a MOV trimmed between key frames', () => ['-ss', '1.3', '-i', file('film.mp4'), '-c', 'copy'], 'a.mov'],
    ['an MKV trimmed between key frames', () => ['-ss', '1.3', '-i', file('film.mp4'), '-c', 'copy'], 'a.mkv'],
    ['an MPEG-TS trimmed by its output', () => ['-i', file('film.mp4'), '-ss', '1.3', '-c', 'copy'], 'a.ts'],
    ['a film that begins in an open group', () => ['-ss', '2.02', '-i', file('open.mp4'), '-c', 'copy'], 'open.mov'],
    [
      'an MKV with times before zero',
      () => ['-ss', '1.3', '-i', file('film.mp4'), '-c', 'copy', '-avoid_negative_ts', 'disabled'],
      'negative.mkv',
    ],
    [
      'a film whose sound begins later',
      () => [
        '-i',
        file('film.mp4'),
        '-itsoffset',
        '1.5',
        '-i',
        file('film.mp4'),
        '-map',
        '0:v',
        '-map',
        '1:a',
        '-c',
        'copy',
      ],
      'late.mp4',
    ],
    [
      'a film in fragments',
      () => ['-i', file('film.mp4'), '-c', 'copy', '-movflags', 'frag_keyframe+empty_moov'],
      'fragments.mp4',
    ],
  ]
  test.each(trims)('%s', async (_, args, name) => {
    await ffmpeg(...args(), file(name))
    const source = await checkSource(file(name))
    const copy = await markVideo({ source: file(name), target: file(`copy-${name}.mp4`), invisible })
    expect(copy).toMatchObject({ width: source.width, height: source.height, sound: [{ codec: 'aac' }] })
  })

  test('a trimmed film does not show the frames that were cut off', async () => {
    await ffmpeg('-ss', '1.3', '-i', file('film.mp4'), '-c', 'copy', file('cut.mp4'))
    const copy = await markVideo({ source: file('cut.mp4'), target: file('cut-copy.mp4'), invisible })
    expect(Math.abs(copy.durationMs - 2700)).toBeLessThanOrEqual(80)
  })

  test('two recordings that were joined byte by byte, and one that begins in the middle', async () => {
    await ffmpeg('-i', file('film.mp4'), '-c', 'copy', file('one.ts'))
    const one = readFileSync(file('one.ts'))
    writeFileSync(file('joined.ts'), Buffer.concat([one, one]))
    writeFileSync(file('tuned-in.ts'), one.subarray(188 * 60))
    for (const name of ['joined.ts', 'tuned-in.ts']) {
      await checkSource(file(name))
      await markVideo({ source: file(name), target: file(`${name}.mp4`), invisible })
    }
  })

  test('a PNG with bytes after its end, as screenshot programs leave them', async () => {
    writeFileSync(file('trailing.png'), Buffer.concat([readFileSync(file('photo.png')), Buffer.from('left over')]))
    await checkSource(file('trailing.png'))
    const copy = await markImage({ source: file('trailing.png'), target: file('trailing-copy.png'), invisible })
    expect(copy).toMatchObject({ codec: 'png', width: 160, height: 90 })
  })
})

describe('a damaged source is refused, before it is taken and before a copy of it is delivered', () => {
  const spoilt = (name: string, spoil: (bytes: Buffer) => Buffer): string => {
    const path = file(`spoilt-${name}`)
    writeFileSync(path, spoil(Buffer.from(readFileSync(file(name)))))
    return path
  }
  const cut = (share: number) => (bytes: Buffer) => bytes.subarray(0, Math.floor(bytes.length * share))
  /** The same three bytes for the same seed, none of them in the head of the file. */
  const flipped = (seed: number) => (bytes: Buffer) => {
    for (let i = 1; i <= 3; i++) {
      const at = Math.floor(bytes.length * (0.1 + (((seed * 7919 + i * 104_729) % 1000) / 1000) * 0.8))
      bytes[at] = (bytes[at] as number) ^ (1 + ((seed * 31 + i * 17) % 255))
    }
    return bytes
  }

  const refusedBoth = async (path: string) => {
    expect(await failureOf(checkSource(path))).toMatchObject({ code: 'SOURCE_CORRUPT', isPermanent: true })
    const mark = /\.(jpg|png|webp)$/.test(path) ? markImage : markVideo
    const delivered = failureOf(mark({ source: path, target: file('never'), invisible }))
    expect(await delivered).toMatchObject({ code: 'SOURCE_CORRUPT', isPermanent: true })
  }

  test.each(['photo.jpg', 'photo.png', 'photo.webp'])('half of %s', (name) => refusedBoth(spoilt(name, cut(0.5))))

  test('a PNG in which one byte is wrong', () =>
    refusedBoth(
      spoilt('photo.png', (bytes) => {
        const at = bytes.length >> 1
        bytes[at] = (bytes[at] as number) ^ 1
        return bytes
      }),
    ))

  test.each([1, 2, 3, 4, 5, 6])('an MP4 in which three bytes are wrong (%i)', (seed) =>
    refusedBoth(spoilt('busy.mp4', flipped(seed))),
  )

  test.each(['error while decoding MB 1 5, bytestream 99', 'corrupt decoded frame'])(
    'a film of which ffmpeg says only: %s',
    (words) => expect(isDamage(`[h264 @ 0x55] [error] ${words}`)).toBe(true),
  )

  test('the damaged first of many joined recordings is found, although ffmpeg warns about the others', async () => {
    await ffmpeg('-i', file('busy.mp4'), '-c', 'copy', file('busy.ts'))
    const whole = readFileSync(file('busy.ts'))
    const first = flipped(1)(Buffer.from(whole))
    writeFileSync(file('spoilt-joined.ts'), Buffer.concat([first, ...Array.from({ length: 40 }, () => whole)]))
    const refused = await failureOf(checkSource(file('spoilt-joined.ts')))
    expect(refused).toMatchObject({ code: 'SOURCE_CORRUPT', isPermanent: true })
  })

  test.each([0.5, 0.9])('an MP4 and an MKV that end after %d of their bytes', async (share) => {
    await ffmpeg('-i', file('film.mp4'), '-c', 'copy', '-movflags', '+faststart', file('fast.mp4'))
    await ffmpeg('-i', file('film.mp4'), '-c', 'copy', file('film.mkv'))
    await refusedBoth(spoilt('fast.mp4', cut(share)))
    await refusedBoth(spoilt('film.mkv', cut(share)))
  })
})

describe('a photo is marked the way up that its EXIF data ask for', () => {
  /** What a photo of each orientation looks like when it is put upright, as filters of ffmpeg. */
  const TURNS = ['', 'hflip', 'hflip,vflip', 'vflip', 'transpose=0', 'transpose=1', 'transpose=3', 'transpose=2']

  const exif = (orientation: number): Buffer => {
    const tiff = Buffer.alloc(26)
    tiff.write('MM\0*', 0, 'latin1')
    tiff.writeUInt32BE(8, 4)
    tiff.writeUInt16BE(1, 8)
    tiff.writeUInt16BE(0x0112, 10)
    tiff.writeUInt16BE(3, 12)
    tiff.writeUInt32BE(1, 14)
    tiff.writeUInt16BE(orientation, 18)
    return tiff
  }
  const asJpeg = (orientation: number): Buffer => {
    const data = Buffer.concat([Buffer.from('Exif\0\0', 'latin1'), exif(orientation)])
    const head = Buffer.from([0xff, 0xe1, 0, data.length + 2])
    const photo = readFileSync(file('photo.jpg'))
    return Buffer.concat([photo.subarray(0, 2), head, data, photo.subarray(2)])
  }
  const asPng = (orientation: number): Buffer => {
    const [photo, data] = [readFileSync(file('photo.png')), exif(orientation)]
    const length = Buffer.alloc(4)
    length.writeUInt32BE(data.length)
    const typed = Buffer.concat([Buffer.from('eXIf', 'latin1'), data])
    return Buffer.concat([photo.subarray(0, 33), length, typed, crcOf(typed), photo.subarray(33)])
  }
  const asWebp = (orientation: number): Buffer => {
    const [photo, data] = [readFileSync(file('photo.webp')), exif(orientation)]
    const length = Buffer.alloc(4)
    length.writeUInt32LE(data.length)
    const whole = Buffer.concat([photo, Buffer.from('EXIF', 'latin1'), length, data])
    whole.writeUInt32LE(whole.length - 8, 4)
    return whole
  }

  /** How alike a copy and the photo are when the photo is turned so. */
  const likeness = async (copy: string, photo: string, turn: string): Promise<number> => {
    const turned = turn === '' ? 'null' : turn
    const graph = `[1:v]${turned},format=yuv444p[b];[0:v]format=yuv444p[a];[a][b]psnr`
    const said = await ffmpeg('-i', copy, '-noautorotate', '-i', photo, '-lavfi', graph, '-f', 'null', '-')
    return Number(/PSNR y:([\d.]+)/.exec(said)?.[1] ?? 99)
  }

  test.each([1, 2, 3, 4, 5, 6, 7, 8])('a JPEG with orientation %i', async (orientation) => {
    const source = file(`exif-${orientation}.jpg`)
    writeFileSync(source, asJpeg(orientation))
    const copy = file(`upright-${orientation}.jpg`)
    const { width, height, rotation } = await markImage({ source, target: copy, invisible })
    expect({ width, height, rotation }).toEqual({
      ...(orientation < 5 ? { width: 160, height: 90 } : { width: 90, height: 160 }),
      rotation: 0,
    })
    expect(await likeness(copy, file('photo.jpg'), TURNS[orientation - 1] as string)).toBeGreaterThan(30)
    const thumbnail = await makeThumbnail({ source, target: file('small.jpg') })
    expect([thumbnail.width, thumbnail.height]).toEqual([width, height])
  })

  test.each(['png', 'webp'])('a %s with orientation 6', async (kind) => {
    const source = file(`exif.${kind}`)
    writeFileSync(source, kind === 'png' ? asPng(6) : asWebp(6))
    const copy = file(`upright-${kind}.png`)
    expect(await markImage({ source, target: copy, invisible })).toMatchObject({ width: 90, height: 160 })
    expect(await likeness(copy, file(`photo.${kind}`), 'transpose=1')).toBeGreaterThan(30)
  })
})

test('a copy keeps all sound tracks and subtitles of text, with their languages', async () => {
  writeFileSync(file('words.srt'), '1\n00:00:00,500 --> 00:00:01,500\nHello\n\n')
  const inputs = [...PICTURE, ...TONE, '-f', 'lavfi', '-i', 'sine=440', '-i', file('words.srt')]
  const maps = ['-map', '0', '-map', '1', '-map', '2', '-map', '3', '-t', '2']
  const words = [
    '-metadata:s:a:0',
    'language=eng',
    '-metadata:s:a:1',
    'language=fra',
    '-metadata:s:s:0',
    'language=deu',
  ]
  await ffmpeg(...inputs, ...maps, ...X264, '-c:a:1', 'flac', '-c:s', 'srt', ...words, file('tracks.mkv'))
  await markVideo({ source: file('tracks.mkv'), target: file('tracks.mp4'), invisible })
  const { sound, subtitles } = await probeMedia(file('tracks.mp4'))
  expect(sound.map(({ codec, language }) => [codec, language])).toEqual([
    ['aac', 'eng'],
    ['aac', 'fra'],
  ])
  expect(subtitles.map(({ codec, language }) => [codec, language])).toEqual([['mov_text', 'deu']])
})

test('a picture that moves is refused as such, and not marked in its first frame alone', async () => {
  await ffmpeg(...PICTURE, '-t', '0.2', '-f', 'apng', '-plays', '0', file('moving.png'))
  await ffmpeg(...PICTURE, '-t', '0.2', '-c:v', 'libwebp_anim', file('moving.webp'))
  for (const name of ['moving.png', 'moving.webp']) {
    expect(await failureOf(checkSource(file(name)))).toMatchObject({ code: 'SOURCE_ANIMATED', isPermanent: true })
  }
})

describe('the font of a visible mark has every character of the name', () => {
  const MONO = FONT.replace('DejaVuSans.ttf', 'DejaVuSansMono.ttf')

  test('letters of many scripts, signs and combining marks are in the font that ships', async () => {
    for (const name of ['Ann', 'Łukasz Żółć', 'Ελένη', 'Дмитрий', 'שרה', 'محمد', 'n\u0303\u0323', "%{pts}:'\\n"]) {
      expect(await fontFor(name, [FONT])).toBe(FONT)
    }
  })

  test('the next font is taken where the first lacks a character', async () => {
    // U+05D0 is a Hebrew letter, which the monospaced font does not have.
    expect(await fontFor('אבי', [MONO, FONT])).toBe(FONT)
    expect(await fontFor('Ann', [MONO, FONT])).toBe(MONO)
    expect(await fontFor('Ann', ['/no/such/font.ttf', FONT])).toBe(FONT)
  })

  test('a character without a font is named with an action', async () => {
    // Unassigned in Unicode, so that no machine has a font for it.
    const error = await failureOf(fontFor('Ann \u{2fe0}', [FONT]))
    expect(error).toMatchObject({ code: 'TEXT_UNDRAWABLE', isPermanent: true })
    expect(error.message).toContain('U+2FE0')
    expect(error.action).toContain('WATERMARK_FONT')
  })
})

/** As PNG counts it. */
function crcOf(bytes: Buffer): Buffer {
  let crc = ~0
  for (const byte of bytes) {
    crc ^= byte
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0)
  }
  const out = Buffer.alloc(4)
  out.writeUInt32BE(~crc >>> 0)
  return out
}
