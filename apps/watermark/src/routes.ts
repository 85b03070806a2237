import multipart from '@fastify/multipart'
import { isMissing } from '@redress/shared/artifact-stores'
import { wantsPage } from '@redress/shared/pages'
import { answerRefusals, described } from '@redress/shared/routes'
import type { FastifyInstance } from 'fastify'
import { artifactFile, type Mount, sendFile } from 'redress/http'
import { notFound, ownerOf, visibleOwner } from './access.ts'
import { API } from './api.ts'
import { findAsset, listAssets, viewAsset } from './assets/assets.ts'
import { receiveAsset } from './assets/uploads.ts'
import { addCampaignRoutes } from './campaigns/routes.ts'
import { addDownloads } from './copies/downloads.ts'
import { addTokenRoutes } from './copies/routes.ts'
import { addDetectionRoutes } from './detection/routes.ts'
import { thumbnailKey } from './files.ts'
import { addPages, flash } from './page/index.ts'
import { nextOf, RouteContext, type RouteOptions, UPLOAD_MS } from './route-context.ts'
/** Everything that campaigns answer to. */
export function watermarkRoutes(options: RouteOptions): Mount {
  return async (server, tools) => {
    const context: RouteContext = new RouteContext(
      options,
      tools,
      addPages(server, () => context),
    )
    answerRefusals(server, {
      isFor: wantsPage,
      show: (request, reply, refusal) =>
        refusal.code === 'SIGN_IN_REQUIRED'
          ? tools.sendToSignIn(request, reply)
          : context.pagesFor(request)?.refused(request, reply, refusal),
    })
    // Campaigns and their links are for those who asked, and one address answers with a page or with JSON.
    server.addHook('onRequest', async (_request, reply) => {
      void reply.headers({ 'cache-control': 'private, no-store', vary: 'accept' })
    })
    await server.register(multipart)
    addAssetRoutes(server, context)
    addCampaignRoutes(server, context)
    addTokenRoutes(server, context)
    addDetectionRoutes(server, context)
    addDownloads(server, context)
  }
}

function addAssetRoutes(server: FastifyInstance, context: RouteContext): void {
  const { rows, files } = context.options

  server.post('/assets', described(API.addAsset, { bodyMs: UPLOAD_MS }), async (request, reply) => {
    const caller = await context.writing(request)
    const asset = await receiveAsset(request, ownerOf(caller), context.options)
    if (wantsPage(request)) return flash(reply, '/campaigns', `${asset.name} was uploaded.`)
    return reply.code(201).send(viewAsset(asset))
  })

  server.get('/assets', described(API.assets), async (request) => {
    const page = context.pageOf(request, await context.reading(request))
    const assets = await listAssets(rows, page)
    return { assets: assets.map(viewAsset), nextCursor: nextOf(assets, page) }
  })

  server.get('/assets/:id/thumbnail', described(API.thumbnail), async (request, reply) => {
    const caller = await context.reading(request)
    const { id } = request.params as { id: string }
    if ((await findAsset(rows, id, visibleOwner(caller))) === null) throw notFound('asset')
    const how = { contentType: 'image/jpeg', cacheControl: 'private, max-age=3600' }
    return sendFile(request, reply, artifactFile(files.assets, thumbnailKey(id)), how).catch((error: unknown) => {
      throw isMissing(error) ? notFound('asset') : error
    })
  })
}
