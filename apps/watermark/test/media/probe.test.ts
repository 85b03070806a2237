import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { deflateSync } from 'node:zlib'
import { beforeAll, describe, expect, test } from 'vitest'
import { probeMedia } from '../../src/media/probe.ts'
import { failureOf, ffmpeg, isHere, makeClip, mediaFolder, needsFfmpeg, programs } from './media-files.ts'

needsFfmpeg()
const { folder, file } = mediaFolder()

beforeAll(async () => {
  if (!isHere) return
  const tone = ['-f', 'lavfi', '-i', 'sine=220', '--', '-c:a', 'aac']
  await makeClip(file('clip.mp4'), 'testsrc2=s=320x180:r=25', 2, ...tone)
  await ffmpeg('-display_rotation', '90', '-i', file('clip.mp4'), '-c', 'copy', file('turned.mov'))
  await ffmpeg('-i', file('clip.mp4'), '-frames:v', '1', '-update', '1', file('still.png'))
  await ffmpeg('-i', file('still.png'), '-update', '1', file('still.jpg'))
})

describe('probing', () => {
  test('a video is probed for size, duration, frames, rate, codec and sound', async () => {
    expect(await probeMedia(file('clip.mp4'))).toMatchObject({
      ...{ kind: 'video', width: 320, height: 180, durationMs: 2000, frames: 50, fps: 25, codec: 'h264' },
      ...{ pixelFormat: 'yuv420p', sound: [{ codec: 'aac' }], rotation: 0 },
    })
  })

  test('a rotated video is probed with its displayed size', async () => {
    expect(await probeMedia(file('turned.mov'))).toMatchObject({ width: 180, height: 320, rotation: 90 })
  })

  test('an image is identified by its content, not its name', async () => {
    copyFileSync(file('still.jpg'), file('named-wrong.png'))
    const image = { kind: 'image', width: 320, height: 180, durationMs: 0, frames: 1, fps: 0, sound: [] }
    expect(await probeMedia(file('still.png'))).toMatchObject({ ...image, codec: 'png' })
    expect(await probeMedia(file('named-wrong.png'))).toMatchObject({ ...image, codec: 'mjpeg' })
  })

  test('is found by reading where a live recording never got its duration', async () => {
    const piped = `"$0" -v error -nostdin -i "$1" -c:v copy -an -f matroska -live 1 pipe:1 > "$2"`
    execFileSync('sh', ['-c', piped, programs.ffmpeg.path, file('clip.mp4'), file('live.mkv')])
    const { durationMs, frames } = await probeMedia(file('live.mkv'))
    expect(Math.abs(durationMs - 2000)).toBeLessThanOrEqual(80)
    expect(frames).toBeNull()
  })
})

describe('permanent refusals', () => {
  const refusals: [what: string, make: (path: string) => void, code: string][] = [
    ['no file', () => undefined, 'SOURCE_MISSING'],
    ['a folder', (path) => mkdirSync(path), 'SOURCE_UNSUPPORTED'],
    // Opening it would wait for ever for somebody who writes.
    ['a named pipe', (path) => execFileSync('mkfifo', [path]), 'SOURCE_UNSUPPORTED'],
    ['zero bytes', (path) => writeFileSync(path, ''), 'SOURCE_CORRUPT'],
    ['a text', (path) => writeFileSync(path, 'This is no video.\n'.repeat(99)), 'SOURCE_UNSUPPORTED'],
    [
      'a playlist that names another file',
      (path) => writeFileSync(path, '#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n'),
      'SOURCE_UNSUPPORTED',
    ],
    [
      'a list of files to be joined',
      (path) => writeFileSync(path, "ffconcat version 1.0\nfile '/etc/passwd'\n"),
      'SOURCE_UNSUPPORTED',
    ],
    [
      'a head of MP4 before noise',
      (path) =>
        writeFileSync(path, Buffer.concat([Buffer.from('\0\0\0\x18ftypmp42\0\0\0\0mp42isom', 'latin1'), noise()])),
      'SOURCE_CORRUPT',
    ],
    [
      'an MP4 that ends before its index',
      (path) => writeFileSync(path, readFileSync(file('clip.mp4')).subarray(0, 30_000)),
      'SOURCE_CORRUPT',
    ],
    [
      'a PNG that ends in its first row',
      (path) => writeFileSync(path, readFileSync(file('still.png')).subarray(0, 60)),
      'SOURCE_CORRUPT',
    ],
    [
      'a HEIC photo of a phone',
      (path) => writeFileSync(path, Buffer.concat([Buffer.from('\0\0\0\x18ftypheic\0\0\0\0mif1', 'latin1'), noise()])),
      'SOURCE_UNSUPPORTED',
    ],
    ['a small PNG of 400 million pixels', (path) => writeFileSync(path, pngBomb(20_000)), 'SOURCE_TOO_LARGE'],
  ]

  test.each(refusals)('an upload is refused permanently: %s [W2 W22]', async (what, make, code) => {
    const path = file(`${what}.mp4`)
    make(path)
    const error = await failureOf(probeMedia(path))
    expect(error).toMatchObject({ code, isPermanent: true, stage: 'probe' })
    // Whoever uploaded it sees the message and what to do; where the server keeps files is not theirs to know.
    expect(`${error.message} ${error.action}`).not.toContain(folder)
  })

  test('a file name that ffmpeg reads as a URL or a list is refused [W22]', async () => {
    for (const name of ['concat:/etc/passwd|/etc/passwd', 'http://127.0.0.1/a.mp4', 'clip.mp4', '-i']) {
      expect(await failureOf(probeMedia(name))).toMatchObject({ code: 'SOURCE_UNSUPPORTED', isPermanent: true })
    }
  })

  test('audio without video is refused [W22]', async () => {
    await ffmpeg('-i', file('clip.mp4'), '-vn', '-c:a', 'copy', file('sound.mp4'))
    expect(await failureOf(probeMedia(file('sound.mp4')))).toMatchObject({ code: 'SOURCE_UNSUPPORTED' })
  })

  test('a file over the limits on bytes, pixels or duration is refused [W22]', async () => {
    const code = async (limits: object) => (await failureOf(probeMedia(file('clip.mp4'), { limits }))).code
    expect(await code({ sourceBytesMax: 1000 })).toBe('SOURCE_TOO_LARGE')
    expect(await code({ pixelsMax: 320 * 180 - 1 })).toBe('SOURCE_TOO_LARGE')
    expect(await code({ sideMax: 319 })).toBe('SOURCE_TOO_LARGE')
    expect(await code({ durationMsMax: 1999 })).toBe('SOURCE_TOO_LARGE')
  })
})

test('a probe that times out is not reported as a corrupt file [W23]', async () => {
  const error = await failureOf(probeMedia(file('clip.mp4'), { limits: { probeTimeoutMs: 1 } }))
  expect(error).toMatchObject({ code: 'TIMED_OUT', isPermanent: false })
})

const noise = (): Buffer => Buffer.from(Array.from({ length: 5000 }, (_, i) => (i * 7919) % 251))

/** A picture of one bit a pixel, all black, which shrinks to almost nothing. */
function pngBomb(side: number): Buffer {
  const chunk = (type: string, data: Buffer): Buffer => {
    const head = Buffer.alloc(4)
    head.writeUInt32BE(data.length)
    // Nobody gets as far as the checksums.
    return Buffer.concat([head, Buffer.from(type), data, Buffer.alloc(4)])
  }
  const header = Buffer.alloc(13)
  header.writeUInt32BE(side, 0)
  header.writeUInt32BE(side, 4)
  header[8] = 1
  const pixels = deflateSync(Buffer.alloc((side / 8 + 1) * side))
  const signature = Buffer.from('\x89PNG\r\n\x1a\n', 'latin1')
  return Buffer.concat([signature, chunk('IHDR', header), chunk('IDAT', pixels), chunk('IEND', Buffer.alloc(0))])
}
