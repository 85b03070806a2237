import { MediaError, machineFailure } from '@redress/shared/media/errors'
import { type MediaRun, type Progress, runFfmpeg, THREADS } from '@redress/shared/media/ffmpeg'
import { mediaLimits } from '@redress/shared/media/limits'
import { findPrograms, type MediaProgram, type MediaPrograms } from '@redress/shared/media/programs'
import { type ProbedMedia, type ProbeOptions, probeMedia, readingArguments } from './probe.ts'

/**
 * Arguments that make ffmpeg stop at damage instead of concealing it.
 *
 * - `explode` turns a decoder's warnings into errors. Not for H.264: a film that was trimmed without re-encoding may begin
 *   with frames whose references were cut off. They cause warnings but are never shown. Damage in H.264 is found without
 *   it, because a frame with concealed blocks counts as corrupt.
 * - `-xerror` ends the run at the first error. Not for MPEG-TS: joined recordings have jumps in their counters, which are
 *   packet errors and no damage. There ffmpeg continues, and its messages are judged (`runStrictly`). Not for PNG: bytes
 *   after the picture, which some screenshot programs leave, would be an error. A damaged PNG gives no frame, and ffmpeg
 *   then fails anyway.
 */
export function strictArguments({ codec, file: { reader } }: ProbedMedia): string[] {
  const ofPicture = codec === 'h264' ? 'crccheck' : 'explode+crccheck'
  const atError = reader === 'mpegts' ? ['-v', 'level+warning'] : reader === 'png_pipe' ? [] : ['-xerror']
  return [...atError, '-err_detect:v', ofPicture, '-err_detect:a', 'explode+crccheck']
}

/**
 * Messages of ffmpeg about damage that it does not count as an error. Its other messages are harmless. A decoder with
 * several threads can pass a frame on before it marks the frame as corrupt, so the damaged block itself counts.
 */
const DAMAGE =
  /File ended prematurely|invalid as first byte of an EBML number|partial file|corrupt decoded frame|error while decoding MB|Error submitting packet to decoder/

export const isDamage = (line: string): boolean => DAMAGE.test(line)

/**
 * Runs ffmpeg, and also throws if it succeeds but reports damage. Lines are checked as they arrive, because a long
 * film has more of them than are kept.
 */
export async function runStrictly(
  program: MediaProgram,
  args: readonly string[],
  run: MediaRun,
  onProgress?: (progress: Progress) => void,
): Promise<Progress> {
  const damage: string[] = []
  const onStderrLine = (line: string) => {
    if (damage.length === 0 && isDamage(line)) damage.push(line)
  }
  const done = await runFfmpeg(program, args, { ...run, onStderrLine }, onProgress)
  if (damage[0] !== undefined) throw new Error(damage[0])
  return done
}

/** Decodes every video and audio frame, and throws at the first damage. */
export async function decodeWhole(
  media: ProbedMedia,
  programs: MediaPrograms,
  run: MediaRun,
  onProgress?: (progress: Progress) => void,
): Promise<Progress> {
  const sound = media.sound.flatMap(({ index }) => ['-map', `0:${index}`])
  const input = [...strictArguments(media), ...readingArguments(media, run.limits)]
  const args = [...THREADS, ...input, '-map', `0:${media.videoIndex}`, ...sound]
  const whole = [...args, '-fps_mode', 'passthrough', '-f', 'null', '-']
  return runStrictly(programs.ffmpeg, whole, run, onProgress)
}

/** A recording that begins between two key frames counts frames that cannot be decoded. */
export const TOLERANCE_MS = 200
export const framesTolerated = (fps: number): number => Math.max(1, Math.floor((fps * TOLERANCE_MS) / 1000))

/**
 * Decodes a source alone, from its first frame to its last. Returns the failure if it is damaged or shorter than its
 * header says, else null. Throws if the machine is at fault.
 */
export async function findDamage(
  media: ProbedMedia,
  programs: MediaPrograms,
  run: MediaRun,
  stage: 'probe' | 'encode',
  cause?: unknown,
): Promise<MediaError | null> {
  const damaged = (detail: string, because: unknown = cause) =>
    new MediaError('SOURCE_CORRUPT', 'The file is damaged or not complete: it cannot be decoded to its end.', {
      ...{ stage, detail },
      cause: because,
    })
  try {
    const { timeMs, frames } = await decodeWhole(media, programs, { ...run, subject: 'source' })
    const isShort =
      media.frames === null ? timeMs < media.durationMs - 500 : frames < media.frames - framesTolerated(media.fps)
    return isShort ? damaged(`It ends after ${Math.round(timeMs)} of ${media.durationMs} ms.`) : null
  } catch (error) {
    const known = machineFailure(error, stage)
    if (known !== null) throw known
    const detail = error instanceof Error ? error.message : String(error)
    return damaged(detail, cause ?? error)
  }
}

/** A request waits for this check. The rest of a long film is checked when its copies are made. */
const CHECK_MS_MAX = 45_000

/** Probes a source and decodes as much of it as the time limit allows. */
export async function checkSource(path: string, options: ProbeOptions = {}): Promise<ProbedMedia> {
  const programs = options.programs ?? (await findPrograms())
  const media = await probeMedia(path, { ...options, programs })
  const limits = { workTimeoutMs: CHECK_MS_MAX, ...options.limits }
  const run: MediaRun = { limits: mediaLimits(limits), signal: options.signal, subject: 'source' }
  try {
    const damage = await findDamage(media, programs, run, 'probe')
    if (damage !== null) throw damage
  } catch (error) {
    if (!(error instanceof MediaError && error.code === 'TIMED_OUT')) throw error
  }
  return media
}
