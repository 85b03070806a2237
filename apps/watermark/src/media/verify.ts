import { stat } from 'node:fs/promises'
import { MediaError, machineFailure } from '@redress/shared/media/errors'
import type { MediaRun, Progress } from '@redress/shared/media/ffmpeg'
import type { MediaPrograms } from '@redress/shared/media/programs'
import { type ProbedMedia, probeMedia } from './probe.ts'
import { decodeWhole, framesTolerated, TOLERANCE_MS } from './strict.ts'

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
  /**
   * Decodes the source and counts its frames. Called only if the output is not as long as the header of the source
   * says.
   */
  countSource(): Promise<number>
  soundTracks: number
}

type Watch = (progress: Progress) => void

/**
 * Checks that an output is complete. A good exit code is not enough: a program that was stopped leaves a playable,
 * shorter file.
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
    await check(media, expected)
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

async function check(media: ProbedMedia, expected: Expected): Promise<void> {
  if (media.codec !== expected.codec) throw wrong('codec', `It is ${media.codec}, not ${expected.codec}.`)
  if (media.width !== expected.width || media.height !== expected.height) {
    const is = `${media.width} x ${media.height}`
    throw wrong('size', `It has ${is} pixels, not ${expected.width} x ${expected.height}.`)
  }
  const { soundTracks } = expected
  if (media.sound.length !== soundTracks) {
    throw wrong('sound', `It has ${media.sound.length} sound tracks, not ${soundTracks}.`)
  }
  if (media.kind === 'image') return
  const complaint = lengthComplaint(media, expected)
  // The header may have a wrong length: in a trimmed film, or in joined recordings. Then the decoded length of the
  // source counts.
  if (complaint !== null && (await expected.countSource()) !== expected.frames) throw complaint
}

function lengthComplaint({ durationMs }: ProbedMedia, expected: Expected): MediaError | null {
  const { frames, sourceFrames, fps } = expected
  if (Math.abs(durationMs - expected.durationMs) > Math.max(TOLERANCE_MS, 1000 / fps)) {
    return wrong('duration', `It takes ${durationMs} ms, not ${expected.durationMs} ms.`)
  }
  if (sourceFrames !== null && Math.abs(frames - sourceFrames) > framesTolerated(fps)) {
    return wrong('frame count', `It has ${frames} frames, not ${sourceFrames}.`)
  }
  return null
}

function wrong(checked: string, detail: string, cause?: unknown): MediaError {
  const message = `The output was made but failed its verification (${checked}).`
  return new MediaError('OUTPUT_WRONG', message, { stage: 'verify', detail, cause })
}
