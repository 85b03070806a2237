import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { MediaError, machineFailure } from '@redress/shared/media/errors'
import { type MediaRun, type Progress, THREADS } from '@redress/shared/media/ffmpeg'
import { type MediaLimits, mediaLimits } from '@redress/shared/media/limits'
import { findPrograms, type MediaPrograms } from '@redress/shared/media/programs'
import { imageOutput, type OutputPlan, videoOutput } from './output-plan.ts'
import { chipsOf, GRID, patternPicture } from './pattern.ts'
import { type ProbedMedia, probeMedia, readingArguments } from './probe.ts'
import { inScratch, publish } from './scratch.ts'
import { decodeWhole, findDamage, runStrictly, strictArguments } from './strict.ts'
import { type Expected, verifyOutput } from './verify.ts'
import { textFilter, type VisibleText } from './visible-text.ts'

interface InvisibleMark {
  key: string | Uint8Array
  tokenId: string
}

export interface MarkOptions {
  source: string
  /** Replaced when the marked copy is whole and verified, and not touched before. */
  target: string
  visible?: VisibleText | undefined
  invisible?: InvisibleMark | undefined
  /** In percent; it only grows, and 100 means that the copy is in its place. */
  onProgress?: ((percent: number) => void) | undefined
  signal?: AbortSignal | undefined
  limits?: Partial<MediaLimits> | undefined
  programs?: MediaPrograms | undefined
}

/** A copy of a video for one recipient: H.264 in MP4, with all sound tracks and text subtitles of the source. */
export async function markVideo(options: MarkOptions): Promise<ProbedMedia> {
  return mark(options, 'video', videoOutput)
}

/** A copy of an image for one recipient: a JPEG stays one, everything else becomes a PNG. */
export async function markImage(options: MarkOptions): Promise<ProbedMedia> {
  return mark(options, 'image', imageOutput)
}

async function mark(
  options: MarkOptions,
  kind: 'video' | 'image',
  plan: (source: ProbedMedia) => OutputPlan,
): Promise<ProbedMedia> {
  const limits = mediaLimits(options.limits)
  const programs = options.programs ?? (await findPrograms())
  const source = await probeMedia(options.source, { ...options, programs })
  if (source.kind !== kind) {
    throw new MediaError('SOURCE_UNSUPPORTED', `The file is not ${kind === 'video' ? 'a video' : 'an image'}.`, {
      stage: 'probe',
      detail: options.source,
    })
  }
  const percent = growing(options.onProgress)
  return inScratch(options.target, 'encode', async (folder) => {
    const output = plan(source)
    const run: MediaRun = { limits, signal: options.signal, subject: 'output', cwd: folder }
    const finished = join(folder, output.name)
    const media = await makeVerified({ options, source, output, programs, run, folder, finished, percent })
    await publish(finished, options.target)
    percent(100)
    return { ...media, file: { ...media.file, path: options.target } }
  })
}

interface Making {
  options: MarkOptions
  source: ProbedMedia
  output: OutputPlan
  programs: MediaPrograms
  run: MediaRun
  folder: string
  finished: string
  percent: (value: number) => void
}

/** The share of the encode in the whole work; the rest is verification. */
const ENCODE_PERCENT = 90

async function makeVerified(making: Making): Promise<ProbedMedia> {
  const { source, output, programs, run, finished, percent } = making
  const share = ({ timeMs }: Progress) => (source.durationMs === 0 ? 0 : Math.min(1, timeMs / source.durationMs))
  try {
    const args = await encodeArguments(making)
    const done = await runStrictly(programs.ffmpeg, args, run, (now) => percent(share(now) * ENCODE_PERCENT))
    percent(ENCODE_PERCENT)
    const expected: Expected = {
      codec: output.codec,
      width: output.width,
      height: output.height,
      durationMs: source.durationMs,
      frames: done.frames,
      sourceFrames: source.frames,
      fps: source.fps,
      countSource: async () => (await decodeWhole(source, programs, { ...run, subject: 'source' })).frames,
      soundTracks: source.sound.length,
    }
    const rest = 99 - ENCODE_PERCENT
    return await verifyOutput(finished, expected, programs, run, (done) => percent(ENCODE_PERCENT + share(done) * rest))
  } catch (error) {
    const isOurs = error instanceof MediaError && error.code !== 'OUTPUT_WRONG'
    const known = isOurs ? error : machineFailure(error, 'encode')
    throw known ?? (await findDamage(source, programs, run, 'encode', error)) ?? error
  }
}

async function encodeArguments({ options, source, output, run, folder }: Making): Promise<string[]> {
  const { visible, invisible } = options
  const { width, height, pattern, toDraw, toMark, toEncode } = output
  if (visible === undefined && invisible === undefined) throw new TypeError('mark: neither visible nor invisible')
  const drawing = [
    ...source.upright,
    toDraw,
    ...(visible === undefined ? [] : [await textFilter(visible, folder, output)]),
    toMark,
  ]
  const prepared = `[0:${source.videoIndex}]${drawing.join(',')}`
  const input = [...THREADS, ...strictArguments(source), ...readingArguments(source, run.limits)]
  const common = [...output.encoder, ...THREADS, ...CLEAN, output.name]
  if (invisible === undefined) {
    return [...input, '-filter_complex', `${prepared},${toEncode}[out]`, '-map', '[out]', ...common]
  }
  const chips = chipsOf(invisible.key, invisible.tokenId)
  await writeFile(join(folder, PATTERN_FILE), patternPicture(chips, { width, height, ...pattern }))
  const modes = Array.from({ length: pattern.planes }, (_, plane) => `c${plane}_mode=grainmerge`).join(':')
  // Grain merge adds values above 128 and subtracts those below. The single frame of the pattern is repeated for all
  // frames.
  const graph = [
    `${prepared}[picture]`,
    `[1:0]scale=${width}:${height}:flags=bicubic[pattern]`,
    `[picture][pattern]blend=${modes},${toEncode}[out]`,
  ].join(';')
  const raw = ['-f', 'rawvideo', '-pix_fmt', pattern.format, '-s', `${GRID}x${GRID}`, '-i', PATTERN_FILE]
  return [...input, ...raw, '-filter_complex', graph, '-map', '[out]', ...common]
}

const PATTERN_FILE = 'pattern'

/** Nothing of what the source says about its maker, its place or its time, nor of the moment of the encode. */
const CLEAN = [
  ...['-map_metadata', '-1', '-map_chapters', '-1'],
  ...['-fflags', '+bitexact', '-flags:v', '+bitexact', '-flags:a', '+bitexact'],
]

function growing(onProgress: ((percent: number) => void) | undefined): (value: number) => void {
  let last = -1
  return (value) => {
    const percent = Math.floor(value)
    if (percent <= last) return
    last = percent
    onProgress?.(percent)
  }
}
