import { once } from 'node:events'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type App, type ArtifactStore, RedressError } from 'redress'
import { refusal } from './refusals.ts'
import { inputOf, resourceRows } from './resource-view.ts'

interface Wanted {
  job: string
  resource: string
  key: string
}

/** Gives a client what was stored for it, whole or the range that was asked for. */
export async function sendContent(
  app: App,
  storage: ArtifactStore,
  wanted: Wanted,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { body, bytes, range, sha256, contentType } = await opened(app, storage, wanted, request.headers)
  // Whoever leaves in the middle must not keep a file or a connection open.
  reply.raw.once('close', () => body.destroy())
  if (range !== null) void reply.code(206).header('content-range', `bytes ${range.start}-${range.end}/${bytes}`)
  if (sha256 !== null) void reply.header('etag', `"${sha256}"`)
  return (
    reply
      .type(contentType ?? 'application/octet-stream')
      .header('content-length', range === null ? bytes : range.end - range.start + 1)
      // Saved, never shown: what a stranger's server sent must not become a page of ours.
      .header('content-disposition', `attachment; filename*=UTF-8''${encoded(wanted.resource)}`)
      .header('accept-ranges', 'bytes')
      .header('cache-control', 'private, no-cache')
      .send(body)
  )
}

async function opened(app: App, storage: ArtifactStore, wanted: Wanted, headers: FastifyRequest['headers']) {
  try {
    const range = (await isAsBefore(storage, wanted, headers['if-range'])) ? rangeOf(headers.range) : null
    const content = await storage.get(wanted.key, range === null ? { verify: true } : { range })
    // What is found to be damaged before any of it is sent can still be refused in words.
    if (content.bytes > 0) await once(content.body, 'readable')
    return content
  } catch (error) {
    if (!(error instanceof RedressError)) throw error
    if (error.code === 'ARTIFACT_NOT_FOUND') throw await absence(app, wanted)
    if (error.code === 'ARTIFACT_CORRUPT') throw refusal('STORAGE_CORRUPT')
    if (error.code === 'STORAGE_FAILED') throw refusal('STORAGE_UNAVAILABLE', { action: 'Ask again.' })
    throw error
  }
}

/** Whoever has the first part of something else gets the whole: a replay may have stored another one. */
async function isAsBefore(storage: ArtifactStore, { key }: Wanted, ifRange: unknown): Promise<boolean> {
  return ifRange === undefined || ifRange === `"${(await storage.head(key)).sha256}"`
}

/** One range from a byte on; whatever else is asked for gets the whole, as HTTP allows. */
function rangeOf(header: string | undefined): { start: number; end?: number } | null {
  const found = /^bytes=(\d{1,15})-(\d{1,15})?$/.exec(header ?? '')
  if (found === null) return null
  const [start, end] = [Number(found[1]), found[2] === undefined ? undefined : Number(found[2])]
  return end === undefined ? { start } : end < start ? null : { start, end }
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

const encoded = (name: string): string =>
  encodeURIComponent(name).replace(/['()*]/g, (char) => `%${char.charCodeAt(0).toString(16)}`)
