import { described } from '@redress/shared/routes'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Caller } from 'redress/http'
import { mayWrite, notFound, visibleOwner } from '../access.ts'
import { API } from '../api.ts'
import { type AssetRow, findAsset, listAssets } from '../assets/assets.ts'
import { findCampaign } from '../campaigns/campaigns.ts'
import { type CampaignView, viewCampaign, viewCampaignPart } from '../campaigns/view.ts'
import { findDetection } from '../detection/detections.ts'
import type { RouteContext } from '../route-context.ts'
import { bannerPart, type Choice, headPart, liveOf, type RowsOf, rowsPart } from './detail.ts'
import { liveOfDetection, reportPart } from './detection.ts'
import { campaignRow } from './list.ts'

const ASSETS_OFFERED_MAX = 50

/** Reads what pages show beyond the data of their route. */
export class Reader {
  readonly #contextOf: () => RouteContext

  constructor(contextOf: () => RouteContext) {
    this.#contextOf = contextOf
  }

  async assetsOf(campaigns: readonly CampaignView[]): Promise<Map<string, AssetRow>> {
    const found = new Map<string, AssetRow>()
    for (const assetId of new Set(campaigns.map(({ assetId }) => assetId))) {
      const asset = await findAsset(this.#contextOf().options.rows, assetId, null)
      if (asset !== null) found.set(assetId, asset)
    }
    return found
  }

  /** The newest, and the one that is chosen, however old it is. */
  async assetsFor(caller: Caller, chosenId?: string): Promise<AssetRow[]> {
    const { rows } = this.#contextOf().options
    const owner = visibleOwner(caller)
    const newest = await listAssets(rows, { owner, limit: ASSETS_OFFERED_MAX, before: null })
    if (chosenId === undefined || newest.some(({ id }) => id === chosenId)) return newest
    const chosen = await findAsset(rows, chosenId, owner)
    return chosen === null ? newest : [chosen, ...newest]
  }

  rowsOf(request: FastifyRequest, caller: Caller, { id, maxDownloads }: CampaignView): RowsOf {
    return { campaignId: id, maxDownloads, origin: this.#contextOf().originOf(request), mayWrite: mayWrite(caller) }
  }
}

/** Ignores parameters that do not have the expected form. */
export function choiceOf(request: FastifyRequest): Choice {
  const { show, page } = request.query as { show?: unknown; page?: unknown }
  const number = typeof page === 'string' && /^[1-9]\d{0,3}$/.test(page) ? Number(page) : 1
  return { isFailedOnly: show === 'failed', page: number }
}

/** The changed parts of a page, as markup that its script inserts. */
interface State {
  /** null: its rows know, each for itself. */
  isLive: boolean | null
  /** By the id of the element that has it inside. */
  parts: Record<string, string>
  rows: { id: string; html: string }[]
}

/** As many rows as a page can have. */
const ROWS_MAX = 100

/** The routes return only the requested rows: a campaign may have a thousand. */
export function addStates(server: FastifyInstance, contextOf: () => RouteContext, reader: Reader): void {
  server.get('/campaigns/state', described(API.campaignsState), async (request, reply) => {
    const context = contextOf()
    const caller = await context.reading(request)
    const campaigns: CampaignView[] = []
    for (const id of idsOf(request)) {
      const campaign = await findCampaign(context.options.rows, id, visibleOwner(caller))
      if (campaign !== null) campaigns.push(await viewCampaign(context.options, campaign))
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
    const context = contextOf()
    const caller = await context.reading(request)
    const campaign = await viewCampaignPart(context.options, await context.campaignOf(request, caller), idsOf(request))
    const state: State = {
      isLive: liveOf(campaign).isLive,
      parts: { 'part-head': headPart(campaign).text, 'part-banner': bannerPart(campaign)?.text ?? '' },
      rows: rowsPart(campaign.tokens, reader.rowsOf(request, caller, campaign)),
    }
    return reply.header('cache-control', 'no-store').send(state)
  })

  server.get('/campaigns/:id/detections/:detectionId/state', described(API.detectionState), async (request, reply) => {
    const context = contextOf()
    const caller = await context.reading(request)
    const { app, rows } = context.options
    const campaign = await context.campaignOf(request, caller)
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
