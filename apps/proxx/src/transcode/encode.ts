import { stat } from 'node:fs/promises'
import { basename } from 'node:path'
import { type MediaRun, type Progress, runFfmpeg } from '@redress/shared/media/ffmpeg'
import type { MediaLimits } from '@redress/shared/media/limits'
import type { MediaPrograms } from '@redress/shared/media/programs'
import { inputArguments } from '@redress/shared/media/sniff'
import type { Attempt } from 'redress'
import type { Code } from '../codes.ts'
import { errnoOf, isThere, isWithin, realPath } from '../paths.ts'
import { type Clip, clipsOf } from '../spec/naming.ts'
import { outputArguments, outputSize, type ResolvedProfile, type Size } from '../spec/profiles.ts'
import type { JobSpec } from '../spec/spec.ts'
import type { Trace } from '../trace.ts'
import { causeOf, factsOf, sourceTrouble, verdictOf } from './failing.ts'
import { DECODER_THREADS, type Inspected, inspectMedia, STRICTLY } from './inspect.ts'

/** The context of a running proxx job. */
export interface Work {
  attempt: Attempt<Code | 'LOG_FAILED'>
  spec: JobSpec
  profile: ResolvedProfile
  programs: MediaPrograms
  run: MediaRun
  trace: Trace
  roots: readonly string[] | null
  /** Of the outputs, where it really is. */
  directory: string
  nowMs(): number
}

/** A clip that ffmpeg says it has made. */
export interface Encoded extends Clip {
  source: string
  size: Size
  /** As many as the encoder said it wrote. */
  frames: number
  of: Inspected
}

/** The current step, for the record of a failure (P26). */
export type ClipStage = 'probe' | 'encode' | 'verify' | 'deliver'

export async function enter(work: Work, clip: Clip, stage: ClipStage): Promise<void> {
  const { attempt, spec } = work
  const of = spec.sources.length
  attempt.context({ clip: clip.number, clips: of, source: clip.source, output: clip.name, clipStage: stage })
  await say(work, `clip ${clip.number} of ${of}, ${stage}: ${clip.source} -> ${clip.name}`)
}

/** P67: a step that cannot be logged is not taken. */
export async function say({ attempt, trace, nowMs }: Work, text: string): Promise<void> {
  try {
    await trace.say(nowMs(), text)
  } catch (error) {
    attempt.fail('LOG_FAILED', { detail: error instanceof Error ? error.message : String(error), cause: error })
  }
}

/** The share of the encode in the work of a clip; the rest is verification. */
export const ENCODE_SHARE = 0.8

/** P46: one clip after another. The first that fails ends it, and the later ones are not begun. */
export async function encodeAll(work: Work): Promise<Encoded[]> {
  const { attempt, spec, profile, directory } = work
  const clips = clipsOf(spec, profile, attempt.jobId, directory)
  const encoded: Encoded[] = []
  for (const clip of clips) {
    const done = (share: number) => attempt.progress(((clip.number - 1 + share) / clips.length) * ENCODE_SHARE)
    encoded.push(await encodeClip(work, clip, done))
  }
  return encoded
}

async function encodeClip(work: Work, clip: Clip, done: (share: number) => void): Promise<Encoded> {
  const { attempt, profile, programs, run, directory } = work
  let { source } = clip
  try {
    await enter(work, clip, 'probe')
    source = await allowedSource(work, clip)
    const of = await inspectMedia(source, programs, { ...run, subject: 'source', stderrFile: undefined })
    await enter(work, clip, 'encode')
    // If its output exists, ffmpeg leaves the file alone and exits with 0.
    for (const path of [clip.target, clip.partial]) {
      if (await isThere(path)) attempt.fail('OUTPUT_EXISTS', { detail: `${path} was made by somebody else meanwhile` })
    }
    const size = outputSize(profile, of)
    const onProgress = ({ timeMs }: Progress) => done(Math.min(1, timeMs / (of.durationMs ?? Number.POSITIVE_INFINITY)))
    const args = [...encodeArguments(of, run.limits, profile, size), clip.partial]
    await say(work, `ffmpeg ${args.join(' ')}`)
    const { frames } = await runFfmpeg(programs.ffmpeg, args, { ...run, subject: 'output' }, onProgress)
    await say(work, `ffmpeg ended with exit code 0 after ${frames} frames`)
    await stat(clip.partial).catch((error: unknown) => {
      if (errnoOf(error) !== 'ENOENT') throw error
      attempt.fail('OUTPUT_MISSING', { detail: `${clip.partial} was not made`, context: { exitCode: 0 } })
    })
    return { ...clip, size, frames, of }
  } catch (error) {
    const verdict = await verdictOf(error, clip.source, directory)
    if (verdict === null) throw error
    const { code, detail } = verdict
    if (code !== 'LOG_FAILED') await say(work, `failed, ${code}: ${detail}`)
    const note = noteOf(clip, code, causeOf(error, [source, clip.source, clip.partial]))
    return attempt.fail(code, { detail, context: factsOf(error), cause: error, note })
  }
}

/** P27: the clip, the file if the source is at fault, and the cause that ffmpeg gave. */
function noteOf({ number, source }: Clip, code: string, cause: string | null): string {
  const which = code.startsWith('INPUT_') ? `Clip ${number} (${basename(source)})` : `Clip ${number}`
  return cause === null ? `${which}.` : `${which}: ${cause}`
}

/** Checked again: a link may have changed since the submission. */
async function allowedSource({ attempt, roots }: Work, clip: Clip): Promise<string> {
  const { source } = clip
  const real = await realPath(source)
  if (real === null) {
    const { code, detail } = (await sourceTrouble(source)) ?? {
      code: 'INPUT_MISSING' as const,
      detail: `${source} is not there`,
    }
    return attempt.fail(code, { detail, note: noteOf(clip, code, null) })
  }
  if (roots === null || (await isWithin(real, roots))) return real
  return attempt.fail('PATH_NOT_ALLOWED', { detail: `${source} leads out of PROXX_ROOTS` })
}

function encodeArguments(source: Inspected, limits: MediaLimits, profile: ResolvedProfile, size: Size): string[] {
  return [
    ...['-v', 'level+info', ...DECODER_THREADS, ...STRICTLY],
    ...inputArguments(source.file, limits),
    ...['-map', `0:${source.videoIndex}`, '-map', '0:a?'],
    ...outputArguments(profile, size),
  ]
}
