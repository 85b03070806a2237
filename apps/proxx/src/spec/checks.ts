import { constants } from 'node:fs'
import { access, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { MediaError } from '@redress/shared/media/errors'
import { type MediaLimits, mediaLimits } from '@redress/shared/media/limits'
import { findPrograms, type MediaPrograms } from '@redress/shared/media/programs'
import { ProgramFailed } from 'redress/programs'
import { errnoOf, freeBytes, isAllowed, isThere, notWritable, realPath } from '../paths.ts'
import type { Settings } from '../settings.ts'
import { type Inspected, inspectMedia } from '../transcode/inspect.ts'
import { nameProblems, namingProblem, outputNames } from './naming.ts'
import { knownProfile, outputSize, PROFILES, type ResolvedProfile } from './profiles.ts'
import { type JobSpec, type Problem, readSpec, soundParts } from './spec.ts'

/** The payload of a job: the requested spec, and the profile as it was at submission. */
export interface Payload {
  spec: unknown
  profile: unknown
}

/** The profile is part of the job from its submission on: a later release may have another of that name. */
export function payloadOf(spec: unknown): Payload {
  const { profile } = (typeof spec === 'object' && spec !== null ? spec : {}) as { profile?: unknown }
  return { spec, profile: (typeof profile === 'string' && PROFILES.get(profile)) || null }
}

/** A valid payload, or its problems. */
export function readPayload(
  payload: Partial<Payload> | null,
): { spec: JobSpec; profile: ResolvedProfile; problems: [] } | { spec: null; profile: null; problems: Problem[] } {
  const { spec, problems } = readSpec(payload?.spec)
  const name = spec?.profile ?? soundParts(payload?.spec).profile
  const profile = knownProfile(payload?.profile)
  if (spec !== null && profile !== null && profile.name === name) return { spec, profile, problems: [] }
  if (name === null || profile?.name === name) return { spec: null, profile: null, problems }
  const message = PROFILES.has(name)
    ? 'the profile that was stored with the spec is none of ours: submit it as a job of proxx, which resolves it'
    : `there is no profile ${name}; there are ${[...PROFILES.keys()].join(', ')}`
  return { spec: null, profile: null, problems: [...problems, { code: 'PROFILE_UNKNOWN', path: 'profile', message }] }
}

export interface Report {
  problems: Problem[]
  /** The names of the outputs, where they are known. */
  outputs: string[]
  estimateBytes: number | null
  freeBytes: number | null
}

export const limitsOf = ({ memoryBytes, clipMs }: Settings, spec?: JobSpec): MediaLimits =>
  mediaLimits({
    memoryBytes,
    workTimeoutMs: Math.min(clipMs, (spec?.limits?.clipMinutes ?? Number.POSITIVE_INFINITY) * 60_000),
    durationMsMax: Number.POSITIVE_INFINITY,
    sourceBytesMax: Number.MAX_SAFE_INTEGER,
    outputBytesMax: 2 ** 42,
  })

/** How many files are checked at once: a submission must not slow running jobs. */
const LOOKS_AT_ONCE = 4

/**
 * P3: checks everything that can be known before the dispatch. Writes nothing. Reports all problems at once; the
 * first one names the failure.
 */
export async function checkSubmission(payload: Payload, owner: string | null, settings: Settings): Promise<Report> {
  const report: Report = { problems: [], outputs: [], estimateBytes: null, freeBytes: null }
  const add = (code: Problem['code'], path: string, message: string) => report.problems.push({ code, path, message })
  const read = readPayload(payload)
  report.problems.push(...read.problems)
  // Each valid part is checked, even if other parts are invalid. Invalid parts are skipped.
  const { sources, directory, script, naming, profile: profileName } = soundParts(payload.spec)
  const profile = read.profile ?? PROFILES.get(profileName ?? '') ?? null
  const named = sources.filter((source) => source !== null)
  const areNamed = naming !== null && namingProblem(naming, sources.length) === null && named.length === sources.length
  if (areNamed && profile !== null) report.outputs = outputNames(naming, named, profile)
  const wrongNames = nameProblems(report.outputs)
  for (const { at, message } of wrongNames) add('SPEC_INVALID', `sources.${at}`, message)
  if (script !== null) {
    const why = await scriptProblem(script, settings)
    if (why !== null) add('SPEC_INVALID', 'verify.script', why)
  }
  if (settings.roots === null && owner !== null) {
    add('PATH_NOT_ALLOWED', 'sources', 'without PROXX_ROOTS, only operators submit jobs')
    return report
  }

  let programs: MediaPrograms | null = null
  try {
    programs = await findPrograms()
  } catch (error) {
    if (!(error instanceof MediaError)) throw error
    add('PROGRAM_MISSING', '', `${error.message} ${error.detail}`)
  }
  const looks = await eachOf(sources, async (source) =>
    source === null ? { inspected: null } : lookAtSource(source, settings, programs),
  )
  for (const [at, look] of looks.entries()) if ('code' in look) add(look.code, `sources.${at}`, look.message)
  if (directory === null) return report

  const real = await realPath(directory)
  const why = real === null ? 'is not there' : await notWritable(real)
  if (!(await isAllowed(directory, settings.roots))) {
    add('PATH_NOT_ALLOWED', 'output.directory', `${directory} is not within PROXX_ROOTS`)
  } else if (real === null || why !== null) {
    add('OUTPUT_NOT_WRITABLE', 'output.directory', `${directory} ${why}`)
  } else {
    for (const [at, name] of wrongNames.length === 0 ? report.outputs.entries() : []) {
      if (await isThere(join(real, name)))
        add('OUTPUT_EXISTS', `sources.${at}`, `${join(directory, name)} exists already`)
    }
    report.freeBytes = await freeBytes(real)
    const seen = looks.flatMap((look) => ('inspected' in look && look.inspected !== null ? [look.inspected] : []))
    if (profile !== null && seen.length > 0 && seen.length === sources.length) {
      report.estimateBytes = seen.reduce((sum, one) => sum + estimateBytes(one, profile), 0)
      const needed = report.estimateBytes + settings.freeBytesMin
      if (report.freeBytes < needed) {
        const message = `about ${needed} bytes are needed and ${report.freeBytes} are free`
        add('DISK_INSUFFICIENT', 'output.directory', message)
      }
    } else if (report.freeBytes < settings.freeBytesMin) {
      const message = `${settings.freeBytesMin} bytes are to be kept free (PROXX_FREE_MB), and ${report.freeBytes} are`
      add('DISK_INSUFFICIENT', 'output.directory', message)
    }
  }
  return report
}

type Look = { inspected: Inspected | null } | { code: Problem['code']; message: string }

async function lookAtSource(source: string, settings: Settings, programs: MediaPrograms | null): Promise<Look> {
  if (!(await isAllowed(source, settings.roots))) {
    return { code: 'PATH_NOT_ALLOWED', message: `${source} is not within PROXX_ROOTS` }
  }
  const real = await realPath(source)
  if (real === null) return { code: 'INPUT_MISSING', message: `${source} is not there` }
  try {
    await access(real, constants.R_OK)
    if (!(await stat(real)).isFile()) return { code: 'INPUT_UNREADABLE', message: `${source} is no regular file` }
    if (programs === null) return { inspected: null }
    return { inspected: await inspectMedia(real, programs, { limits: limitsOf(settings), subject: 'source' }) }
  } catch (error) {
    const isKnown = error instanceof MediaError || error instanceof ProgramFailed
    const errno = errnoOf(error)
    if (!isKnown && !/^E[A-Z0-9]+$/.test(errno)) throw error
    if (errno === 'ENOENT' || errno === 'SOURCE_MISSING')
      return { code: 'INPUT_MISSING', message: `${source} is not there` }
    return { code: 'INPUT_UNREADABLE', message: `${source}: ${(error as Error).message}` }
  }
}

async function scriptProblem(script: string, { scripts }: Settings): Promise<string | null> {
  if (scripts === null) return 'no scripts may be run: PROXX_SCRIPTS is not set'
  try {
    const path = join(scripts, script)
    await access(path, constants.X_OK)
    return (await stat(path)).isFile() ? null : 'is no program'
  } catch (error) {
    return `there is no program ${script} in the folder of scripts (${errnoOf(error)})`
  }
}

const AUDIO_SAMPLE_BYTES = 3
const CONTAINER_BYTES = 2 ** 20

/** More than the output is likely to have. Of a video that does not say how long it is, its head alone. */
function estimateBytes(source: Inspected, profile: ResolvedProfile): number {
  const { width, height } = outputSize(profile, source)
  const seconds = (source.durationMs ?? 0) / 1000
  const video = (width * height * source.fps * profile.bitsPerPixel * seconds) / 8
  const audio = source.audio.reduce((sum, one) => sum + one.channels * one.sampleRate * AUDIO_SAMPLE_BYTES * seconds, 0)
  return Math.ceil(video + audio) + CONTAINER_BYTES
}

async function eachOf<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  for (let from = 0; from < items.length; from += LOOKS_AT_ONCE) {
    results.push(...(await Promise.all(items.slice(from, from + LOOKS_AT_ONCE).map(work))))
  }
  return results
}
