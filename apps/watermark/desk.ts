import type { FastifyReply, FastifyRequest } from 'fastify'
import type { JobType } from 'redress'
import type { Caller, MountTools } from 'redress/http'
import { Refused } from '../shared/refused.ts'
import { neededCaller, notFound, seenBy } from './access.ts'
import type { Page } from './assets.ts'
import { type CampaignDetail, viewCampaignDetail } from './campaign-view.ts'
import { type CampaignRow, findCampaign, findToken, type TokenRow } from './campaigns.ts'
import type { DetectInput } from './detecting.ts'
import type { Links } from './links.ts'
import { flash, type Pages, wantsPage } from './pages.ts'
import type { PublishingOptions } from './publishing.ts'
import type { UploadOptions } from './uploads.ts'

export interface RouteOptions extends UploadOptions, PublishingOptions {
  links: Links
  detect: JobType<DetectInput>
  pages: Pages | null
}

/** A slow line takes its time for a film; one that does not move at all is ended by the server long before. */
export const UPLOAD_MS = 4 * 3_600_000
const PAGE_MAX = 100

/** What every route of campaigns begins and ends with: who asks, about what, and how they want it answered. */
export class Desk {
  readonly options: RouteOptions
  readonly tools: MountTools

  constructor(options: RouteOptions, tools: MountTools) {
    this.options = options
    this.tools = tools
  }

  /** Pages are given to browsers, where there are pages. */
  pagesFor(request: FastifyRequest): Pages | null {
    return wantsPage(request) ? this.options.pages : null
  }

  async reading(request: FastifyRequest): Promise<Caller> {
    if (this.pagesFor(request) !== null && (await this.tools.findCaller(request)) === null) throw new Refused(SIGN_IN)
    return neededCaller(this.tools, request, 'read')
  }

  writing(request: FastifyRequest): Promise<Caller> {
    return neededCaller(this.tools, request, 'write')
  }

  async nowMs(): Promise<number> {
    return (await this.options.app.store()).nowMs()
  }

  pageOf(request: FastifyRequest, caller: Caller): Page {
    const { limit, cursor } = request.query as { limit?: string; cursor?: string }
    const wanted = Number(limit ?? PAGE_MAX)
    return {
      owner: seenBy(caller),
      limit: Number.isInteger(wanted) && wanted >= 1 ? Math.min(wanted, PAGE_MAX) : PAGE_MAX,
      before: typeof cursor === 'string' ? cursor : null,
    }
  }

  async campaignOf(request: FastifyRequest, caller: Caller): Promise<CampaignRow> {
    const { id } = request.params as { id: string }
    const campaign = await findCampaign(this.options.rows, id, seenBy(caller))
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

  /** A campaign that was made or changed: its page for a form, which says what was done; itself for a program. */
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

const SIGN_IN = {
  status: 303,
  code: 'SIGN_IN_REQUIRED',
  message: 'Campaigns are for those who have signed in.',
  action: 'Sign in.',
  headers: { location: '/sign-in' },
}
