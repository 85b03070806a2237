import { plainFileName } from '@redress/shared/files'
import { discardBody, isFormInvalid } from '@redress/shared/routes'
import type { FastifyRequest } from 'fastify'
import { type App, type JobType, type Log, RedressError } from 'redress'
import type { StoredArtifact } from 'redress/artifacts'
import { CODES, type Code } from './codes.ts'
import type { ConvertInput } from './convert-job.ts'
import { existingResult, type Files, sourceKey } from './files.ts'
import { type Settings, UPLOAD_BYTES_MAX } from './settings.ts'
import type { UploadPermit, VisitorLimits } from './visitors.ts'

/** The outcome of an upload. */
export type Received = { kind: 'created'; jobId: string; bytes: number } | { kind: 'twin'; jobId: string } | Refused

export interface Refused {
  kind: 'refused'
  status: number
  code: Code | 'REQUEST_INVALID' | 'TOO_MANY_REQUESTS' | 'QUOTA_EXCEEDED' | 'BACKLOG_FULL'
  message: string
  action: string
  jobId?: string
  retryAfterMs?: number
}

export interface ReceiveOptions {
  app: App
  files: Files
  settings: Settings
  convert: JobType<ConvertInput>
  visitors: VisitorLimits
  log: Log
}

/** The sender of a file. */
export interface Sender {
  owner: string
  /** Known only by our cookie: limits for visitors apply. */
  isVisitor: boolean
}

/** Where in a file a PDF may begin: readers look no further, and so do we. */
const HEAD_BYTES = 1024
const MAGIC = Buffer.from('%PDF-')
const FIELD_BYTES_MAX = 200

/**
 * Receives the file of a form as a stream: counted, hashed, and on the disk before the request is answered. The
 * mapping may come after the file, so it is checked after the whole form was read.
 */
export async function receive(request: FastifyRequest, sender: Sender, options: ReceiveOptions): Promise<Received> {
  const permit = sender.isVisitor ? await options.visitors.admit(request, sender.owner) : null
  if (permit !== null && 'kind' in permit) {
    discardBody(request)
    return permit
  }
  let keptBytes = 0
  try {
    const received = await receiveWith(permit, request, sender, options)
    if (received.kind === 'created') keptBytes = received.bytes
    return received
  } finally {
    permit?.end(keptBytes)
  }
}

async function receiveWith(
  permit: UploadPermit | null,
  request: FastifyRequest,
  { owner }: Sender,
  options: ReceiveOptions,
): Promise<Received> {
  const { app, files, convert, log } = options
  const jobId = app.newId()
  const upload: Upload = { fileName: null, mapping: 'text', stored: null }
  const record = (refused: 'NOT_PDF' | 'IO_ERROR') => {
    const { fileName, mapping } = upload
    const input = { fileName: fileName ?? 'unnamed', mapping: mapping.slice(0, 100), bytes: 0, sha256: null, refused }
    return convert.submit(input, { owner, id: jobId })
  }
  let isKept = false
  try {
    await takeParts(request, upload, sourceKey(jobId), files)
    const received = await submitted(upload, { owner, id: jobId, permit }, options)
    isKept = received.kind === 'created'
    return received
  } catch (error) {
    discardBody(request)
    if (error instanceof NotPdf) {
      await record('NOT_PDF')
      return refusal('NOT_PDF', 400, jobId)
    }
    if (!(error instanceof RedressError)) return unreadable(error, request)
    if (error.code === 'ARTIFACT_TOO_LARGE') return refusal('TOO_LARGE', 413)
    if (!STORAGE.has(error.code)) throw error
    if (error.code === 'STORAGE_FULL' && (await files.uploads.pressure()) === 'hard') return paused()
    log.error({ event: 'upload_failed', job_id: jobId, error_code: 'IO_ERROR', err: error }, 'an upload was not stored')
    await record('IO_ERROR')
    return refusal('IO_ERROR', 500, jobId)
  } finally {
    // A file without a job would only take room.
    if (upload.stored !== null && !isKept) await files.uploads.remove(sourceKey(jobId))
  }
}

/** The fields of the form that have arrived so far. */
interface Upload {
  fileName: string | null
  mapping: string
  stored: StoredArtifact | null
}

const STORAGE: ReadonlySet<string> = new Set(['STORAGE_FULL', 'STORAGE_FAILED'])

async function takeParts(request: FastifyRequest, upload: Upload, key: string, { uploads }: Files): Promise<void> {
  // The store counts, and stops at the first byte too many; the reader of forms would hand over a file cut short.
  const limits = { files: 1, fields: 10, parts: 11, fieldSize: FIELD_BYTES_MAX, fileSize: UPLOAD_BYTES_MAX + 1 }
  for await (const part of request.parts({ limits })) {
    if (part.type === 'field') {
      if (part.fieldname === 'mapping' && typeof part.value === 'string') upload.mapping = part.value.trim() || 'text'
      continue
    }
    // A form that was sent without choosing one has a file without a name.
    if (part.filename === '') {
      part.file.resume()
      continue
    }
    upload.fileName = plainFileName(part.filename, 'unnamed.pdf')
    upload.stored = await uploads.put(key, pdfOnly(part.file), {
      bytesMax: UPLOAD_BYTES_MAX,
      contentType: 'application/pdf',
      keepBodyOpen: true,
    })
  }
}

async function submitted(
  { fileName, mapping, stored }: Upload,
  { owner, id, permit }: { owner: string; id: string; permit: UploadPermit | null },
  options: ReceiveOptions,
): Promise<Received> {
  const { convert, settings } = options
  if (stored === null || fileName === null) return invalid('There is no file in this form.', 'Send one as `file`.')
  if (!settings.mappings.some(({ name, versions }) => isNamed(mapping, name, versions))) {
    const shown = JSON.stringify(mapping.slice(0, 100))
    const known = settings.mappings.map(({ name }) => name).join(', ')
    // E2: the answer that the gateway would give, without asking it.
    const action = `There is no mapping ${shown}. Choose one of ${known}.`
    return { kind: 'refused', status: 400, code: 'GW_4XX', message: CODES.GW_4XX.message, action }
  }
  const { bytes, sha256 } = stored
  const tooMuch = permit?.refuse(bytes) ?? null
  if (tooMuch !== null) return tooMuch
  const how = {
    owner,
    id,
    dedupe: [owner, sha256, mapping, bytes],
    ...(permit !== null && { limitKey: permit.limitKey, priority: permit.priority }),
  }
  const submit = () => convert.submit({ fileName, mapping, bytes, sha256 }, how)
  const first = await submit()
  const { id: jobId, isNew } = first.isNew || !(await hasLostResult(first.id, options)) ? first : await submit()
  return isNew ? { kind: 'created', jobId, bytes } : { kind: 'twin', jobId }
}

const isNamed = (mapping: string, name: string, versions: readonly number[]): boolean =>
  mapping === name || versions.some((version) => mapping === `${name}@${version}`)

/**
 * A complete twin whose XML was removed by hand or damaged would be the answer to every further upload of this file.
 * It is marked as expired, so that the next submission makes a new job.
 */
async function hasLostResult(id: string, { app, files }: ReceiveOptions): Promise<boolean> {
  if ((await app.jobs.find(id))?.status !== 'complete' || (await existingResult(files.results, id)) !== null)
    return false
  await app.markExpired(id, 'its result is not there any more, or is damaged')
  return true
}

class NotPdf extends Error {}

/** Checks the content, not the name (D35), and fails before the rest of the file has arrived. */
async function* pdfOnly(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let head: Buffer | null = Buffer.alloc(0)
  for await (const chunk of chunks) {
    if (head === null) yield chunk
    else {
      head = Buffer.concat([head, chunk])
      if (head.subarray(0, HEAD_BYTES).includes(MAGIC)) {
        yield head
        head = null
      } else if (head.length >= HEAD_BYTES) throw new NotPdf()
    }
  }
  if (head !== null) throw new NotPdf()
}

const ACTIONS: Partial<Record<Code, string>> = {
  NOT_PDF: 'Send a PDF: its first bytes are %PDF-, whatever its name is.',
  TOO_LARGE: 'Split the file, or make it smaller.',
  IO_ERROR: 'Send it again in a while.',
}

function refusal(code: Code, status: number, jobId?: string): Received {
  const { message } = CODES[code]
  return { kind: 'refused', status, code, message, action: ACTIONS[code] ?? '', ...(jobId !== undefined && { jobId }) }
}

const paused = (): Received => ({
  kind: 'refused',
  status: 507,
  code: 'IO_ERROR',
  message: 'Uploads are paused: there is no room for more files at the moment.',
  action: 'Send it again in a while. Files that were already accepted are still converted.',
})

const invalid = (message: string, action: string): Received => ({
  kind: 'refused',
  status: 400,
  code: 'REQUEST_INVALID',
  message,
  action,
})

function unreadable(error: unknown, request: FastifyRequest): Received {
  if (!isFormInvalid(error, request)) throw error
  return invalid(
    'This is not a form with one file in it.',
    'Send multipart/form-data with `file`, and `mapping` if you like.',
  )
}
