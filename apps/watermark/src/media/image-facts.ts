import { type FileHandle, open } from 'node:fs/promises'
import { MediaError, type MediaStage } from '@redress/shared/media/errors'
import type { SniffedFile } from '@redress/shared/media/sniff'

/** EXIF orientation: 1 is upright, 3 upside down, 6 and 8 lie on their sides, and the other ones are mirrored. */
type Orientation = 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8

/** The filters that turn a picture upright, and their rotation in degrees, counterclockwise. */
const UPRIGHT: Readonly<Record<Orientation, { rotation: number; upright: readonly string[] }>> = {
  1: { rotation: 0, upright: [] },
  2: { rotation: 0, upright: ['hflip'] },
  3: { rotation: 180, upright: ['hflip', 'vflip'] },
  4: { rotation: 180, upright: ['vflip'] },
  5: { rotation: 90, upright: ['transpose=cclock_flip'] },
  6: { rotation: -90, upright: ['transpose=clock'] },
  7: { rotation: -90, upright: ['transpose=clock_flip'] },
  8: { rotation: 90, upright: ['transpose=cclock'] },
}

export const uprightOf = (orientation: Orientation): (typeof UPRIGHT)[Orientation] => UPRIGHT[orientation]

/** No valid file has this many parts. The bound stops a hostile file from keeping the reader busy. */
const PARTS_MAX = 100_000
const EXIF_BYTES_MAX = 1 << 20

/**
 * Reads the orientation of an image from its EXIF data: ffmpeg reads it only in JPEG, and not in every version.
 * Refuses an animated PNG, because ffmpeg would show only its first frame.
 */
export async function readImage({ path, reader }: SniffedFile, stage: MediaStage): Promise<Orientation> {
  const file = await open(path)
  try {
    if (reader === 'jpeg_pipe') return await ofJpeg(file)
    if (reader === 'webp_pipe') return await ofWebp(file)
    return await ofPng(file, () => {
      const message = 'The picture moves: an animated PNG cannot be marked.'
      throw new MediaError('SOURCE_ANIMATED', message, { stage, detail: path })
    })
  } finally {
    await file.close()
  }
}

/** Segments follow each other up to the image data. */
async function ofJpeg(file: FileHandle): Promise<Orientation> {
  let at = 2
  for (let parts = 0; parts < PARTS_MAX; parts++) {
    const head = await bytesAt(file, at, 4)
    const marker = head[1] ?? 0
    if (head.length < 4 || head[0] !== 0xff) return 1
    if (marker === 0xff) {
      // Any number of fill bytes may precede a marker.
      at += 1
      continue
    }
    if (marker === 0xda || marker === 0xd9) return 1
    const length = head.readUInt16BE(2)
    if (marker === 0xe1) {
      const orientation = orientationIn(await bytesAt(file, at + 4, length - 2))
      if (orientation !== null) return orientation
    }
    at += 2 + length
  }
  return 1
}

async function ofPng(file: FileHandle, refuseMoving: () => never): Promise<Orientation> {
  let at = 8
  for (let parts = 0; parts < PARTS_MAX; parts++) {
    const head = await bytesAt(file, at, 8)
    if (head.length < 8) return 1
    const length = head.readUInt32BE(0)
    const type = head.toString('latin1', 4)
    if (type === 'acTL') refuseMoving()
    if (type === 'eXIf') return orientationIn(await bytesAt(file, at + 8, length)) ?? 1
    if (type === 'IEND') return 1
    at += 12 + length
  }
  return 1
}

async function ofWebp(file: FileHandle): Promise<Orientation> {
  let at = 12
  for (let parts = 0; parts < PARTS_MAX; parts++) {
    const head = await bytesAt(file, at, 8)
    if (head.length < 8) return 1
    const length = head.readUInt32LE(4)
    if (head.toString('latin1', 0, 4) === 'EXIF') return orientationIn(await bytesAt(file, at + 8, length)) ?? 1
    at += 8 + length + (length % 2)
  }
  return 1
}

async function bytesAt(file: FileHandle, at: number, length: number): Promise<Buffer> {
  const bytes = Buffer.alloc(Math.max(0, Math.min(length, EXIF_BYTES_MAX)))
  const { bytesRead } = await file.read(bytes, 0, bytes.length, at)
  return bytes.subarray(0, bytesRead)
}

const EXIF = Buffer.from('Exif\0\0', 'latin1')
const ORIENTATION_TAG = 0x0112
const SHORT = 3

/** EXIF data is a TIFF file without a picture. Null if it is missing or has no orientation. */
function orientationIn(data: Buffer): Orientation | null {
  const tiff = data.subarray(0, EXIF.length).equals(EXIF) ? data.subarray(EXIF.length) : data
  const order = tiff.toString('latin1', 0, 2)
  if (tiff.length < 8 || (order !== 'II' && order !== 'MM')) return null
  const u16 = (at: number) => (order === 'II' ? tiff.readUInt16LE(at) : tiff.readUInt16BE(at))
  const first = order === 'II' ? tiff.readUInt32LE(4) : tiff.readUInt32BE(4)
  if (first + 2 > tiff.length) return null
  const entries = u16(first)
  for (let i = 0; i < entries; i++) {
    const at = first + 2 + i * 12
    if (at + 12 > tiff.length) return null
    if (u16(at) !== ORIENTATION_TAG || u16(at + 2) !== SHORT) continue
    const value = u16(at + 8)
    return value in UPRIGHT ? (value as Orientation) : null
  }
  return null
}
