import type { OutputPlan } from './output-plan.ts'
import { GRID } from './pattern.ts'
import type { ProbedMedia } from './probe.ts'

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
