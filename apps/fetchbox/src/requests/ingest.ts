import { type App, type JobType, type Log, RedressError } from 'redress'
import { type ArtifactStore, keyPart } from 'redress/artifacts'
import { type IngestRetries, retryTransient } from '../failures/ingest-retries.ts'
import { refusal } from '../failures/refusals.ts'
import { HandlerRefusal, type Handlers, type JobHandler, refuse, withTimeout } from '../job-handlers.ts'
import type { ResourceInput } from '../jobs/resource-job.ts'
import { BATCH, FINALIZE } from '../policy.ts'
import type { Sealer } from '../sealer.ts'
import {
  digestOf,
  type Manifest,
  manifestKey,
  type Requested,
  type Resource,
  readManifest,
  sealHeaders,
} from './manifest.ts'
import { type CheckUrl, Problems, readRequest, readResources } from './read-request.ts'

export interface IngestOptions {
  app: App
  storage: ArtifactStore
  handlers: Handlers
  resource: JobType<ResourceInput>
  checkUrl: CheckUrl
  sealer: Sealer
  /** How long `buildTasks` may take. */
  handlerMs: number
  retries: IngestRetries
  log: Log
}

export interface Submission {
  tenant: string
  type: string
  /** The client's Idempotency-Key; null if it sent none. */
  idempotencyKey: string | null
  body: unknown
}

export interface Accepted {
  id: string
  /** False when the same request was accepted before. */
  isNew: boolean
}

/** Data that is stored with the batch. */
export interface BatchData {
  app: typeof BATCH
  type: string
  digest: string
  manifest: string
  metadata: Readonly<Record<string, unknown>>
}

const LIMIT_KEY_CHARS_MAX = 200

/**
 * Accepts a job. The manifest is stored first. Then the batch and its jobs are made in one transaction, under an id
 * derived from tenant and key. A process that is killed in between has accepted nothing, and a repeated request
 * finishes the work.
 */
export async function accept(options: IngestOptions, submission: Submission): Promise<Accepted> {
  const { app, retries } = options
  const { tenant, type, idempotencyKey: key } = submission
  const handler = options.handlers.get(type)
  if (handler === undefined) throw refusal('VALIDATION_UNKNOWN_JOB_TYPE', { said: unknownType(type, options.handlers) })
  const requested = readRequest(submission.body, options.checkUrl)
  const digest = digestOf(type, requested, options.sealer)
  const id = key === null ? app.newId() : app.idFrom('fetchbox', tenant, key)
  if (key !== null) {
    const twin = await retryTransient('finding a twin', () => batchData(app, id), retries)
    if (twin !== null) return sameOrRefused(id, twin, digest)
  }
  const built = await builtTasks(handler, submission, requested, options)
  const resources = built.map((resource) => sealHeaders(resource, id, options.sealer))
  const { metadata } = requested
  const manifest = await storedManifest(options, { version: 1, id, type, tenant, digest, metadata, resources })
  const isNew = await retryTransient('making the batch', () => opened(options, manifest, handler), retries)
  if (isNew) return { id, isNew }
  // Another request with the same key won, or our own first try succeeded and its answer was lost.
  const made = await retryTransient('finding a twin', () => batchData(app, id), retries)
  return made === null ? { id, isNew: true } : sameOrRefused(id, made, digest)
}

export async function batchData(app: App, id: string): Promise<BatchData | null> {
  const batch = await (await app.store()).batch({ id })
  return batch === null ? null : (JSON.parse(batch.data) as BatchData)
}

function sameOrRefused(id: string, { digest }: BatchData, asked: string): Accepted {
  if (digest === asked) return { id, isNew: false }
  throw refusal('VALIDATION_IDEMPOTENCY_KEY_REUSED')
}

const NAMES_SHOWN_MAX = 20

function unknownType(type: string, handlers: Handlers): string {
  const known = [...handlers.keys()].slice(0, NAMES_SHOWN_MAX).join(', ')
  return `${JSON.stringify(type.slice(0, 64))} is none of ${known}.`
}

/** Calls the handler's `buildTasks`. A refusal is the client's fault; any other error is the handler's. */
async function builtTasks(
  handler: JobHandler,
  { type, tenant }: Submission,
  { resources, metadata }: Requested,
  { checkUrl, handlerMs, log }: IngestOptions,
): Promise<readonly Resource[]> {
  if (handler.buildTasks === undefined) return resources
  try {
    // A copy, so that a handler that changes its argument does not change the request.
    const request = { ...structuredClone({ resources, metadata }), type, tenant }
    const problems = new Problems()
    const made = await withTimeout(handler.buildTasks(request, { refuse }), handlerMs)
    const built = readResources(made, checkUrl, problems)
    if (problems.first !== null) throw new Error(`it built tasks that cannot be fetched: ${problems.first}`)
    return built
  } catch (error) {
    if (error instanceof HandlerRefusal) throw refusal('HANDLER_REFUSED', { said: error.message })
    log.error({ event: 'handler_failed', handler: type, step: 'buildTasks', err: error }, 'a job was not accepted')
    throw refusal('HANDLER_ERROR')
  }
}

/** The first writer wins. An existing manifest of the same request is used. */
async function storedManifest(
  { app, storage, retries }: IngestOptions,
  fields: Omit<Manifest, 'createdAt'>,
): Promise<Manifest> {
  const key = manifestKey(fields.type, fields.id)
  const nowMs = await retryTransient('asking for the time', async () => (await app.store()).nowMs(), retries)
  const manifest: Manifest = { ...fields, createdAt: new Date(nowMs).toISOString() }
  const put = () => storage.put(key, JSON.stringify(manifest), { contentType: 'application/json', ifAbsent: true })
  const isOurs = await retryTransient('storing the manifest', () => put().then(() => true, unlessThere), retries)
  if (isOurs) return manifest
  const there = await retryTransient('reading the manifest', () => readManifest(storage, key), retries)
  if (there.digest === fields.digest) return there
  throw refusal('VALIDATION_IDEMPOTENCY_KEY_REUSED')
}

function unlessThere(error: unknown): false {
  if (error instanceof RedressError && error.code === 'ARTIFACT_EXISTS') return false
  throw error
}

async function opened({ app, resource }: IngestOptions, manifest: Manifest, handler: JobHandler): Promise<boolean> {
  const { id, type, tenant, digest, metadata, resources } = manifest
  const data: BatchData = { app: BATCH, type, digest, manifest: manifestKey(type, id), metadata }
  const jobs = resources.map(({ id: resourceId, url, headers, sha256 }, position) => {
    const input: ResourceInput = {
      job: id,
      jobType: type,
      resource: resourceId,
      position,
      url,
      ...(headers !== undefined && { headers }),
      ...(sha256 !== undefined && { sha256 }),
    }
    return resource.request(input, { limitKey: hostOf(url) })
  })
  const { isNew } = await app.batches.create(BATCH, {
    id,
    owner: tenant,
    rollup: 'any-permanent',
    data,
    jobs,
    ...(handler.finalize !== undefined && { onSettled: { job: FINALIZE } }),
  })
  return isNew
}

/** By this, few are fetched at once from one origin. */
function hostOf(url: string): string {
  const { host } = new URL(url)
  return host.length <= LIMIT_KEY_CHARS_MAX ? host : keyPart(host)
}
