import multipart from '@fastify/multipart'
import type { Mount } from 'redress/http'
import { wantsPage } from '../shared/page-requests.ts'
import { answerRefusals } from '../shared/refused.ts'
import { addAssetRoutes } from './asset-routes.ts'
import { addCampaignRoutes } from './campaign-routes.ts'
import { Desk, type RouteOptions } from './desk.ts'
import { addDetectionRoutes } from './detection-routes.ts'
import { addDownloads } from './downloads.ts'
import { addPages } from './page/index.ts'
import { addTokenRoutes } from './token-routes.ts'

/** Everything that campaigns answer to. */
export function watermarkRoutes(options: RouteOptions): Mount {
  return async (server, tools) => {
    const desk: Desk = new Desk(
      options,
      tools,
      addPages(server, () => desk),
    )
    answerRefusals(server, {
      isFor: wantsPage,
      show: (request, reply, refusal) =>
        refusal.code === 'SIGN_IN_REQUIRED'
          ? tools.sendToSignIn(request, reply)
          : desk.pagesFor(request)?.refused(request, reply, refusal),
    })
    // Campaigns and their links are for those who asked, and one address answers with a page or with JSON.
    server.addHook('onRequest', async (_request, reply) => {
      void reply.headers({ 'cache-control': 'private, no-store', vary: 'accept' })
    })
    await server.register(multipart)
    addAssetRoutes(server, desk)
    addCampaignRoutes(server, desk)
    addTokenRoutes(server, desk)
    addDetectionRoutes(server, desk)
    addDownloads(server, desk)
  }
}
