import { Readable } from 'node:stream'
import { answerRefusals, described, discardBody } from '@redress/shared/routes'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Gauge } from 'prom-client'
import { type App, RedressError } from 'redress'
import type { ArtifactStore } from 'redress/artifacts'
import { artifactFile, type Mount, type MountTools, sendFile } from 'redress/http'
import type { z } from 'zod'
import { requireCaller, tenantOf, visibleTenant } from './access.ts'
import { API, JOBS_QUERY, RESOURCES_QUERY } from './api.ts'
import { refusal } from './failures/refusals.ts'
import { requestPurge } from './jobs/purge-job.ts'
import { inputOf, requireBatch, resourceRows, viewListed, viewResource, viewSnapshot } from './jobs/views.ts'
import { BATCH } from './policy.ts'
import { accept, type BatchData, type IngestOptions } from './requests/ingest.ts'
import { resourceKey } from './requests/manifest.ts'
import { readBody } from './requests/read-body.ts'
import type { ProxyState } from './transfer/proxies.ts'
export interface RouteOptions extends IngestOptions {
  storage: ArtifactStore
  seeProxies: SeeProxies
}

/** A client on a slow line, with 5 MB. */
const BODY_MS = 5 * 60_000
const DEFAULT_TYPE = 'sample'
const KEY = /^[\x21-\x7e]{1,200}$/

/** Everything that fetchbox answers to. */
export function fetchboxRoutes(options: RouteOptions): Mount {
  return async (server, tools) => {
    answerRefusals(server)
    // Bodies are read by us, when it is known who sends them and that they may.
    server.removeAllContentTypeParsers()
    server.addContentTypeParser('*', (_request, _body, done) => done(null))
    addSubmission(server, tools, options)
    addReading(server, tools, options)
    addProxyRoute(server, tools, options.seeProxies)
    await addProxyMetric(options.app, options.seeProxies)
  }
}

function addSubmission(server: FastifyInstance, tools: MountTools, options: RouteOptions): void {
  server.post(
    '/fetchbox/jobs',
    { ...described(API.submit, { bodyMs: BODY_MS }), bodyLimit: Number.MAX_SAFE_INTEGER },
    async (request, reply) => {
      try {
        const caller = await requireCaller(tools, request, 'submit')
        const submission = {
          tenant: tenantOf(request, caller),
          type: headerOf(request, 'x-fetchbox-job-type') ?? DEFAULT_TYPE,
          idempotencyKey: keyOf(request),
          body: await readBody(request),
        }
        const { id, isNew } = await accept(options, submission)
        const { status, resourcesTotal } = viewListed(await requireBatch(options.app, id, null))
        const location = `/fetchbox/jobs/${id}`
        return await reply
          .code(isNew ? 202 : 200)
          .header('location', location)
          .header('cache-control', 'no-store')
          .send({ id, status, resources: resourcesTotal, location })
      } finally {
        discardBody(request)
      }
    },
  )
}

function addReading(server: FastifyInstance, tools: MountTools, { app, storage }: RouteOptions): void {
  server.get('/fetchbox/jobs', described(API.list), async (request, reply) => {
    const caller = await requireCaller(tools, request, 'read')
    return noStore(reply).send(await listed(app, query(JOBS_QUERY, request), visibleTenant(caller)))
  })

  server.get('/fetchbox/jobs/:id', described(API.job), async (request, reply) => {
    const caller = await requireCaller(tools, request, 'read')
    return noStore(reply).send(await viewSnapshot(app, await batchOf(app, request, visibleTenant(caller))))
  })

  server.get('/fetchbox/jobs/:id/resources', described(API.resources), async (request, reply) => {
    const caller = await requireCaller(tools, request, 'read')
    const { id } = await batchOf(app, request, visibleTenant(caller))
    const { limit, cursor = 0, status, format } = query(RESOURCES_QUERY, request)
    const rows = await resourceRows(app, id, status)
    if (format === 'jsonl' || request.headers.accept?.includes('application/x-ndjson')) {
      const lines = async function* () {
        for (const row of rows) yield `${JSON.stringify(await viewResource(app, row))}\n`
      }
      return noStore(reply).type('application/x-ndjson; charset=utf-8').send(Readable.from(lines()))
    }
    // A place in the manifest: replays take the place of what they replay, so a page never moves.
    const page = rows.slice(cursor, cursor + limit)
    const resources = await Promise.all(page.map((row) => viewResource(app, row)))
    return noStore(reply).send({ resources, nextCursor: cursor + limit < rows.length ? String(cursor + limit) : null })
  })

  server.get('/fetchbox/jobs/:id/resources/:resource/content', described(API.content), async (request, reply) => {
    const caller = await requireCaller(tools, request, 'read')
    const { id, data } = await batchOf(app, request, visibleTenant(caller))
    const { resource } = request.params as { resource: string }
    const key = resourceKey((data as BatchData).type, id, resource)
    return sendContent(app, storage, { job: id, resource, key }, request, reply)
  })

  server.delete('/fetchbox/jobs/:id', described(API.purge), async (request, reply) => {
    const caller = await requireCaller(tools, request, 'purge')
    const { id } = request.params as { id: string }
    const purge = await requestPurge(app, id, visibleTenant(caller), caller)
    return noStore(reply)
      .code(purge.status === 'complete' ? 200 : 202)
      .send({ id, purge })
  })
}

const noStore = (reply: FastifyReply): FastifyReply => reply.header('cache-control', 'no-store')

function batchOf(app: App, request: FastifyRequest, tenant: string | null) {
  return requireBatch(app, (request.params as { id: string }).id, tenant)
}

async function listed(app: App, { type, tenant, status, ...page }: z.output<typeof JOBS_QUERY>, own: string | null) {
  const owner = own ?? tenant
  const state = status === 'queued' || status === 'processing' ? 'open' : status
  const { cursor, limit } = page
  const found = await app.batches.list({
    name: BATCH,
    limit,
    ...(owner !== undefined && { owner }),
    ...(state !== undefined && { state }),
    ...(cursor !== undefined && cursor > 0 && { cursor }),
  })
  const jobs = found.batches
    .map(viewListed)
    .filter((job) => (type === undefined || job.type === type) && (status === undefined || job.status === status))
  return { jobs, nextCursor: found.nextCursor }
}

function query<Shape extends z.ZodObject>(shape: Shape, request: FastifyRequest): z.output<Shape> {
  const read = shape.safeParse(request.query)
  if (read.success) return read.data
  const problems = read.error.issues.map(({ path, message }) => `${path.join('.') || 'query'}: ${message}`)
  const action = `Known here are ${Object.keys(shape.shape).join(', ')}; see the guide to fetchbox.`
  throw new RedressError('REQUEST_INVALID', `Not understood: ${problems.join('; ')}.`, { problems, action })
}

function headerOf({ headers }: FastifyRequest, name: string): string | undefined {
  const value = headers[name]
  return Array.isArray(value) ? value.join(',') : value
}

function keyOf(request: FastifyRequest): string | null {
  const key = headerOf(request, 'idempotency-key')
  if (key === undefined || KEY.test(key)) return key ?? null
  const said = 'Idempotency-Key: must be 1 to 200 visible characters of ASCII, without blanks'
  throw refusal('VALIDATION_INVALID_FIELD', { said, problems: [said] })
}

interface Wanted {
  job: string
  resource: string
  key: string
}

/** Sends the stored content, whole or the requested range. */
async function sendContent(
  app: App,
  storage: ArtifactStore,
  wanted: Wanted,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  try {
    const content = artifactFile(storage, wanted.key)
    return await sendFile(request, reply, content, { fileName: wanted.resource })
  } catch (error) {
    if (!(error instanceof RedressError)) throw error
    if (error.code === 'ARTIFACT_NOT_FOUND') throw await absence(app, wanted)
    if (error.code === 'ARTIFACT_CORRUPT') throw refusal('STORAGE_CORRUPT')
    if (error.code === 'STORAGE_FAILED') throw refusal('STORAGE_UNAVAILABLE', { action: 'Ask again.' })
    throw error
  }
}

/** Not there yet, not any more, or never asked for. */
async function absence(app: App, { job, resource }: Wanted): Promise<Error> {
  const row = (await resourceRows(app, job)).find((one) => inputOf(one).resource === resource)
  if (row === undefined) return new RedressError('JOB_NOT_FOUND', 'There is no such resource in this job.')
  if (row.status === 'complete') return refusal('STORAGE_NOT_FOUND')
  return new RedressError('NOT_READY', `This resource is not stored: it is ${row.status}.`, {
    action: 'Ask again when it is complete; see its error if it is failed.',
  })
}

/** The state of the proxies in this process. */
type SeeProxies = () => readonly ProxyState[]

const STATES = ['healthy', 'out', 'probing'] as const

/** For operators: which proxies are in use, and why the others are not. */
function addProxyRoute(server: FastifyInstance, tools: MountTools, seeProxies: SeeProxies): void {
  server.get('/fetchbox/proxies', described(API.proxies), async (request, reply) => {
    const { role } = await requireCaller(tools, request, 'read')
    if (role === 'owner') throw refusal('AUTH_ROLE', { said: 'It needs the role viewer or operator.' })
    const proxies = seeProxies().map(({ outUntilMs, ...shown }) => ({
      ...shown,
      outUntil: outUntilMs === null ? null : new Date(outUntilMs).toISOString(),
    }))
    return reply.header('cache-control', 'no-store').send({ proxies })
  })
}

/** One metric line per state of a proxy, with 1 for the current one, like the breakers of the engine. */
async function addProxyMetric(app: App, seeProxies: SeeProxies): Promise<void> {
  if (seeProxies().length === 0) return
  const registry = await app.metrics.registry()
  new Gauge({
    name: 'fetchbox_proxies',
    help: 'State of a proxy in this process: 1 for the current state.',
    labelNames: ['pool', 'proxy', 'state'],
    registers: [registry],
    collect() {
      for (const { name: proxy, state } of seeProxies()) {
        const pool = proxy.slice(0, proxy.lastIndexOf('#'))
        for (const each of STATES) this.set({ pool, proxy, state: each }, each === state ? 1 : 0)
      }
    },
  })
}
