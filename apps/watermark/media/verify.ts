import { stat } from 'node:fs/promises'
import { ProgramFailed } from 'redress'
import { MediaError, machineFailure } from '../../shared/media/errors.ts'
import { type MediaRun, type Progress, runFfmpeg, THREADS } from '../../shared/media/ffmpeg.ts'
import type { MediaPrograms } from '../../shared/media/programs.ts'
import { inputArguments } from '../../shared/media/sniff.ts'
import { type ProbedMedia, probeMedia } from './probe.ts'

export interface Expected {
  codec: string
  width: number
  height: number
  durationMs: number
  /** As many as the encoder said it wrote. */
  frames: number
  /** As many as the source says it has, if it does. */
  sourceFrames: number | null
  fps: number
  hasAudio: boolean
}

type Watch = (progress: Progress) => void

/**
 * Whether an output is what was asked for. That a program ended well does not say so: one that was told to stop leaves
 * a file that plays, only shorter.
 */
export async function verifyOutput(
  path: string,
  expected: Expected,
  programs: MediaPrograms,
  run: MediaRun,
  onProgress?: Watch,
): Promise<ProbedMedia> {
  const size = await stat(path).then(
    (found) => found.size,
    () => 0,
  )
  if (size === 0) throw wrong('the output is there', 'It was not written, or is empty.')
  let media: ProbedMedia
  let decoded: Progress
  try {
    media = await probeMedia(path, { ...run, programs, stage: 'verify' })
    check(media, expected)
    decoded = await decodeWhole(media, programs, run, onProgress)
  } catch (error) {
    const known = machineFailure(error, 'verify')
    if (known !== null) throw known
    // To the probe the output is a source like any other; here its faults are ours.
    if (error instanceof MediaError && (!error.isPermanent || error.code === 'OUTPUT_WRONG')) throw error
    throw wrong('the output decodes', error instanceof Error ? error.message : '', error)
  }
  if (decoded.frames !== expected.frames) {
    throw wrong('every frame decodes', `${decoded.frames} of ${expected.frames} frames could be decoded.`)
  }
  return media
}

/** A recording that begins between two key frames counts frames that nobody can decode. */
const TOLERANCE_MS = 200
const framesTolerated = (fps: number): number => Math.max(1, Math.floor((fps * TOLERANCE_MS) / 1000))

function check(media: ProbedMedia, expected: Expected): void {
  if (media.codec !== expected.codec) throw wrong('codec', `It is ${media.codec}, not ${expected.codec}.`)
  if (media.width !== expected.width || media.height !== expected.height) {
    const is = `${media.width} x ${media.height}`
    throw wrong('size', `It has ${is} pixels, not ${expected.width} x ${expected.height}.`)
  }
  if (media.hasAudio !== expected.hasAudio) throw wrong('sound', 'It has sound where it should have none, or none.')
  if (media.kind === 'image') return
  const offMs = Math.abs(media.durationMs - expected.durationMs)
  if (offMs > Math.max(TOLERANCE_MS, 1000 / expected.fps)) {
    throw wrong('duration', `It takes ${media.durationMs} ms, not ${expected.durationMs} ms.`)
  }
  const { frames, sourceFrames, fps } = expected
  if (sourceFrames !== null && Math.abs(frames - sourceFrames) > framesTolerated(fps)) {
    throw wrong('frame count', `It has ${frames} frames, not ${sourceFrames}.`)
  }
}

function wrong(checked: string, detail: string, cause?: unknown): MediaError {
  const message = `The output was made but failed its verification (${checked}).`
  return new MediaError('OUTPUT_WRONG', message, { stage: 'verify', detail, cause })
}

/** Reads every frame of picture and sound, and stops at the first that is damaged. */
export function decodeWhole(
  media: ProbedMedia,
  programs: MediaPrograms,
  run: MediaRun,
  onProgress?: Watch,
): Promise<Progress> {
  const sound = media.audioIndex === null ? [] : ['-map', `0:${media.audioIndex}`]
  const strict = ['-xerror', '-err_detect', 'explode']
  const input = inputArguments(media.file, run.limits)
  const args = [...THREADS, ...strict, ...input, '-map', `0:${media.videoIndex}`, ...sound]
  return runFfmpeg(programs.ffmpeg, [...args, '-fps_mode', 'passthrough', '-f', 'null', '-'], run, onProgress)
}

/**
 * After an encode failed for no reason of the machine: whether the source is to blame. It is decoded by itself, which
 * tells more than the words of an encoder that had three files open.
 */
export async function blameSource(
  media: ProbedMedia,
  failure: unknown,
  programs: MediaPrograms,
  run: MediaRun,
): Promise<MediaError | null> {
  const corrupt = (detail: string) =>
    new MediaError('SOURCE_CORRUPT', 'The file is damaged or not complete: it cannot be decoded to its end.', {
      stage: 'encode',
      detail,
      cause: failure,
    })
  try {
    const { timeMs, frames } = await decodeWhole(media, programs, { ...run, subject: 'source' })
    const isShort =
      media.frames === null ? timeMs < media.durationMs - 500 : frames < media.frames - framesTolerated(media.fps)
    return isShort ? corrupt(`It ends after ${Math.round(timeMs)} of ${media.durationMs} ms.`) : null
  } catch (error) {
    const known = machineFailure(error, 'encode')
    if (known !== null) throw known
    return corrupt(error instanceof ProgramFailed ? error.message : String(error))
  }
}
