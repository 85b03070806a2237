import multipart from '@fastify/multipart'
import type { Mount } from 'redress/http'
import { answerRefusals } from '../shared/refused.ts'
import { addAssetRoutes } from './asset-routes.ts'
import { addCampaignRoutes } from './campaign-routes.ts'
import { Desk, type RouteOptions } from './desk.ts'
import { addDownloads } from './downloads.ts'
import { addTokenRoutes } from './token-routes.ts'

/** Everything that campaigns answer to. */
export function watermarkRoutes(options: RouteOptions): Mount {
  return async (server, tools) => {
    const desk = new Desk(options, tools)
    answerRefusals(server, (request, reply, refusal) => desk.pagesFor(request)?.refused(request, reply, refusal))
    await server.register(multipart)
    addAssetRoutes(server, desk)
    addCampaignRoutes(server, desk)
    addTokenRoutes(server, desk)
    addDownloads(server, desk)
  }
}
