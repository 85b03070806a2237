import type { FailureView, JobView } from 'redress'
import { z } from 'zod'
import { ERROR_TYPE_OF_STAGE } from './codes.ts'
import type { Payload } from './spec/checks.ts'
import type { TranscodeResult } from './transcode/transcode-job.ts'

/** P51: the four states, in the words of the requirement. */
const statuses = ['pending', 'processing', 'complete', 'failed'] as const
type ProxxStatus = (typeof statuses)[number]

/** P6, P27, P34: the failure, as the `error` field of the job. */
const proxxError = z.object({
  type: z.enum(Object.values(ERROR_TYPE_OF_STAGE)),
  class: z.enum(['pre_dispatch', 'dispatch', 'execution', 'verification']),
  owner: z.enum(['submission', 'coordination', 'worker']).describe('the layer that accounts for it'),
  code: z.string(),
  message: z.string(),
  at: z.string(),
  worker: z.string().nullable(),
  transition: z.object({ from: z.enum(statuses), to: z.literal('failed') }),
  clip: z.number().nullable(),
  stage: z.string().nullable(),
  check: z.string().nullable().describe('the check that failed, of a verification'),
  exitCode: z.number().nullable(),
  signal: z.string().nullable(),
  stderrTail: z.string().nullable(),
  detail: z.string(),
  problems: z.array(z.unknown()),
})
export type ProxxError = z.infer<typeof proxxError>

const output = z.object({
  clip: z.number(),
  source: z.string(),
  path: z.string(),
  bytes: z.number(),
  width: z.number(),
  height: z.number(),
  durationMs: z.number(),
  frames: z.number(),
  fingerprint: z.object({ sha256: z.string(), streams: z.array(z.string()) }),
})

/** A job of proxx, in its file and over HTTP. */
/** The pages and routes of proxx offer these; the others are on the dashboard. */
const ACTIONS = ['retry', 'mark-failed', 'cancel'] as const

export const proxxJob = z.object({
  id: z.string(),
  status: z.enum(statuses),
  executionAttempted: z.boolean().describe('whether anything was ever run for it (P9)'),
  owner: z.string().nullable(),
  createdAt: z.string(),
  startedAt: z.string().nullable(),
  finishedAt: z.string().nullable(),
  worker: z.string().nullable(),
  orphanedAt: z.string().nullable().describe('its worker is silent since then, and a person has to decide (P53)'),
  retriedFrom: z.string().nullable(),
  retriedAs: z.string().nullable().describe('the newest job that was made from this one'),
  progress: z.number(),
  spec: z.unknown(),
  profile: z.object({ name: z.string(), version: z.number(), sha256: z.string() }).nullable(),
  error: proxxError.nullable(),
  fingerprint: z.string().nullable().describe('only of a complete job (P45)'),
  ffmpeg: z.string().nullable(),
  outputs: z.array(output),
  actions: z.array(z.object({ name: z.enum(ACTIONS), allowed: z.boolean(), why: z.string() })),
})
export type ProxxJob = z.infer<typeof proxxJob>

const isProxxAction = (name: string): name is (typeof ACTIONS)[number] => (ACTIONS as readonly string[]).includes(name)

const STATUS_OF: Readonly<Record<string, ProxxStatus>> = { queued: 'pending' }

export function viewProxxJob(job: JobView & { input?: unknown }, failures: readonly FailureView[]): ProxxJob {
  const { spec = null, profile } = (job.input ?? {}) as Partial<Payload>
  const kept = profile as ProxxJob['profile'] | undefined
  const failure = failures.findLast(({ to }) => to === 'failed')
  const result = job.status === 'complete' ? (job.result as TranscodeResult | null) : null
  return {
    id: job.id,
    status: STATUS_OF[job.status] ?? (job.status as ProxxStatus),
    executionAttempted: job.startedAt !== null,
    owner: job.owner,
    createdAt: job.createdAt,
    startedAt: job.startedAt,
    finishedAt: job.finishedAt,
    worker: job.worker ?? failure?.worker ?? null,
    orphanedAt: job.orphanedAt,
    retriedFrom: job.retriedFrom,
    retriedAs: job.retriedAs,
    progress: job.progress,
    spec,
    profile: kept ? { name: kept.name, version: kept.version, sha256: kept.sha256 } : null,
    error: job.status === 'failed' && failure !== undefined ? viewError(failure) : null,
    fingerprint: result?.fingerprint ?? null,
    ffmpeg: result?.ffmpeg ?? null,
    outputs: result?.outputs ?? [],
    actions: job.actions.flatMap(({ name, ...rest }) => (isProxxAction(name) ? [{ name, ...rest }] : [])),
  }
}

/** Why a submission was refused before its dispatch (P5, P9). */
export const refusalIn = ({ status, error }: ProxxJob): ProxxError | null =>
  status === 'failed' && error?.class === 'pre_dispatch' ? error : null

function viewError(failure: FailureView): ProxxError {
  const { phase, layer, code, message, at, worker, from, detail, context } = failure
  return {
    type: ERROR_TYPE_OF_STAGE[phase],
    class: phase,
    owner: layer,
    code,
    message,
    at,
    worker,
    // P52: it was pending when it was refused.
    transition: { from: from === null ? 'pending' : (STATUS_OF[from] ?? (from as ProxxStatus)), to: 'failed' },
    clip: numberOf(context.clip),
    stage: textOf(context.clipStage),
    check: textOf(context.check),
    exitCode: numberOf(context.exitCode),
    signal: textOf(context.signal),
    stderrTail: textOf(context.stderrTail),
    detail,
    problems: Array.isArray(context.problems) ? context.problems : [],
  }
}

const numberOf = (value: unknown): number | null => (typeof value === 'number' ? value : null)
const textOf = (value: unknown): string | null => (typeof value === 'string' ? value : null)
