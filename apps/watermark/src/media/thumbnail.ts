import { join } from 'node:path'
import { MediaError } from '@redress/shared/media/errors'
import { type MediaRun, runFfmpeg, THREADS } from '@redress/shared/media/ffmpeg'
import { type MediaLimits, mediaLimits } from '@redress/shared/media/limits'
import { findPrograms, type MediaPrograms } from '@redress/shared/media/programs'
import { type ProbedMedia, probeMedia, readingArguments } from './probe.ts'
import { inScratch, publish } from './scratch.ts'

export interface ThumbnailOptions {
  source: string
  target: string
  /** The longer side; a smaller picture keeps its size. */
  sideMax?: number | undefined
  signal?: AbortSignal | undefined
  limits?: Partial<MediaLimits> | undefined
  programs?: MediaPrograms | undefined
}

/** A small JPEG of a video or an image. Of a video it is the frame after a tenth: the first is often black. */
export async function makeThumbnail(options: ThumbnailOptions): Promise<ProbedMedia> {
  const limits = mediaLimits(options.limits)
  const programs = options.programs ?? (await findPrograms())
  const source = await probeMedia(options.source, { ...options, programs })
  return inScratch(options.target, 'thumbnail', async (folder) => {
    const run: MediaRun = { limits, signal: options.signal, subject: 'output', cwd: folder }
    const side = options.sideMax ?? 480
    const scale = `scale=${side}:${side}:force_original_aspect_ratio=decrease`
    const fit = source.width <= side && source.height <= side ? [] : [scale]
    const write = (atMs: number) =>
      runFfmpeg(
        programs.ffmpeg,
        [
          ...(atMs === 0 ? [] : ['-ss', (atMs / 1000).toFixed(3)]),
          ...[...THREADS, ...readingArguments(source, limits), '-map', `0:${source.videoIndex}`],
          ...['-vf', [...source.upright, ...fit, 'format=yuvj420p'].join(','), '-frames:v', '1', '-map_metadata', '-1'],
          ...['-c:v', 'mjpeg', '-q:v', '4', '-fflags', '+bitexact', '-f', 'image2', '-update', '1', FILE],
        ],
        run,
      )
    const { frames } = await write(Math.floor(source.durationMs / 10))
    // A file may promise more than it has.
    if (frames === 0 && (await write(0)).frames === 0) {
      const message = 'The file is damaged or not complete: no picture of it can be shown.'
      throw new MediaError('SOURCE_CORRUPT', message, { stage: 'thumbnail', detail: options.source })
    }
    const thumbnail = await probeMedia(join(folder, FILE), { ...options, programs, stage: 'thumbnail' })
    await publish(join(folder, FILE), options.target)
    return { ...thumbnail, file: { ...thumbnail.file, path: options.target } }
  })
}

const FILE = 'thumbnail.jpg'
