import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { isAbsolute } from 'node:path'
import { type MediaCode, MediaError, type MediaStage } from './errors.ts'
import type { MediaLimits } from './limits.ts'

interface Format {
  /** The name of ffmpeg's reader. It is forced, so that a disguised file cannot choose its own. */
  reader: string
  kind: 'video' | 'image'
  isSo: (head: Buffer) => boolean
  /** Formats of cameras and recorders, which browsers do not send: only if the caller asks for them. */
  isOfCameras?: true
}

const text = (head: Buffer, start: number, end: number): string => head.toString('latin1', start, end)

/** The key of the partition that an MXF file begins with, up to where its kinds differ. */
const MXF_KEY = Buffer.from('060e2b34020501010d010201', 'hex').toString('latin1')

/** No playlist, no script and no list of other files is among them. */
const FORMATS: readonly Format[] = [
  {
    reader: 'mov',
    kind: 'video',
    isSo: (head) => ['ftyp', 'moov', 'mdat', 'wide', 'free', 'skip'].includes(text(head, 4, 8)),
  },
  { reader: 'matroska', kind: 'video', isSo: (head) => text(head, 0, 4) === '\x1aE\xdf\xa3' },
  { reader: 'avi', kind: 'video', isSo: (head) => text(head, 0, 4) === 'RIFF' && text(head, 8, 12) === 'AVI ' },
  {
    reader: 'mpegts',
    kind: 'video',
    isSo: (head) => [188, 192].some((step) => [0, 1, 2].every((i) => head[i * step + step - 188] === 0x47)),
  },
  { reader: 'mxf', kind: 'video', isSo: (head) => text(head, 0, 12) === MXF_KEY, isOfCameras: true },
  { reader: 'png_pipe', kind: 'image', isSo: (head) => text(head, 0, 8) === '\x89PNG\r\n\x1a\n' },
  { reader: 'jpeg_pipe', kind: 'image', isSo: (head) => text(head, 0, 3) === '\xff\xd8\xff' },
  { reader: 'webp_pipe', kind: 'image', isSo: (head) => text(head, 0, 4) === 'RIFF' && text(head, 8, 12) === 'WEBP' },
]

/** ffmpeg shows nothing of one, as if it were damaged. The flag is the second bit of the extended header. */
const isMovingWebp = (head: Buffer): boolean =>
  text(head, 0, 4) === 'RIFF' && text(head, 8, 16) === 'WEBPVP8X' && ((head[20] ?? 0) & 2) !== 0

/** Phone photos in a video container: ffmpeg shows a part of one, or treats it as a film of one second. */
const STILL_BRANDS = ['heic', 'heix', 'heim', 'heis', 'hevc', 'hevx', 'mif1', 'mif2', 'msf1', 'avif', 'avis']
const isStillInMov = (head: Buffer): boolean => text(head, 4, 8) === 'ftyp' && STILL_BRANDS.includes(text(head, 8, 12))

const READERS = FORMATS.map(({ reader }) => reader).join(',')
const HEAD_BYTES = 1024

/** A file whose first bytes were read. */
export interface SniffedFile {
  path: string
  reader: string
  kind: 'video' | 'image'
}

/** Identifies a file by its first bytes, not its name, and refuses unsupported kinds. */
export async function sniff(
  path: string,
  stage: MediaStage,
  limits: MediaLimits,
  { takesCameras = false } = {},
): Promise<SniffedFile> {
  const refuse = (code: MediaCode, message: string) => new MediaError(code, message, { stage, detail: path })
  if (!isAbsolute(path)) throw refuse('SOURCE_UNSUPPORTED', 'The file is not named by an absolute path.')
  const file = await opened(path, stage)
  try {
    const { size } = await file.stat()
    if (size === 0) throw refuse('SOURCE_CORRUPT', 'The file is empty.')
    if (size > limits.sourceBytesMax) {
      throw refuse('SOURCE_TOO_LARGE', `The file has ${size} bytes, more than ${limits.sourceBytesMax}.`)
    }
    const head = Buffer.alloc(HEAD_BYTES)
    await file.read(head, 0, HEAD_BYTES, 0)
    const format = FORMATS.find(({ isSo, isOfCameras }) => (takesCameras || !isOfCameras) && isSo(head))
    if (format === undefined) throw refuse('SOURCE_UNSUPPORTED', 'The file is no video or image that we know.')
    if (isStillInMov(head)) throw refuse('SOURCE_UNSUPPORTED', 'HEIC and AVIF pictures cannot be marked.')
    if (isMovingWebp(head)) throw refuse('SOURCE_ANIMATED', 'The picture moves: an animated WebP cannot be marked.')
    return { path, reader: format.reader, kind: format.kind }
  } finally {
    await file.close()
  }
}

async function opened(path: string, stage: MediaStage): Promise<FileHandle> {
  try {
    // Without blocking: opening a named pipe would wait for a writer.
    const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
    if ((await file.stat()).isFile()) return file
    await file.close()
  } catch (cause) {
    // A machine that has no file handles left says nothing about the file.
    if (!['ENOENT', 'ENOTDIR', 'EACCES', 'EPERM'].includes(String((cause as NodeJS.ErrnoException).code))) throw cause
    throw new MediaError('SOURCE_MISSING', 'The file is not there, or may not be read.', { stage, detail: path, cause })
  }
  throw new MediaError('SOURCE_UNSUPPORTED', 'This is not a regular file.', { stage, detail: path })
}

/** Opens this file and nothing else: no network, no other reader, no file that it names. */
export function inputArguments({ path, reader }: SniffedFile, { pixelsMax }: MediaLimits): string[] {
  return [
    ...['-protocol_whitelist', 'file', '-format_whitelist', READERS, '-f', reader],
    // Decoders round sizes up: the limit itself is kept by the probe, and this by what takes the memory.
    ...['-max_pixels', String(pixelsMax * 2), '-i', `file:${path}`],
  ]
}
