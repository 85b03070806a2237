import { once } from 'node:events'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { RedressError } from '../core/errors.ts'
import { inScope } from '../operations/caller.ts'
import { neededJob } from '../operations/needed-job.ts'
import type { ArtifactContent, ArtifactStore } from '../runtime/artifacts/artifact-store.ts'
import type { JobRow, Store } from '../store/store.ts'
import { type FindCaller, neededCaller } from './callers.ts'

/** A file that a job made. */
export interface JobFile {
  artifacts: ArtifactStore
  key: string
  /** What it is called on the other side; the last part of the key when left out. */
  fileName?: string
  /** What the artifact itself says when left out. */
  contentType?: string
}

/** The file of a complete job; null where it is gone (404 EXPIRED), as it is when the artifact is not there any more. */
export type FindFile = (job: CompleteJob) => JobFile | null | Promise<JobFile | null>

export interface CompleteJob {
  id: string
  type: string
  owner: string | null
  input: unknown
  result: unknown
}

export interface DownloadsOptions {
  store: () => Promise<Store>
  findCaller: FindCaller
  /** By job type: only its app knows which file a result stands for. */
  files: ReadonlyMap<string, FindFile>
}

/** `GET /api/jobs/:id/download`, for whoever may see the job. */
export function addDownloads(server: FastifyInstance, { store, findCaller, files }: DownloadsOptions): void {
  server.get('/api/jobs/:id/download', async (request, reply) => {
    const caller = await neededCaller(findCaller, request)
    if (!inScope(caller.scopes, 'jobs.show')) {
      throw new RedressError('ROLE_TOO_LOW', `jobs.show is not in the scopes of ${caller.name}.`)
    }
    const { id } = request.params as { id: string }
    const job = await neededJob(await store(), id, caller.role === 'owner' ? (caller.account ?? '') : undefined)
    const find = files.get(job.type)
    if (find === undefined) {
      throw new RedressError('NOTHING_TO_DOWNLOAD', `A job of type ${job.type} has no file.`, { jobId: id })
    }
    const file = await find(needComplete(job))
    if (file === null) throw expired(id)
    return send(reply, file, await open(request, file, id))
  })
}

function needComplete({ id, type, owner, status, payload, result }: JobRow): CompleteJob {
  if (status === 'complete') {
    return { id, type, owner, input: JSON.parse(payload), result: result === null ? null : JSON.parse(result) }
  }
  const isOver = status === 'failed' || status === 'cancelled'
  throw new RedressError('NOT_READY', `Job ${id} has no file ${isOver ? 'to give' : 'yet'}: it is ${status}.`, {
    jobId: id,
    ...(isOver && { action: 'Retry the job, or submit another.' }),
  })
}

async function open(request: FastifyRequest, { artifacts, key }: JobFile, id: string): Promise<ArtifactContent> {
  const range = rangeOf(request.headers.range)
  try {
    const content = await artifacts.get(key, range === null ? { verify: true } : { range })
    // What is found to be damaged before any of it is sent can still be refused in words.
    await once(content.body, 'readable')
    return content
  } catch (error) {
    if (error instanceof RedressError && error.code === 'ARTIFACT_NOT_FOUND') throw expired(id)
    throw error
  }
}

/** One range from a byte on; whatever else is asked for gets the whole, as HTTP allows. */
function rangeOf(header: string | undefined): { start: number; end?: number } | null {
  const found = /^bytes=(\d{1,15})-(\d{1,15})?$/.exec(header ?? '')
  if (found === null) return null
  const [start, end] = [Number(found[1]), found[2] === undefined ? undefined : Number(found[2])]
  return end === undefined ? { start } : end < start ? null : { start, end }
}

function send(reply: FastifyReply, file: JobFile, content: ArtifactContent): FastifyReply {
  const { body, bytes, range, sha256 } = content
  const name = file.fileName ?? file.key.split('/').at(-1) ?? 'download'
  // Whoever leaves in the middle must not keep a file or a connection open.
  reply.raw.once('close', () => body.destroy())
  if (range !== null) void reply.code(206).header('content-range', `bytes ${range.start}-${range.end}/${bytes}`)
  if (sha256 !== null) void reply.header('etag', `"${sha256}"`)
  return reply
    .type(file.contentType ?? content.contentType ?? 'application/octet-stream')
    .header('content-length', range === null ? bytes : range.end - range.start + 1)
    .header('content-disposition', attachment(name))
    .header('accept-ranges', 'bytes')
    .header('cache-control', 'private, no-cache')
    .send(body)
}

/** Saved, never shown: a file that a stranger sent in must not become a page of ours. */
function attachment(name: string): string {
  const short = shortened(name)
  const plain = short.replace(/[^\w.() -]/g, '_')
  const encoded = encodeURIComponent(short).replace(/['()*]/g, (c) => `%${c.charCodeAt(0).toString(16)}`)
  return `attachment; filename="${plain}"; filename*=UTF-8''${encoded}`
}

const NAME_CHARS_MAX = 150

/** Keeps what a program is chosen by, and cuts no character in half. */
function shortened(name: string): string {
  if (name.length <= NAME_CHARS_MAX) return name.toWellFormed()
  const ending = /\.\w{1,10}$/.exec(name)?.[0] ?? ''
  return (
    name
      .slice(0, NAME_CHARS_MAX - ending.length)
      .replace(/[\uD800-\uDBFF]$/, '')
      .toWellFormed() + ending
  )
}

const expired = (id: string): RedressError =>
  new RedressError('EXPIRED', `The file of job ${id} is gone.`, { jobId: id })
