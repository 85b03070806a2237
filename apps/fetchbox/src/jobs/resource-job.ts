import {
  type App,
  type Attempt,
  type AttemptFailOptions,
  type ENGINE_CODES,
  exponential,
  type JobType,
  type StageOptions,
  type StageTry,
} from 'redress'
import { z } from 'zod'
import { CODES, type Code, FetchFailure, isRetryable } from '../failures/failure.ts'
import { HandlerRefusal, type Handlers, type JobHandler, refuse, withTimeout } from '../job-handlers.ts'
import { QUEUE, RESOURCE, RULES, resourcePolicy, WAIT_IN_SLOT_MS } from '../policy.ts'
import { openHeaders, type Resource, resourceKey } from '../requests/manifest.ts'
import { headerProblem } from '../requests/read-request.ts'
import type { Sealer } from '../sealer.ts'
import type { Settings } from '../settings.ts'
import type { Transfer } from '../transfer-port.ts'

const INPUT = z.strictObject({
  job: z.uuid(),
  jobType: z.string().min(1).max(63),
  resource: z.string().min(1),
  position: z.number().int().min(0),
  url: z.string().min(1),
  headers: z.record(z.string(), z.string()).exactOptional(),
  sha256: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .exactOptional(),
})

export type ResourceInput = z.infer<typeof INPUT>

export interface ResourceResult {
  key: string
  bytes: number
  sha256: string
  contentType: string | null
  /** Set when the origin encoded it: it is stored as it was sent. */
  contentEncoding: string | null
}

export interface ResourceOptions {
  handlers: Handlers
  transfer: Transfer
  settings: Settings
  sealer: Sealer
  /** The client's metadata for the handler; it does not change. */
  metadataOf(job: string): Promise<Readonly<Record<string, unknown>>>
  isPurged(job: string): Promise<boolean>
}

/** The job of one resource: downloaded, then stored, each with its own tries. */
export function declareResource(app: App, options: ResourceOptions): JobType<ResourceInput> {
  const { handlers, transfer, settings, isPurged } = options
  const { downloadTriesMax, storageTriesMax, retryBaseMs } = settings
  const tries = {
    backoff: exponential(retryBaseMs, { cap: Math.max(WAIT_IN_SLOT_MS, retryBaseMs) }),
    retryAfterMax: WAIT_IN_SLOT_MS,
    exhausted: 'fail',
  } as const

  return app.job(RESOURCE, {
    queue: QUEUE,
    codes: CODES,
    classify: RULES,
    policy: resourcePolicy(settings),
    // An invalid input of a replay is refused at once. If it gets through, `run` makes it a dead letter (F14).
    admit: (input: ResourceInput, { fail }) => {
      const problem = problemOf(input)
      if (problem !== null) fail('VALIDATION_INVALID_FIELD', { note: problem })
    },
    admitRetry: async ({ job }: ResourceInput, { fail }) => {
      if (await isPurged(job)) fail('STORAGE_NOT_FOUND', { note: 'Its job was purged.' })
    },
    async run(input: ResourceInput, attempt): Promise<ResourceResult> {
      const problem = problemOf(input)
      if (problem !== null) attempt.fail('VALIDATION_INVALID_FIELD', { note: problem })
      const { job, jobType, resource } = input
      const handler = handlers.get(jobType)
      if (handler === undefined) return attempt.fail('VALIDATION_UNKNOWN_JOB_TYPE', { note: `It was ${jobType}.` })
      const key = resourceKey(jobType, job, resource)
      let avoidProxy: string | null = null
      const spooled = await runStage(attempt, 'download', { ...tries, max: downloadTriesMax }, async (stage) => {
        try {
          const task = await prepared(input, handler, stage, attempt.owner, options)
          return await transfer.download(task, { signal: stage.signal, avoidProxy })
        } catch (error) {
          if (error instanceof FetchFailure) avoidProxy = error.context.proxy
          throw error
        }
      })
      try {
        const stored = await runStage(attempt, 'upload', { ...tries, max: storageTriesMax }, (stage) =>
          transfer.upload(spooled, { key, signal: stage.signal }),
        )
        const { contentType, contentEncoding } = spooled
        return { key: stored.key, bytes: stored.bytes, sha256: stored.sha256, contentType, contentEncoding }
      } finally {
        await spooled.remove()
      }
    },
  })
}

function problemOf(input: unknown): string | null {
  const read = INPUT.safeParse(input)
  if (read.success) return null
  return read.error.issues.map(({ path, message }) => `${path.join('.') || 'input'}: ${message}`).join('; ')
}

type AnyCode = Code | keyof typeof ENGINE_CODES
type Trying = StageTry<AnyCode>

/**
 * A stage whose failures carry their code. If an origin asks for a longer pause than a slot should be held for, the
 * attempt ends, not the job: the policy waits without a worker, within the remaining attempts.
 */
async function runStage<T>(
  attempt: Attempt<AnyCode>,
  name: string,
  options: StageOptions<AnyCode>,
  work: (stage: Trying) => Promise<T>,
): Promise<T> {
  const outcome = await attempt.stage(name, options, async (stage) => {
    try {
      return { value: await work(stage) }
    } catch (error) {
      if (!(error instanceof FetchFailure)) throw error
      if (isLongWait(error)) return { later: error, number: stage.number }
      return stage.fail(error.code, detailsOf(error, stage.number))
    }
  })
  if ('value' in outcome) return outcome.value
  return attempt.fail(outcome.later.code, detailsOf(outcome.later, outcome.number))
}

const isLongWait = ({ code, retryAfterMs = 0 }: FetchFailure): boolean =>
  isRetryable(code) && retryAfterMs > WAIT_IN_SLOT_MS

function detailsOf(failure: FetchFailure, number: number): AttemptFailOptions {
  const { message, context, retryAfterMs, cause } = failure
  return {
    detail: message,
    note: message,
    context: { ...context, attempt: number, said: message },
    ...(retryAfterMs !== undefined && { retryAfter: retryAfterMs }),
    ...(cause !== undefined && { cause }),
  }
}

/**
 * Asks the handler for the URL and headers of this download. If the handler refuses or throws, the download is not
 * retried (F9, F13).
 */
async function prepared(
  { job, jobType, resource: id, url, headers: kept, sha256 }: ResourceInput,
  handler: JobHandler,
  stage: Trying,
  tenant: string | null,
  { metadataOf, settings, sealer }: ResourceOptions,
): Promise<Pick<Resource, 'url' | 'headers' | 'sha256'>> {
  const headers = kept === undefined ? undefined : openHeaders(kept, job, sealer)
  if (headers === null) throw new FetchFailure('SYSTEM_KEY_MISSING', 'its headers were sealed with another key')
  const own = { url, ...(headers !== undefined && { headers }), ...(sha256 !== undefined && { sha256 }) }
  if (handler.prepare === undefined) return own
  const metadata = await metadataOf(job)
  const { signal, number: attempt } = stage
  try {
    const task = { id, job, type: jobType, tenant, ...structuredClone(own) }
    const answer = await withTimeout(handler.prepare(task, { refuse, metadata, attempt, signal }), settings.handlerMs)
    const changed = answer ?? {}
    if (typeof changed !== 'object') throw new TypeError('prepare gave what is no object')
    const next = {
      ...own,
      ...(changed.url !== undefined && { url: changed.url }),
      ...(changed.headers !== undefined && { headers: changed.headers }),
    }
    const problem = preparedProblem(next)
    if (problem !== null) throw new TypeError(problem)
    return next
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof HandlerRefusal) throw new FetchFailure('HANDLER_REFUSED', error.message)
    throw new FetchFailure('HANDLER_ERROR', `the handler of ${jobType} failed in prepare`, { cause: error })
  }
}

function preparedProblem({ url, headers = {} }: { url: unknown; headers?: unknown }): string | null {
  if (typeof url !== 'string') return 'prepare gave a url that is no text'
  if (typeof headers !== 'object' || headers === null) return 'prepare gave headers that are no object'
  for (const [name, value] of Object.entries(headers)) {
    const problem = typeof value === 'string' ? headerProblem(name, value) : 'is no text'
    if (problem !== null) return `prepare gave the header ${name}, which ${problem}`
  }
  return null
}
