import { createReadStream } from 'node:fs'
import { join } from 'node:path'
import { Refused } from '@redress/shared/refused'
import type { Rows } from '@redress/shared/rows'
import type { FastifyRequest } from 'fastify'
import type { App, Log } from 'redress'
import { type Files, fetchTo, inWorkFolder, sourceKey, thumbnailKey } from '../files.ts'
import { type Media, MediaError, named, type Probed } from '../media.ts'
import type { Settings } from '../settings.ts'
import { type AssetRow, addAsset } from './assets.ts'
import { receiveFile } from './receive.ts'

export interface UploadOptions {
  app: App
  rows: Rows
  files: Files
  media: Media
  settings: Settings
  log: Log
}

/** Takes a video or an image, and looks into it: what no campaign could be made of is refused at once. */
export async function receiveAsset(request: FastifyRequest, owner: string, options: UploadOptions): Promise<AssetRow> {
  const { app, rows, files, settings } = options
  const id = app.newId()
  const file = await receiveFile(request, files.assets, sourceKey(id), settings.uploadBytesMax)
  try {
    const probed = await lookInto(id, options).catch((error: unknown) => refuse(id, error, options))
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

async function lookInto(id: string, { files, media }: UploadOptions): Promise<Probed> {
  return inWorkFolder(files.work, id, 0, async (folder) => {
    const [source, thumbnail] = [join(folder, 'source'), join(folder, 'thumbnail.jpg')]
    await fetchTo(files.assets, sourceKey(id), source)
    const probed = await media.probe(source)
    await media.thumbnail(source, thumbnail)
    await files.assets.put(thumbnailKey(id), createReadStream(thumbnail), { contentType: 'image/jpeg' })
    return probed
  })
}

/** A file that is at fault is refused for good; a machine that is, for a while: no room, no program, no rights. */
function refuse(id: string, error: unknown, { log }: UploadOptions): never {
  const failure = named(error, 'prepare')
  if (!(failure instanceof MediaError)) throw error
  const { code, isPermanent, message, action } = failure
  if (isPermanent) throw new Refused({ status: 400, code, message, action })
  log.error({ event: 'upload_failed', asset_id: id, err: failure }, 'an upload was not looked into')
  const isFull = code === 'DISK_FULL'
  throw new Refused({
    status: isFull ? 507 : 503,
    code,
    message: isFull ? 'There is no room to look into the file.' : 'The file could not be looked into.',
    action: 'Send it again in a while.',
  })
}
