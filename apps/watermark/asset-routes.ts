import type { FastifyInstance } from 'fastify'
import { artifactFile, sendFile } from 'redress/http'
import { wantsPage } from '../shared/page-requests.ts'
import { isMissing } from '../shared/stores.ts'
import { notFound, ownerOf, seenBy } from './access.ts'
import { findAsset, listAssets, viewAsset } from './assets.ts'
import { type Desk, nextOf, UPLOAD_MS } from './desk.ts'
import { thumbnailKey } from './files.ts'
import { flash } from './pages.ts'
import { receiveAsset } from './uploads.ts'

export function addAssetRoutes(server: FastifyInstance, desk: Desk): void {
  const { rows, files } = desk.options

  server.post('/assets', { config: { bodyMs: UPLOAD_MS } }, async (request, reply) => {
    const caller = await desk.writing(request)
    const asset = await receiveAsset(request, ownerOf(caller), desk.options)
    if (wantsPage(request)) return flash(reply, '/campaigns', `${asset.name} was uploaded.`)
    return reply.code(201).send(viewAsset(asset))
  })

  server.get('/assets', async (request) => {
    const page = desk.pageOf(request, await desk.reading(request))
    const assets = await listAssets(rows, page)
    return { assets: assets.map(viewAsset), nextCursor: nextOf(assets, page) }
  })

  server.get('/assets/:id/thumbnail', async (request, reply) => {
    const caller = await desk.reading(request)
    const { id } = request.params as { id: string }
    if ((await findAsset(rows, id, seenBy(caller))) === null) throw notFound('asset')
    const how = { contentType: 'image/jpeg', cacheControl: 'private, max-age=3600' }
    return sendFile(request, reply, artifactFile(files.assets, thumbnailKey(id)), how).catch((error: unknown) => {
      throw isMissing(error) ? notFound('asset') : error
    })
  })
}
