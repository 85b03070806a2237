import { GRID } from './pattern.ts'
import type { ProbedMedia, Track } from './probe.ts'

/** How a kind of file is written. */
export interface OutputPlan {
  name: string
  codec: string
  width: number
  height: number
  /** The pixel format in which the pattern is added, and how many of its planes carry it. */
  pattern: { format: string; planes: number; flatBytes: number }
  /** Brings the source into a format that text can be drawn on, into the pattern's, and into the encoder's. */
  toDraw: string
  toMark: string
  toEncode: string
  encoder: readonly string[]
}

const CELLS = GRID * GRID

/** Bytes of the two planes of colour of a pattern picture. */
const JPEG_COLOUR_BYTES: Readonly<Record<string, number>> = {
  yuvj420p: CELLS / 2,
  yuvj422p: CELLS,
  yuvj444p: CELLS * 2,
}

export function imageOutput(source: ProbedMedia): OutputPlan {
  return source.file.reader === 'jpeg_pipe' ? jpegOutput(source) : pngOutput(source)
}

function jpegOutput({ width, height, pixelFormat }: ProbedMedia): OutputPlan {
  const format = pixelFormat in JPEG_COLOUR_BYTES ? pixelFormat : 'yuvj420p'
  return {
    name: 'marked.jpg',
    codec: 'mjpeg',
    width,
    height,
    pattern: { format, planes: 1, flatBytes: JPEG_COLOUR_BYTES[format] as number },
    toDraw: `format=${format}`,
    toMark: 'null',
    toEncode: 'null',
    encoder: ['-frames:v', '1', '-c:v', 'mjpeg', '-q:v', '2', '-f', 'image2', '-update', '1'],
  }
}

/** Eight bits a colour, whatever the source had: the mark is made of whole steps of 255. */
function pngOutput({ width, height, pixelFormat }: ProbedMedia): OutputPlan {
  const isClear = /^(pal8|ya|yuva|gbrap|rgba|bgra|argb|abgr)/.test(pixelFormat)
  const packed = isClear ? 'rgba' : 'rgb24'
  const planar = isClear ? 'gbrap' : 'gbrp'
  return {
    name: 'marked.png',
    codec: 'png',
    width,
    height,
    pattern: { format: planar, planes: 3, flatBytes: isClear ? CELLS : 0 },
    toDraw: `format=${packed}`,
    toMark: `format=${planar}`,
    toEncode: `format=${packed}`,
    encoder: ['-frames:v', '1', '-c:v', 'png', '-f', 'image2', '-update', '1'],
  }
}

/** Sound codecs that every MP4 player supports; other codecs become AAC. */
const COPIED_SOUND = ['aac', 'mp3']

export function videoOutput(source: ProbedMedia): OutputPlan {
  // Colour is stored per block of two by two pixels, so an odd row or column has none.
  const [width, height] = [source.width & ~1, source.height & ~1]
  const crop = width === source.width && height === source.height ? [] : [`crop=${width}:${height}:0:0`]
  return {
    name: 'marked.mp4',
    codec: 'h264',
    width,
    height,
    pattern: { format: 'yuv420p', planes: 1, flatBytes: (GRID * GRID) / 2 },
    toDraw: [...crop, 'scale=out_range=tv', 'format=yuv420p'].join(','),
    toMark: 'null',
    toEncode: 'null',
    encoder: [
      ...source.sound.flatMap(soundTrack),
      ...source.subtitles.flatMap(subtitleTrack),
      // At CRF 20, fine detail differs more between two encodes than the mark does, and the difference is visible.
      ...['-c:v', 'libx264', '-preset', 'veryfast', '-crf', '18', '-pix_fmt', 'yuv420p'],
      ...['-fps_mode', 'passthrough', '-movflags', '+faststart', '-f', 'mp4'],
    ],
  }
}

/** Every track is kept, with its language. */
const soundTrack = ({ index, codec, language }: Track, i: number): string[] => [
  ...['-map', `0:${index}`, `-c:a:${i}`],
  ...(COPIED_SOUND.includes(codec) ? ['copy'] : ['aac', `-b:a:${i}`, '160k']),
  ...(language === null ? [] : [`-metadata:s:a:${i}`, `language=${language}`]),
]

const subtitleTrack = ({ index, language }: Track, i: number): string[] => [
  ...['-map', `0:${index}`, `-c:s:${i}`, 'mov_text'],
  ...(language === null ? [] : [`-metadata:s:s:${i}`, `language=${language}`]),
]
