import { Readable } from 'node:stream'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type App, type ArtifactStore, RedressError } from 'redress'
import type { Mount, MountTools } from 'redress/http'
import { z } from 'zod'
import { answerRefusals } from '../shared/refused.ts'
import { neededCaller, seenBy, tenantOf } from './access.ts'
import { sendContent } from './content.ts'
import { accept, type BatchData, type IngestOptions } from './ingest.ts'
import { resourceKey } from './manifest.ts'
import { BATCH } from './policy.ts'
import { addProxyMetric, addProxyRoute, type SeeProxies } from './proxy-health.ts'
import { requestPurge } from './purge.ts'
import { letRestGo, readBody } from './read-body.ts'
import { refusal } from './refusals.ts'
import { resourceRows, viewResource } from './resource-view.ts'
import { neededBatch, viewListed, viewSnapshot } from './snapshot.ts'

export interface RouteOptions extends IngestOptions {
  storage: ArtifactStore
  seeProxies: SeeProxies
}

/** A client on a slow line, with 5 MB. */
const BODY_MS = 5 * 60_000
const DEFAULT_TYPE = 'sample'
const KEY = /^[\x21-\x7e]{1,200}$/
const PAGE_MAX = 1_000
const STATUSES = ['queued', 'processing', 'complete', 'failed', 'cancelled'] as const

const pageFields = {
  limit: z.coerce.number().int().min(1).max(PAGE_MAX).default(100),
  cursor: z.coerce.number().int().min(0).optional(),
}
const JOBS_QUERY = z.strictObject({
  ...pageFields,
  type: z.string().min(1).optional(),
  tenant: z.string().min(1).optional(),
  status: z.enum(['queued', 'processing', 'complete', 'partial', 'failed', 'cancelled']).optional(),
})
const RESOURCES_QUERY = z.strictObject({
  ...pageFields,
  status: z.enum(STATUSES).optional(),
  format: z.enum(['json', 'jsonl']).optional(),
})

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
    { config: { bodyMs: BODY_MS }, bodyLimit: Number.MAX_SAFE_INTEGER },
    async (request, reply) => {
      try {
        const caller = await neededCaller(tools, request, 'submit')
        const submission = {
          tenant: tenantOf(request, caller),
          type: headerOf(request, 'x-fetchbox-job-type') ?? DEFAULT_TYPE,
          idempotencyKey: keyOf(request),
          body: await readBody(request),
        }
        const { id, isNew } = await accept(options, submission)
        const { status, resourcesTotal } = viewListed(await neededBatch(options.app, id, null))
        const location = `/fetchbox/jobs/${id}`
        return await reply
          .code(isNew ? 202 : 200)
          .header('location', location)
          .header('cache-control', 'no-store')
          .send({ id, status, resources: resourcesTotal, location })
      } finally {
        letRestGo(request)
      }
    },
  )
}

function addReading(server: FastifyInstance, tools: MountTools, { app, storage }: RouteOptions): void {
  server.get('/fetchbox/jobs', async (request, reply) => {
    const caller = await neededCaller(tools, request, 'read')
    return noStore(reply).send(await listed(app, query(JOBS_QUERY, request), seenBy(caller)))
  })

  server.get('/fetchbox/jobs/:id', async (request, reply) => {
    const caller = await neededCaller(tools, request, 'read')
    return noStore(reply).send(await viewSnapshot(app, await batchOf(app, request, seenBy(caller))))
  })

  server.get('/fetchbox/jobs/:id/resources', async (request, reply) => {
    const caller = await neededCaller(tools, request, 'read')
    const { id } = await batchOf(app, request, seenBy(caller))
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

  server.get('/fetchbox/jobs/:id/resources/:resource/content', async (request, reply) => {
    const caller = await neededCaller(tools, request, 'read')
    const { id, data } = await batchOf(app, request, seenBy(caller))
    const { resource } = request.params as { resource: string }
    const key = resourceKey((data as BatchData).type, id, resource)
    return sendContent(app, storage, { job: id, resource, key }, request, reply)
  })

  server.delete('/fetchbox/jobs/:id', async (request, reply) => {
    const caller = await neededCaller(tools, request, 'purge')
    const { id } = request.params as { id: string }
    const purge = await requestPurge(app, id, seenBy(caller), caller)
    return noStore(reply)
      .code(purge.status === 'complete' ? 200 : 202)
      .send({ id, purge })
  })
}

const noStore = (reply: FastifyReply): FastifyReply => reply.header('cache-control', 'no-store')

function batchOf(app: App, request: FastifyRequest, tenant: string | null) {
  return neededBatch(app, (request.params as { id: string }).id, tenant)
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
