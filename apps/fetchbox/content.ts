import type { FastifyReply, FastifyRequest } from 'fastify'
import { type App, type ArtifactStore, RedressError } from 'redress'
import { artifactFile, sendFile } from 'redress/http'
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
