import { findPrograms } from '@redress/shared/media/programs'
import { type App, type Log, RedressError } from 'redress'
import type { Caller } from 'redress/http'
import { isInScope } from './access.ts'
import type { JobFiles } from './job-file.ts'
import { TYPE } from './policy.ts'
import type { Settings } from './settings.ts'
import { checkSubmission, limitsOf, payloadOf, type Report } from './spec/checks.ts'
import { profileOf } from './spec/profiles.ts'
import { VerificationFailed, verifyOutput } from './transcode/verify.ts'
import type { ProxxJob } from './view.ts'

/** The app with its settings and files, for routes, the command line and the watch folder. */
export interface Proxx {
  app: App
  settings: Settings
  files: JobFiles
  log: Log
}

/** A signed-in caller, or the name of a person with direct access to the store. */
export type By = { caller: Caller } | { actor: string }

export interface Submitted {
  job: ProxxJob
  /** False when a job of this id was there already. */
  isNew: boolean
}

/** Both as JSON has them. */
export const isSameSpec = (one: unknown, other: unknown): boolean => JSON.stringify(one) === JSON.stringify(other)

/**
 * Submits a spec. A refused spec becomes a failed job (P5): check `job.status`. With an id of your own, submitting
 * twice makes one job.
 */
export async function submitSpec(
  proxx: Proxx,
  spec: unknown,
  by: By,
  options: { id?: string } = {},
): Promise<Submitted> {
  const input = { type: TYPE, input: payloadOf(spec), ...options }
  const owner = 'caller' in by ? submittingOwner(by.caller) : null
  // An existing job is not checked again: its own outputs would count as conflicts.
  const known = options.id === undefined ? null : await proxx.files.view(options.id)
  if (known !== null) return { job: known, isNew: false }
  const answer =
    owner === null
      ? await perform(proxx, 'jobs.submit', input, by)
      : await perform(proxx, 'jobs.submit', { ...input, owner }, { actor: owner })
  return { job: await mirrored(proxx, answer.job.id), isNew: answer.isDone }
}

/**
 * The account that an owner submits for; null for other roles. The engine lets owners submit nothing by default.
 * proxx lets them submit files within the roots, and nothing if there are no roots.
 */
export function submittingOwner(caller: Caller): string | null {
  const { role, account, name } = caller
  if (role !== 'owner') return null
  if (account !== null && isInScope(caller, 'jobs.submit')) return account
  throw new RedressError('ROLE_TOO_LOW', `jobs.submit is not in the scopes of ${name}.`)
}

/** Checks a submission. Records nothing. */
export function validateSpec({ settings }: Proxx, spec: unknown, owner: string | null = null): Promise<Report> {
  return checkSubmission(payloadOf(spec), owner, settings)
}

type Retry = By & { reason: string; spec?: unknown; again?: boolean }

/**
 * P41, P44: a new job made from a failed one, with its spec or with another. The spec that is kept keeps the version of
 * its profile, too. The failed job and its logs stay as they are.
 */
export const retryJob = async (proxx: Proxx, id: string, retry: Retry): Promise<ProxxJob> =>
  (await retryOnce(proxx, id, retry)).job

/** With an id of your own for the new job, retrying twice makes one. */
export async function retryOnce(
  proxx: Proxx,
  id: string,
  { reason, spec, newId, again = false, ...by }: Retry & { newId?: string | undefined },
): Promise<Submitted> {
  await ours(proxx, id)
  const edited = spec === undefined ? {} : { input: payloadOf(spec) }
  const own = newId === undefined ? {} : { newId }
  const { job, isDone } = await perform(proxx, 'jobs.retry', { id, reason, again, ...edited, ...own }, by)
  return { job: await mirrored(proxx, job.id), isNew: isDone }
}

/** P56: a person's word, with their name and their reason. */
export async function markFailed(
  proxx: Proxx,
  id: string,
  { reason, ...by }: By & { reason: string },
): Promise<ProxxJob> {
  await ours(proxx, id)
  await perform(proxx, 'jobs.mark-failed', { id, reason }, by)
  return mirrored(proxx, id)
}

/** P54: jobs whose worker is silent. */
export async function listOrphans({ app, files }: Proxx): Promise<ProxxJob[]> {
  const { jobs } = await app.perform('orphans.list', { type: TYPE, limit: 1_000 })
  const views = await Promise.all(jobs.map(({ id }) => files.view(id)))
  return views.filter((view) => view !== null)
}

export interface OutputVerdict {
  clip: number
  path: string
  isGood: boolean
  /** Which check it failed, and how. */
  check: string | null
  message: string
}

/**
 * Looks again at what a complete job delivered: the same checks, and the fingerprint against the one that was kept. With
 * another version of ffmpeg the streams are still the same: they are hashed, and not made again.
 */
export async function verifyOutputs({ files, settings }: Proxx, id: string): Promise<OutputVerdict[]> {
  const job = await files.view(id)
  if (job === null) throw unknown(id)
  if (job.status !== 'complete') {
    throw new RedressError(
      'JOB_WRONG_STATE',
      `Job ${id} is ${job.status}: only a complete one has outputs to verify.`,
      {
        jobId: id,
      },
    )
  }
  const profile = profileOf(job.profile ?? {})
  if (profile === null) throw unknown(id)
  const programs = await findPrograms()
  const run = { limits: limitsOf(settings), subject: 'output' as const }
  const verdicts: OutputVerdict[] = []
  for (const { clip, path, frames, durationMs, width, height, fingerprint } of job.outputs) {
    const verdict = { clip, path }
    try {
      const size = { width, height }
      const fps = (frames * 1000) / durationMs
      const audioTracks = fingerprint.streams.length - 1
      const lengths = [{ of: 'pictures' as const, ms: durationMs }]
      const expected = { profile, size, lengths, sourceFrames: null, frames, fps, audioTracks }
      const now = await verifyOutput(path, expected, { programs, run })
      if (now.fingerprint.sha256 !== fingerprint.sha256) {
        throw new VerificationFailed('fingerprint', 'Its streams are not those that were delivered.')
      }
      verdicts.push({ ...verdict, isGood: true, check: null, message: 'as it was delivered' })
    } catch (error) {
      const check = error instanceof VerificationFailed ? error.check : 'exists'
      verdicts.push({
        ...verdict,
        isGood: false,
        check,
        message: error instanceof Error ? error.message : String(error),
      })
    }
  }
  return verdicts
}

type Acts = 'jobs.submit' | 'jobs.retry' | 'jobs.mark-failed'

async function perform({ app }: Proxx, name: Acts, input: Record<string, unknown>, by: By) {
  const answer =
    'caller' in by ? await app.performAs(by.caller, name, input) : await app.perform(name, { ...input, ...by } as never)
  return answer as { isDone: boolean; job: { id: string } }
}

async function ours({ files }: Proxx, id: string): Promise<void> {
  if ((await files.view(id)) === null) throw unknown(id)
}

const unknown = (id: string): RedressError => new RedressError('JOB_NOT_FOUND', `There is no job ${id} of proxx.`)

/** The file is written before the caller is answered. */
async function mirrored({ files }: Proxx, id: string): Promise<ProxxJob> {
  await files.write(id)
  const view = await files.view(id)
  if (view === null) throw unknown(id)
  return view
}
