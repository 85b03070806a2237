import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { MediaRun } from '@redress/shared/media/ffmpeg'
import { type MediaLimits, mediaLimits } from '@redress/shared/media/limits'
import { findPrograms, type MediaPrograms } from '@redress/shared/media/programs'
import { type ProbedMedia, probeMedia } from '../probe.ts'
import { inScratch } from '../scratch.ts'
import { readFrames } from './frames.ts'
import { type Judgement, judge } from './judge.ts'

export { MATCH_Z_MIN } from './judge.ts'

export interface DetectOptions {
  /** A video or an image that may be a copy of a marked one. */
  suspect: string
  /** What was marked, if it is still there: with it much weaker marks are found. */
  source?: string | undefined
  key: string | Uint8Array
  tokens: readonly string[]
  onProgress?: ((percent: number) => void) | undefined
  signal?: AbortSignal | undefined
  limits?: Partial<MediaLimits> | undefined
  programs?: MediaPrograms | undefined
  /** Where small frames are kept meanwhile: a few megabytes. */
  workFolder?: string | undefined
}

export interface Detection extends Judgement {
  frames: number
  usedSource: boolean
}

export const SUSPECT_FRAMES_MAX = 128
/** A multiple, so that all moments of the suspect are among those of the source, and more, for a copy that was cut. */
export const SOURCE_FRAMES_MAX = SUSPECT_FRAMES_MAX * 4

/**
 * Whose copy a file is. Survives being encoded again, made smaller, made lighter or darker, and cut in time (a source
 * of more than about 20 s helps less then). With the source at hand, it also survives what moves the picture: cropping,
 * borders, mirroring, a slight rotation. Without it, half a cell, a hundredth of the width, is too much. Of a mix of
 * several recipients' copies, each comes out above the line. A file without a mark, or with one of another key or of
 * tokens that were not named, is 'inconclusive'. Figures: docs/guides/systems/watermark-detection.md.
 */
export async function detect(options: DetectOptions): Promise<Detection> {
  const limits = mediaLimits(options.limits)
  const programs = options.programs ?? (await findPrograms())
  const run: MediaRun = { limits, signal: options.signal, subject: 'source' }
  const probe = (path: string) => probeMedia(path, { ...options, programs })
  const suspect = await probe(options.suspect)
  const source = options.source === undefined ? null : await probe(options.source)

  const place = join(options.workFolder ?? tmpdir(), 'frames')
  const frames = await inScratch(place, 'detect', async (folder) => {
    const parts = source === null ? 1 : 2
    const read = (media: ProbedMedia, name: string, framesMax: number, part: number) =>
      readFrames({
        ...{ media, framesMax, folder, name, programs, run },
        onProgress: (share) => options.onProgress?.(Math.floor(((part + share) / parts) * 90)),
      })
    const ofSuspect = await read(suspect, 'suspect', SUSPECT_FRAMES_MAX, 0)
    return { ofSuspect, ofSource: source === null ? [] : await read(source, 'source', SOURCE_FRAMES_MAX, 1) }
  })
  const { key, tokens, signal } = options
  const judgement = await judge({ suspect: frames.ofSuspect, source: frames.ofSource, key, tokens, signal })
  options.onProgress?.(100)
  return { ...judgement, frames: frames.ofSuspect.length, usedSource: source !== null }
}
