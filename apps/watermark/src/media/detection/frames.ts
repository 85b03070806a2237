import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { MediaError, machineFailure } from '@redress/shared/media/errors'
import { type MediaRun, runFfmpeg, THREADS } from '@redress/shared/media/ffmpeg'
import type { MediaPrograms } from '@redress/shared/media/programs'
import { GRID } from '../pattern.ts'
import { type ProbedMedia, readingArguments } from '../probe.ts'

/** Frames are read this small: two by two samples for each cell of the pattern. */
export const SIDE = GRID * 2
export const SAMPLES = SIDE * SIDE

/** Brightness of one small frame, from 0 to 255. */
export type SmallFrame = Float32Array

export interface FrameReading {
  media: ProbedMedia
  framesMax: number
  folder: string
  /** Of the file that is written in the folder. */
  name: string
  programs: MediaPrograms
  run: MediaRun
  onProgress?: (share: number) => void
}

/** Reads frames at equal distances, up to a maximum, each scaled to the same small square. */
export async function readFrames(reading: FrameReading): Promise<SmallFrame[]> {
  const { media, framesMax, folder, name, programs, run, onProgress } = reading
  const input = readingArguments(media, run.limits)
  // Every frame counts the same: the same moments are taken from a copy that was not cut.
  const rate = Math.min(media.fps, (framesMax * 1000) / media.durationMs)
  const sampling = media.kind === 'image' ? [] : [`fps=${rate.toFixed(6)}`]
  const filter = [...media.upright, ...sampling, `scale=${SIDE}:${SIDE}:flags=area`, 'format=gray16le'].join(',')
  const args = [...THREADS, ...input, '-map', `0:${media.videoIndex}`, '-vf', filter]
  try {
    const bound = ['-frames:v', String(framesMax), '-f', 'rawvideo', name]
    const report = (timeMs: number) => onProgress?.(Math.min(1, timeMs / Math.max(1, media.durationMs)))
    await runFfmpeg(programs.ffmpeg, [...args, ...bound], { ...run, cwd: folder }, ({ timeMs }) => report(timeMs))
  } catch (error) {
    throw machineFailure(error, 'detect') ?? unreadable(media, error)
  }
  const bytes = await readFile(join(folder, name))
  const values = new Uint16Array(bytes.buffer, bytes.byteOffset, Math.floor(bytes.length / 2))
  const frames: SmallFrame[] = []
  for (let at = 0; at + SAMPLES <= values.length; at += SAMPLES) {
    const frame = new Float32Array(SAMPLES)
    for (let i = 0; i < SAMPLES; i++) frame[i] = (values[at + i] as number) / 257
    frames.push(frame)
  }
  if (frames.length === 0) throw unreadable(media)
  return frames
}

const unreadable = (media: ProbedMedia, cause?: unknown): MediaError =>
  new MediaError('SOURCE_CORRUPT', 'The file is damaged or not complete: no frame of it can be read.', {
    stage: 'detect',
    detail: media.file.path,
    cause,
  })
