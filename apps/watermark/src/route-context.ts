import { wantsPage } from '@redress/shared/pages'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { JobType } from 'redress'
import type { Caller, MountTools } from 'redress/http'
import { notFound, requireCaller, visibleOwner } from './access.ts'
import type { Page } from './assets/assets.ts'
import type { UploadOptions } from './assets/uploads.ts'
import { type CampaignRow, findCampaign, findToken, type TokenRow } from './campaigns/campaigns.ts'
import type { PublishingOptions } from './campaigns/lifecycle.ts'
import { type CampaignDetail, viewCampaignDetail } from './campaigns/view.ts'
import type { Links } from './copies/links.ts'
import type { DetectInput } from './detection/detect-job.ts'
import { flash, type Pages } from './page/index.ts'

export interface RouteOptions extends UploadOptions, PublishingOptions {
  links: Links
  detect: JobType<DetectInput>
}

/** Time for a film over a slow connection. It is the maximum that the server allows. */
export const UPLOAD_MS = 30 * 60_000
const PAGE_MAX = 100
/** A page hears of each campaign that it shows, and a stream has at most 50 topics. */
const SHOWN_MAX = 40

/** The steps that all campaign routes share: find the caller and the campaign, and answer as a page or as JSON. */
export class RouteContext {
  readonly options: RouteOptions
  readonly tools: MountTools
  readonly pages: Pages

  constructor(options: RouteOptions, tools: MountTools, pages: Pages) {
    this.options = options
    this.tools = tools
    this.pages = pages
  }

  /** For browsers; null for programs. */
  pagesFor(request: FastifyRequest): Pages | null {
    return wantsPage(request) ? this.pages : null
  }

  reading(request: FastifyRequest): Promise<Caller> {
    return requireCaller(this.tools, request, 'read')
  }

  writing(request: FastifyRequest): Promise<Caller> {
    return requireCaller(this.tools, request, 'write')
  }

  async nowMs(): Promise<number> {
    return (await this.options.app.store()).nowMs()
  }

  pageOf(request: FastifyRequest, caller: Caller): Page {
    const { limit, cursor } = request.query as { limit?: string; cursor?: string }
    const most = wantsPage(request) ? SHOWN_MAX : PAGE_MAX
    const wanted = Number(limit ?? most)
    return {
      owner: visibleOwner(caller),
      limit: Number.isInteger(wanted) && wanted >= 1 ? Math.min(wanted, most) : most,
      before: typeof cursor === 'string' ? cursor : null,
    }
  }

  /** Under which recipients reach this server. */
  originOf(request: FastifyRequest): string {
    const scheme = this.tools.isHttps ? 'https' : request.protocol
    return this.options.settings.publicUrl ?? `${scheme}://${request.host}`
  }

  async campaignOf(request: FastifyRequest, caller: Caller): Promise<CampaignRow> {
    const { id } = request.params as { id: string }
    const campaign = await findCampaign(this.options.rows, id, visibleOwner(caller))
    if (campaign === null) throw notFound('campaign')
    return campaign
  }

  async tokenOf(request: FastifyRequest, campaign: CampaignRow): Promise<TokenRow> {
    const { tokenId } = request.params as { tokenId: string }
    const token = await findToken(this.options.rows, tokenId)
    if (token === null || token.campaign_id !== campaign.id) throw notFound('token')
    return token
  }

  detail(campaign: CampaignRow): Promise<CampaignDetail> {
    return viewCampaignDetail(this.options, campaign)
  }

  /**
   * Answers after a campaign was made or changed: with a redirect and a message for a form, with the campaign for a
   * program.
   */
  async changed(request: FastifyRequest, reply: FastifyReply, id: string, said: string, status = 200) {
    if (wantsPage(request)) return flash(reply, `/campaigns/${id}`, said)
    const campaign = await findCampaign(this.options.rows, id, null)
    if (campaign === null) throw notFound('campaign')
    return reply.code(status).send(await this.detail(campaign))
  }
}

/** Where the next page begins; null after the last. */
export const nextOf = (page: readonly { id: string }[], { limit }: Page): string | null =>
  page.length < limit ? null : (page.at(-1)?.id ?? null)
