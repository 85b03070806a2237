import { createHash } from 'node:crypto'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { MediaError } from '@redress/shared/media/errors'
import { type MediaRun, runFfmpeg } from '@redress/shared/media/ffmpeg'
import type { MediaPrograms } from '@redress/shared/media/programs'
import { inputArguments } from '@redress/shared/media/sniff'
import { ProgramFailed, runProgram } from 'redress/programs'
import { type Check, type Code, codeOfCheck } from '../codes.ts'
import { errnoOf } from '../paths.ts'
import type { Profile, Size } from '../spec/profiles.ts'
import { endOf, type Verdict } from './failing.ts'
import { DECODER_THREADS, type Inspected, inspectMedia, type Length, STRICTLY } from './inspect.ts'

/** The expected properties of an output. */
export interface Expected {
  profile: Profile
  size: Size
  /** The possible lengths of the source; none if its header has none. */
  lengths: readonly Length[]
  /** The frame count of the source; null if there is none to compare with. */
  sourceFrames: number | null
  /** The frame count in the header of the source, if it has one. */
  saidFrames?: number | null
  /** As the encoder said. */
  frames: number
  fps: number
  audioTracks: number
}

/** A property of the output, not of its making: the same input, spec and ffmpeg give the same value (P45). */
export interface Fingerprint {
  /** Of all streams together. */
  sha256: string
  /** Each as ffmpeg's stream hash has it: '0,v,SHA256=...'. */
  streams: string[]
}

export interface Verified {
  bytes: number
  durationMs: number
  frames: number
  fingerprint: Fingerprint
}

/** P30, P34: the output was made, and this check failed it. */
export class VerificationFailed extends Error {
  override readonly name = 'VerificationFailed'
  readonly check: Check

  constructor(check: Check, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.check = check
  }

  get code(): Code | 'LOG_FAILED' {
    return codeOfEnd(this.cause) ?? codeOfCheck(this.check)
  }
}

/**
 * A check that could not be made does not mean that the output is bad: its program was killed, timed out, is missing,
 * or could not keep its log. Null if the check was made and failed.
 */
function codeOfEnd(cause: unknown): Code | 'LOG_FAILED' | null {
  const program = cause instanceof MediaError ? cause.cause : cause
  if (!(program instanceof ProgramFailed)) return ['ENOSPC', 'EDQUOT'].includes(errnoOf(cause)) ? 'DISK_FULL' : null
  const end = endOf(program)
  return end === null ? null : (VERIFYING[end] ?? end)
}

const VERIFYING: Partial<Record<Verdict['code'], Code>> = {
  FFMPEG_TIMEOUT: 'VERIFY_TIMEOUT',
  FFMPEG_CRASHED: 'VERIFY_KILLED',
  FFMPEG_KILLED: 'VERIFY_KILLED',
}

interface Verifying {
  programs: MediaPrograms
  run: MediaRun
}

/**
 * P62: the checks of one output, in their fixed order. A good exit code of ffmpeg is not enough: a stopped ffmpeg
 * leaves a playable, shorter file.
 */
export async function verifyOutput(path: string, expected: Expected, verifying: Verifying): Promise<Verified> {
  const bytes = await checkThere(path)
  const output = await during('decode', () =>
    inspectMedia(path, verifying.programs, { ...verifying.run, subject: 'output' }),
  )
  checkHead(output, expected)
  const durationMs = checkDuration(output, expected)
  checkFrames(output, expected)
  const { frames, streams } = await during('decode', () => decodeWhole(output, verifying))
  if (frames !== expected.frames) {
    throw new VerificationFailed('frames', `${frames} of ${expected.frames} frames could be decoded.`)
  }
  return { bytes, durationMs, frames, fingerprint: fingerprintOf(streams, 1 + expected.audioTracks) }
}

async function checkThere(path: string): Promise<number> {
  const found = await stat(path).catch((error: unknown) => {
    if (['ENOENT', 'ENOTDIR'].includes(errnoOf(error)))
      throw new VerificationFailed('exists', 'It is not there.', error)
    throw new VerificationFailed('exists', `It cannot be looked at (${errnoOf(error)}).`, error)
  })
  if (!found.isFile()) throw new VerificationFailed('exists', 'It is no regular file.')
  if (found.size === 0) throw new VerificationFailed('size', 'It has zero bytes.')
  return found.size
}

function checkHead({ codec, profile, pixelFormat, width, height, audio }: Inspected, expected: Expected): void {
  const { video, audioCodec } = expected.profile
  if (codec !== video.codec) throw new VerificationFailed('codec', `The video is ${codec}, not ${video.codec}.`)
  const wrong = audio.find((track) => track.codec !== audioCodec)
  if (wrong !== undefined) throw new VerificationFailed('codec', `A sound track is ${wrong.codec}, not ${audioCodec}.`)
  const facts: [what: string, is: unknown, should: unknown][] = [
    ['profile', profile, video.profile],
    ['pixel format', pixelFormat, video.pixelFormat],
    ['size', `${width} x ${height}`, `${expected.size.width} x ${expected.size.height}`],
    ['number of sound tracks', audio.length, expected.audioTracks],
  ]
  const off = facts.find(([, is, should]) => is !== should)
  if (off !== undefined) throw new VerificationFailed('profile', `Its ${off[0]} is ${off[1]}, not ${off[2]}.`)
}

const TOLERANCE_MS = 100
const TOLERANCE_FRAMES = 2

function checkDuration(output: Inspected, { lengths, fps }: Expected): number {
  if (output.durationMs === null) throw new VerificationFailed('duration', 'It does not say how long it is.')
  const toleratedMs = Math.max(TOLERANCE_MS, (TOLERANCE_FRAMES * 1000) / fps)
  const lasts = lastsOf(output)
  const [first] = lengths
  if (first !== undefined && !lengths.some(({ of, ms }) => Math.abs(lasts[of] - ms) <= toleratedMs)) {
    throw new VerificationFailed('duration', `It takes ${lasts[first.of]} ms, and its source ${first.ms} ms.`)
  }
  return output.durationMs
}

const lastsOf = ({ durationMs, fileMs }: Inspected): Record<Length['of'], number> => ({
  pictures: durationMs ?? 0,
  file: fileMs ?? durationMs ?? 0,
})

/**
 * The output must have as many frames as the source decodes to. A larger count in the header is wrong if the pictures
 * last as long as the header says. If they end earlier, the file was cut.
 */
function checkFrames(output: Inspected, { frames, sourceFrames, saidFrames = null, lengths, fps }: Expected): void {
  if (sourceFrames === null) return
  const lasts = lastsOf(output)
  const endsEarly = () => lengths.every(({ of, ms }) => ms - lasts[of] >= HALF_MS / fps)
  const should = saidFrames !== null && saidFrames > frames && endsEarly() ? saidFrames : sourceFrames
  if (frames !== should) throw new VerificationFailed('frames', `It has ${frames} frames, and its source ${should}.`)
}

const HALF_MS = 500

/** Reads every frame of picture and sound, stops at the first that is damaged, and takes the hash of what it reads. */
async function decodeWhole(
  output: Inspected,
  { programs, run }: Verifying,
): Promise<{ frames: number; streams: string[] }> {
  const streams: string[] = []
  const all = ['-map', `0:${output.videoIndex}`, '-map', '0:a?']
  const args = [
    ...['-v', 'level+info', ...DECODER_THREADS, ...STRICTLY],
    ...inputArguments(output.file, run.limits),
    ...[...all, '-c', 'copy', '-f', 'streamhash', '-hash', 'sha256', 'pipe:1'],
    ...[...all, '-fps_mode', 'passthrough', '-f', 'null', '-'],
  ]
  const onLine = (line: string) => {
    if (/^\d+,[a-z],SHA256=[0-9a-f]{64}$/.test(line)) streams.push(line)
  }
  const { frames } = await runFfmpeg(programs.ffmpeg, args, { ...run, subject: 'output', onLine })
  return { frames, streams }
}

function fingerprintOf(streams: readonly string[], count: number): Fingerprint {
  if (streams.length !== count) {
    throw new VerificationFailed('fingerprint', `${streams.length} of ${count} streams have a hash.`)
  }
  const sha256 = createHash('sha256').update(streams.join('\n')).digest('hex')
  return { sha256, streams: [...streams] }
}

/** Of a whole job: its outputs in their order. */
export const jobFingerprint = (outputs: readonly Fingerprint[]): string =>
  createHash('sha256')
    .update(outputs.map(({ sha256 }) => sha256).join('\n'))
    .digest('hex')

export interface ScriptCall {
  folder: string
  script: string
  output: string
  source: string
  env: Readonly<Record<string, string>>
}

/** The job's own judge: exit code 0 is a yes. */
export async function runScript({ folder, script, output, source, env }: ScriptCall, run: MediaRun): Promise<void> {
  await during('script', () =>
    runProgram({
      program: join(folder, script),
      args: [output, source],
      env,
      signal: run.signal,
      timeoutMs: run.limits.workTimeoutMs,
      stderrFile: run.stderrFile,
      subject: 'script',
    }),
  )
}

/** Whatever keeps a check from being made fails it; only the end of the attempt itself stays what it is. */
export async function during<T>(check: Check, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof ProgramFailed && error.reason === 'aborted') throw error
    throw new VerificationFailed(check, error instanceof Error ? error.message : String(error), error)
  }
}
