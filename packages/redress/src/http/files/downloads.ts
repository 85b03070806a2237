import type { FastifyInstance } from 'fastify'
import type { ArtifactStore } from '../../artifacts/artifact-store.ts'
import { RedressError } from '../../core/errors.ts'
import { inScope } from '../../operations/caller.ts'
import { neededJob } from '../../operations/jobs/needed-job.ts'
import type { JobRow, Store } from '../../store/contract/store.ts'
import { type FindCaller, neededCaller } from '../callers/callers.ts'
import { artifactFile, sendFile } from './send-file.ts'

/** A file that a job made. */
export interface JobFile {
  artifacts: ArtifactStore
  key: string
  /** File name for the client; default: the last part of the key. */
  fileName?: string
  /** Default: the content type of the artifact. */
  contentType?: string
}

/** The file of a complete job; null where it is gone (404 EXPIRED), as it is when the artifact is not there any more. */
export type FindFile = (job: CompleteJob) => JobFile | null | Promise<JobFile | null>

/** A job whose result file is asked for. */
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

/** `GET /api/jobs/:id/download`, for callers that may see the job. */
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
    if (file === null) throw expired(job)
    const { artifacts, key, fileName = key.split('/').at(-1) ?? 'download', contentType } = file
    const how = { fileName, ...(contentType !== undefined && { contentType }) }
    return sendFile(request, reply, artifactFile(artifacts, key), how).catch((error: unknown) => {
      throw error instanceof RedressError && error.code === 'ARTIFACT_NOT_FOUND' ? expired(job) : error
    })
  })
}

function needComplete({ id, type, owner, status, payload, result }: JobRow): CompleteJob {
  if (status === 'complete') {
    return { id, type, owner, input: JSON.parse(payload), result: result === null ? null : JSON.parse(result) }
  }
  const isOver = status === 'failed' || status === 'cancelled'
  throw new RedressError('NOT_READY', `Job ${id} has no file ${isOver ? 'to give' : 'yet'}: it is ${status}.`, {
    jobId: id,
    jobType: type,
    ...(isOver && { action: 'Retry the job, or submit another.' }),
  })
}

const expired = ({ id, type }: JobRow): RedressError =>
  new RedressError('EXPIRED', `The file of job ${id} is gone.`, { jobId: id, jobType: type })
