import type { FailureView, JobView } from 'redress'
import type { Payload } from './checks.ts'
import { ERROR_TYPE_OF_STAGE } from './codes.ts'
import type { TranscodeResult } from './transcode.ts'

/** P51: the four states, in the words of the requirement. */
export type ProxxStatus = 'pending' | 'processing' | 'complete' | 'failed'

/** P6, P27, P34: what went wrong, as the job's `error` field has it. */
export interface ProxxError {
  type: (typeof ERROR_TYPE_OF_STAGE)[keyof typeof ERROR_TYPE_OF_STAGE]
  class: FailureView['stage']
  /** Who accounts for it: submission, coordination or worker (P36). */
  owner: FailureView['owner']
  code: string
  message: string
  at: string
  worker: string | null
  transition: { from: ProxxStatus; to: 'failed' }
  clip: number | null
  stage: string | null
  /** Of a verification: which one failed. */
  check: string | null
  exitCode: number | null
  signal: string | null
  stderrTail: string | null
  detail: string
  problems: unknown[]
}

/** A job of proxx, in its file and over HTTP. */
export interface ProxxJob {
  id: string
  status: ProxxStatus
  /** P9: whether anything was ever run for it. */
  executionAttempted: boolean
  owner: string | null
  createdAt: string
  startedAt: string | null
  finishedAt: string | null
  worker: string | null
  /** P53: its worker is silent, and a person has to decide. */
  orphanedAt: string | null
  retriedFrom: string | null
  /** The newest job that was made from this one. */
  retriedAs: string | null
  progress: number
  spec: unknown
  profile: { name: string; version: number; sha256: string } | null
  error: ProxxError | null
  /** Only of a complete job (P45). */
  fingerprint: string | null
  ffmpeg: string | null
  outputs: TranscodeResult['outputs']
  actions: JobView['actions']
}

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
    actions: job.actions,
  }
}

/** What a submission was refused for: it failed before it was dispatched (P5, P9). */
export const refusalIn = ({ status, error }: ProxxJob): ProxxError | null =>
  status === 'failed' && error?.class === 'pre_dispatch' ? error : null

function viewError(failure: FailureView): ProxxError {
  const { stage, owner, code, message, at, worker, from, detail, context } = failure
  return {
    type: ERROR_TYPE_OF_STAGE[stage],
    class: stage,
    owner,
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
