import { createHash } from 'node:crypto'
import { link, open, rename, stat, unlink } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import { synced } from '@redress/shared/files'
import { MediaError } from '@redress/shared/media/errors'
import { findPrograms, type MediaPrograms } from '@redress/shared/media/programs'
import type { App, Log } from 'redress'
import { CODES } from '../codes.ts'
import type { JobFiles } from '../job-file.ts'
import { errnoOf, freeBytes, isWithin, realPath } from '../paths.ts'
import { type Alarm, QUEUE, TYPE, transcodePolicy } from '../policy.ts'
import type { Settings } from '../settings.ts'
import { checkSubmission, limitsOf, type Payload, readPayload } from '../spec/checks.ts'
import type { Clip } from '../spec/naming.ts'
import { inOneLine } from '../spec/spec.ts'
import { clipPositionOf, Trace } from '../trace.ts'
import { ENCODE_SHARE, type Encoded, encodeAll, enter, say, type Work } from './encode.ts'
import { causeOf, factsOf, sourceTrouble } from './failing.ts'
import { countFrames, type FrameCount } from './inspect.ts'
import { DirectoryLocked, lockDirectory } from './lock.ts'
import { during, type Fingerprint, jobFingerprint, runScript, VerificationFailed, verifyOutput } from './verify.ts'

/** The result of a complete job. */
export interface TranscodeResult {
  /** Fingerprints are equal for equal versions of it. */
  ffmpeg: string
  profile: string
  fingerprint: string
  outputs: {
    clip: number
    source: string
    path: string
    bytes: number
    width: number
    height: number
    durationMs: number
    frames: number
    fingerprint: Fingerprint
  }[]
}

interface TranscodeOptions {
  settings: Settings
  alarm: Alarm
  files: JobFiles
  log: Log
  nowMs: () => number
}

type OwnAttempt = Work['attempt']

/** The one job type of proxx. */
export function declareTranscode(app: App, options: TranscodeOptions): void {
  const { settings, alarm } = options
  /** The results of `run` that `verify` checks, for as long as the attempt lasts. */
  const made = new WeakMap<object, { work: Work; encoded: Encoded[] }>()
  app.job(TYPE, {
    queue: QUEUE,
    codes: CODES,
    policy: transcodePolicy(alarm),
    admit: async (payload: Payload, submission) => {
      const { problems } = await checkSubmission(payload, submission.owner, settings)
      const [first] = problems
      if (first === undefined) return
      const lines = problems.map(inOneLine)
      const more = problems.length === 1 ? '' : ` (and ${problems.length - 1} more)`
      const note = `${first.path === '' ? '' : `${first.path}: `}${first.message}${more}`
      submission.fail(first.code, { detail: lines.join('\n'), note, context: { problems } })
    },
    limitKey: async (payload) => {
      const directory = readPayload(payload).spec?.output.directory
      if (directory === undefined) return undefined
      return createHash('sha256')
        .update((await realPath(directory)) ?? directory)
        .digest('hex')
    },
    queuedAs: 'pending',
    // P26: a person who marks an orphan as failed need not know where it stood.
    lastSeen: async (payload, { id, progress }) => {
      const standing = await clipPositionOf(settings.jobs, { id, progress, spec: payload.spec })
      return standing === null ? {} : { clip: standing.clip, clips: standing.of, clipStage: standing.stage }
    },
    acquire: (payload, attempt) => acquire(app, payload, attempt as OwnAttempt, options),
    async run(payload, attempt) {
      const work = await workOf(payload, attempt as OwnAttempt, options)
      const result = { ffmpeg: work.programs.ffmpeg.version, profile: '', fingerprint: '', outputs: [] }
      made.set(result, { work, encoded: await encodeAll(work) })
      return result as TranscodeResult
    },
    // It fills in what `run` left open: of outputs that are not verified there is nothing to say (P45).
    async verify(result) {
      const { work, encoded } = made.get(result) as { work: Work; encoded: Encoded[] }
      Object.assign(result, await verifyAndDeliver(work, encoded, settings))
    },
  })
}

/** P11, P12, P64: the resources that a worker needs before it starts. A missing one is a dispatch failure. */
async function acquire(
  app: App,
  payload: Payload,
  attempt: OwnAttempt,
  { settings, files, log, nowMs }: TranscodeOptions,
) {
  const { spec, problems } = readPayload(payload)
  if (spec === null) return attempt.fail(problems[0]?.code ?? 'SPEC_INVALID', { detail: problems[0]?.message })
  await programsFor(attempt)
  const { directory } = spec.output
  const real = await realPath(directory)
  if (real === null) return attempt.fail('DISPATCH_NO_RESOURCES', { detail: `${directory} is not there` })
  await refuseOutside(real, attempt, settings)
  const free = await freeBytes(real)
  if (free < settings.freeBytesMin) {
    const detail = `${directory} has ${free} bytes free; ${settings.freeBytesMin} are to be kept (PROXX_FREE_MB)`
    return attempt.fail('DISPATCH_NO_RESOURCES', { detail })
  }
  const isOver = async (id: string) => {
    const job = await app.jobs.find(id)
    return job !== null && job.finishedAt !== null
  }
  try {
    const release = await lockDirectory(real, attempt.jobId, { log, nowMs: nowMs(), isOver })
    try {
      await files.write(attempt.jobId)
      return release
    } catch (error) {
      // The caller does not get the lock, so it cannot release it.
      await release()
      throw error
    }
  } catch (error) {
    if (error instanceof DirectoryLocked) {
      return attempt.fail('DISPATCH_LOCKED', { detail: error.message, context: { holder: error.holder }, cause: error })
    }
    if (!/^E[A-Z0-9]+$/.test(errnoOf(error))) throw error
    return attempt.fail('DISPATCH_NO_RESOURCES', { detail: (error as Error).message, cause: error })
  }
}

async function refuseOutside(directory: string, attempt: OwnAttempt, { roots }: Settings): Promise<void> {
  if (roots === null || (await isWithin(directory, roots))) return
  attempt.fail('PATH_NOT_ALLOWED', { detail: `${directory} is not within PROXX_ROOTS` })
}

async function programsFor(attempt: OwnAttempt): Promise<MediaPrograms> {
  try {
    return await findPrograms()
  } catch (error) {
    if (error instanceof MediaError) attempt.fail('PROGRAM_MISSING', { detail: error.detail, cause: error })
    throw error
  }
}

async function workOf(payload: Payload, attempt: OwnAttempt, { settings, nowMs }: TranscodeOptions): Promise<Work> {
  const { spec, profile, problems } = readPayload(payload)
  if (spec === null) return attempt.fail(problems[0]?.code ?? 'SPEC_INVALID', { detail: problems[0]?.message })
  const trace = new Trace(settings.jobs, attempt.jobId)
  attempt.context({ stderrLog: trace.path })
  const run = {
    limits: limitsOf(settings, spec),
    signal: attempt.signal,
    subject: 'output' as const,
    stderrFile: trace.path,
    keepsExisting: true,
  }
  const { directory: named } = spec.output
  const directory = (await realPath(named)) ?? attempt.fail('OUTPUT_NOT_WRITABLE', { detail: `${named} is not there` })
  await refuseOutside(directory, attempt, settings)
  const programs = await programsFor(attempt)
  return { attempt, spec, profile, programs, run, trace, roots: settings.roots, directory, nowMs }
}

/** P31-P34, P47: every output is verified before the first gets its name. */
async function verifyAndDeliver(work: Work, encoded: Encoded[], settings: Settings): Promise<TranscodeResult> {
  const { attempt, spec, profile, programs, run } = work
  const outputs: TranscodeResult['outputs'] = []
  for (const clip of encoded) {
    await enter(work, clip, 'verify')
    const { size, frames, of } = clip
    const verified = await judged(work, async () => {
      const ofSource = await countedFrames(work, clip)
      const { lengths, fps, audio } = of
      const expected = { profile, size, lengths, ...ofSource, frames, fps, audioTracks: audio.length }
      const facts = await verifyOutput(clip.partial, expected, { programs, run })
      const script = spec.verify?.script
      if (script === undefined) return facts
      if (settings.scripts === null) throw new VerificationFailed('script', 'PROXX_SCRIPTS is not set.')
      const env = { PROXX_JOB: attempt.jobId, PROXX_PROFILE: profile.name, PROXX_CLIP: String(clip.number) }
      const call = { folder: settings.scripts, script, output: clip.partial, source: clip.source, env }
      await runScript(call, run)
      return facts
    })
    outputs.push({ clip: clip.number, source: clip.source, path: clip.target, ...size, ...verified })
    attempt.progress(ENCODE_SHARE + (clip.number / encoded.length) * (1 - ENCODE_SHARE))
  }
  await judged(work, async () => {
    try {
      await deliverAll(encoded, (clip) => enter(work, clip as Encoded, 'deliver'))
    } catch (error) {
      if (!/^E[A-Z0-9]+$/.test(errnoOf(error))) throw error
      throw new VerificationFailed('delivery', (error as Error).message, error)
    }
  })
  return {
    ffmpeg: programs.ffmpeg.version,
    profile: `${profile.name}@${profile.version}`,
    fingerprint: jobFingerprint(outputs.map(({ fingerprint }) => fingerprint)),
    outputs,
  }
}

/**
 * P30: the frame count for the comparison. If the source is gone by now, the failure says that it cannot be counted.
 */
async function countedFrames({ attempt, programs, run }: Work, clip: Encoded): Promise<FrameCount> {
  try {
    return await during('frames', () => countFrames(clip.of, clip.frames, programs, { ...run, subject: 'source' }))
  } catch (error) {
    const gone = error instanceof VerificationFailed ? await sourceTrouble(clip.of.file.path) : null
    if (gone === null) throw error
    const note = `Clip ${clip.number} (${basename(clip.source)}): its frames could not be counted.`
    return attempt.fail(gone.code, { detail: gone.detail, context: { check: 'frames' }, cause: error, note })
  }
}

async function judged<T>(work: Work, judge: () => Promise<T>): Promise<T> {
  try {
    return await judge()
  } catch (error) {
    if (!(error instanceof VerificationFailed)) throw error
    const { check, code, message, cause } = error
    await say(work, `failed, verification_failed (${check}): ${message}`)
    const context = { check, ...factsOf(cause) }
    const said = causeOf(cause, [])
    const note = said === null ? `Check: ${check}.` : `Check: ${check}. ${said}`
    return work.attempt.fail(code, { detail: message, context, cause: error, note })
  }
}

/** File systems without hard links: those of memory cards, and of some servers. */
const NO_LINKS = ['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK']

/**
 * Gives all outputs of a job their names, or none of them. An existing file is never overwritten, even if it appears
 * during the delivery: a hard link, unlike a rename, cannot replace a file.
 */
export async function deliverAll(clips: readonly Clip[], before: (clip: Clip) => Promise<void>): Promise<void> {
  const undo: { target: string; take(): Promise<void> }[] = []
  const linked: string[] = []
  try {
    for (const clip of clips) {
      await before(clip)
      await synced(clip.partial)
      const { partial, target } = clip
      if (await nameOne(clip)) {
        linked.push(partial)
        undo.push({ target, take: () => unlink(target) })
      } else undo.push({ target, take: () => rename(target, partial) })
    }
  } catch (error) {
    // Half a delivery would look complete. All outputs are renamed back, or the error names those that could not be.
    const left: string[] = []
    for (const { target, take } of undo) {
      await take().catch((why: unknown) => left.push(`${target} could not be taken back (${errnoOf(why)})`))
    }
    if (error instanceof Error) error.message = [error.message, ...left].join('; ')
    throw error
  }
  for (const partial of linked) await unlink(partial)
  for (const folder of new Set(clips.map(({ target }) => dirname(target)))) await synced(folder)
}

/** False when the part was moved, and not linked. */
async function nameOne({ partial, target }: Clip): Promise<boolean> {
  try {
    await link(partial, target)
    return true
  } catch (error) {
    if (!NO_LINKS.includes(errnoOf(error))) throw error
  }
  // Only this process knows the empty file, so the move replaces nothing of anyone else.
  await (await open(target, 'wx')).close()
  if ((await stat(target)).size !== 0)
    throw new Error(`${target} was written by another program; proxx does not overwrite it`)
  await rename(partial, target)
  return false
}
