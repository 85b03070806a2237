import { createReadStream } from 'node:fs'
import { join } from 'node:path'
import { plainFileName } from '@redress/shared/files'
import { discardBody, isFormInvalid, Refused } from '@redress/shared/routes'
import type { FastifyRequest } from 'fastify'
import { type App, type Log, RedressError } from 'redress'
import type { ArtifactStore, StoredArtifact } from 'redress/artifacts'
import { type Files, fetchTo, inWorkFolder, sourceKey, thumbnailKey } from '../files.ts'
import { type Media, MediaError, named, type Probed } from '../media.ts'
import type { Rows } from '../rows/rows.ts'
import type { Settings } from '../settings.ts'
import { type AssetRow, addAsset } from './assets.ts'

export interface UploadOptions {
  app: App
  rows: Rows
  files: Files
  media: Media
  settings: Settings
  log: Log
}

/** Receives a video or an image and inspects it. Files that no campaign can use are refused at once. */
export async function receiveAsset(request: FastifyRequest, owner: string, options: UploadOptions): Promise<AssetRow> {
  const { app, rows, files, settings } = options
  const id = app.newId()
  const file = await receiveFile(request, files.assets, sourceKey(id), settings.uploadBytesMax)
  try {
    const probed = await inspectUpload(id, options).catch((error: unknown) => refuse(id, error, options))
    const asset: AssetRow = {
      id,
      account_id: owner,
      name: file.fileName,
      kind: probed.kind,
      bytes: file.bytes,
      sha256: file.sha256,
      width: probed.width,
      height: probed.height,
      duration_ms: Math.round(probed.durationMs),
      codec: probed.codec,
      created_at: await (await app.store()).nowMs(),
    }
    await addAsset(rows, asset)
    return asset
  } catch (error) {
    // A file without a row would only take room.
    await Promise.all([files.assets.remove(sourceKey(id)), files.assets.remove(thumbnailKey(id))])
    throw error
  }
}

async function inspectUpload(id: string, { files, media }: UploadOptions): Promise<Probed> {
  return inWorkFolder(files.work, id, 0, async (folder) => {
    const [source, thumbnail] = [join(folder, 'source'), join(folder, 'thumbnail.jpg')]
    await fetchTo(files.assets, sourceKey(id), source)
    const probed = await media.probe(source)
    await media.thumbnail(source, thumbnail)
    await files.assets.put(thumbnailKey(id), createReadStream(thumbnail), { contentType: 'image/jpeg' })
    return probed
  })
}

/**
 * A bad file is refused permanently. A problem of the machine (no room, no program, no rights) is refused
 * temporarily.
 */
function refuse(id: string, error: unknown, { log }: UploadOptions): never {
  const failure = named(error, 'prepare')
  if (!(failure instanceof MediaError)) throw error
  const { code, isPermanent, message, action } = failure
  if (isPermanent) throw new Refused({ status: 400, code, message, action })
  log.error({ event: 'upload_failed', asset_id: id, err: failure }, 'an upload could not be checked')
  const isFull = code === 'DISK_FULL'
  throw new Refused({
    status: isFull ? 507 : 503,
    code,
    message: isFull ? 'There is no room to check the file.' : 'The file could not be checked.',
    action: 'Send it again in a while.',
  })
}

interface ReceivedFile extends StoredArtifact {
  fileName: string
}

/**
 * Receives the one file of a form as a stream: counted, hashed, and stored before the request is answered. A refused
 * file leaves nothing behind.
 */
export async function receiveFile(
  request: FastifyRequest,
  store: ArtifactStore,
  key: string,
  bytesMax: number,
): Promise<ReceivedFile> {
  let received: ReceivedFile | null = null
  try {
    // The store counts, and stops at the first byte too many; the reader of forms would hand over a file cut short.
    const limits = { files: 1, fields: 10, parts: 11, fieldSize: 1_000, fileSize: bytesMax + 1 }
    for await (const part of request.parts({ limits })) {
      if (part.type === 'field') continue
      // A form that was sent without choosing one has a file without a name.
      if (part.filename === '') part.file.resume()
      else {
        const stored = await store.put(key, part.file, { bytesMax, keepBodyOpen: true })
        received = { ...stored, fileName: plainFileName(part.filename, 'unnamed') }
      }
    }
  } catch (error) {
    discardBody(request)
    if (received !== null) await store.remove(key)
    throw refusalOf(error, request, bytesMax)
  }
  if (received === null) throw invalid('There is no file in this form.')
  if (received.bytes > 0) return received
  await store.remove(key)
  throw invalid('The file in this form is empty.')
}

function refusalOf(error: unknown, request: FastifyRequest, bytesMax: number): unknown {
  if (error instanceof RedressError && error.code === 'ARTIFACT_TOO_LARGE') {
    return new Refused({
      status: 413,
      code: 'TOO_LARGE',
      message: `The file has more than ${Math.floor(bytesMax / 2 ** 20)} MB.`,
      action: 'Make it smaller, or ask for a higher limit.',
    })
  }
  if (error instanceof RedressError) return error
  return isFormInvalid(error, request) ? invalid('This is not a form with one file in it.') : error
}

const invalid = (message: string): Refused =>
  new Refused({
    status: 400,
    code: 'REQUEST_INVALID',
    message,
    action: 'Send multipart/form-data with the file as `file`.',
  })
