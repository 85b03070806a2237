import { described } from '@redress/shared/described'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { notFound, seenBy } from '../access.ts'
import { API } from '../api.ts'
import { findCampaign } from '../campaigns/campaigns.ts'
import { type CampaignView, viewCampaign, viewCampaignPart } from '../campaigns/view.ts'
import type { Desk } from '../desk.ts'
import { findDetection } from '../detection/detections.ts'
import { bannerPart, headPart, liveOf, rowsPart } from './detail.ts'
import { liveOfDetection, reportPart } from './detection.ts'
import { campaignRow } from './list.ts'
import type { Reader } from './reader.ts'

/** What has changed on a page: markup that its script puts in the place of what it has. */
interface State {
  /** null: its rows know, each for itself. */
  isLive: boolean | null
  /** By the id of the element that has it inside. */
  parts: Record<string, string>
  rows: { id: string; html: string }[]
}

/** As many rows as a page can have. */
const ROWS_MAX = 100

/** Each answers for the rows that it is asked for by their ids, and looks at no others: a campaign may have a thousand. */
export function addStates(server: FastifyInstance, deskOf: () => Desk, reader: Reader): void {
  server.get('/campaigns/state', described(API.campaignsState), async (request, reply) => {
    const desk = deskOf()
    const caller = await desk.reading(request)
    const campaigns: CampaignView[] = []
    for (const id of idsOf(request)) {
      const campaign = await findCampaign(desk.options.rows, id, seenBy(caller))
      if (campaign !== null) campaigns.push(await viewCampaign(desk.options, campaign))
    }
    const assets = await reader.assetsOf(campaigns)
    const isOwner = caller.role === 'owner'
    const state: State = {
      isLive: null,
      parts: {},
      rows: campaigns.map((campaign) => ({
        id: campaign.id,
        html: campaignRow(campaign, assets.get(campaign.assetId) ?? null, isOwner).text,
      })),
    }
    return reply.header('cache-control', 'no-store').send(state)
  })

  server.get('/campaigns/:id/state', described(API.campaignState), async (request, reply) => {
    const desk = deskOf()
    const caller = await desk.reading(request)
    const campaign = await viewCampaignPart(desk.options, await desk.campaignOf(request, caller), idsOf(request))
    const state: State = {
      isLive: liveOf(campaign).isLive,
      parts: { 'part-head': headPart(campaign).text, 'part-banner': bannerPart(campaign)?.text ?? '' },
      rows: rowsPart(campaign.tokens, reader.rowsOf(request, caller, campaign)),
    }
    return reply.header('cache-control', 'no-store').send(state)
  })

  server.get('/campaigns/:id/detections/:detectionId/state', described(API.detectionState), async (request, reply) => {
    const desk = deskOf()
    const caller = await desk.reading(request)
    const { app, rows } = desk.options
    const campaign = await desk.campaignOf(request, caller)
    const { detectionId } = request.params as { detectionId: string }
    const detection = await findDetection(app, rows, campaign.id, detectionId)
    if (detection === null) throw notFound('detection')
    const { isLive } = liveOfDetection(detection)
    const state: State = { isLive, parts: { 'part-report': reportPart(detection).text }, rows: [] }
    return reply.header('cache-control', 'no-store').send(state)
  })
}

function idsOf({ query }: FastifyRequest): string[] {
  const { ids } = query as { ids?: unknown }
  return typeof ids === 'string' ? ids.split(',', ROWS_MAX).filter((id) => /^[\w-]{1,64}$/.test(id)) : []
}
