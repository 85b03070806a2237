import { addAssets } from '@redress/shared/pages'
import { described, type Refusal } from '@redress/shared/routes'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type Caller, type Html, html } from 'redress/http'
import { mayWrite } from '../access.ts'
import { API } from '../api.ts'
import { findAsset } from '../assets/assets.ts'
import type { CampaignRow } from '../campaigns/campaigns.ts'
import type { DraftProblem } from '../campaigns/drafts.ts'
import type { CampaignDetail, CampaignView } from '../campaigns/view.ts'
import type { DetectionView } from '../detection/detections.ts'
import type { RouteContext } from '../route-context.ts'
import { campaignDetail, liveOf } from './detail.ts'
import { detectionList, detectionReport, isSearching, liveOfDetection } from './detection.ts'
import { type DraftForm, draftForm, fieldsOf } from './forms.ts'
import { type Frame, framed, sendPage } from './frame.ts'
import { campaignList, liveOfList } from './list.ts'
import { addStates, choiceOf, Reader } from './reader.ts'
import { landingPage, preparingPage, refusedPage } from './recipient.ts'

const ABOVE = [{ href: '/campaigns', name: 'Campaigns' }]

/** Campaigns as people see them, and what their script asks for. */
export function addPages(server: FastifyInstance, contextOf: () => RouteContext): Pages {
  const addressOf = addAssets(server, {
    folder: new URL('./assets/', import.meta.url),
    path: '/campaigns/assets',
    names: ['campaigns.js', 'campaigns.css', 'rows.css'],
  })
  const stylesheets = [addressOf('app.css'), addressOf('campaigns.css'), addressOf('rows.css')]
  const files = { script: addressOf('campaigns.js'), stylesheets }
  const reader = new Reader(contextOf)
  addStates(server, contextOf, reader)

  const frameOf = (
    request: FastifyRequest,
    reply: Parameters<typeof takeFlash>[1],
    rest: Omit<Frame, 'said' | 'isStill'>,
  ): Frame => {
    const said = takeFlash(request, reply)
    return {
      ...rest,
      isStill: (request.query as { still?: unknown }).still === 'yes',
      said: said === null ? null : { text: said, isProblem: false },
    }
  }

  const draftPage = async (reply: FastifyReply, caller: Caller, form: Pick<DraftForm, 'fields' | 'problems'>) => {
    const assets = await reader.assetsFor(caller, form.fields.assetId)
    const body = headed('New campaign', draftForm({ assets, isOwner: caller.role === 'owner', ...form }))
    const still = { said: null, live: null, isReloading: false, isStill: false }
    return sendPage(reply, framed({ title: 'New campaign', caller, ...still, above: ABOVE }, body, files))
  }

  // A clone is a draft that can be corrected before it is one: its file may have been damaged, its end may have passed.
  server.get('/campaigns/:id/clone', described(API.cloneForm), async (request, reply) => {
    const context = contextOf()
    const caller = await context.writing(request)
    const campaign = await context.detail(await context.campaignOf(request, caller))
    return draftPage(reply, caller, { fields: fieldsOf(campaign, await context.nowMs()), problems: [] })
  })

  return {
    async campaigns(request, reply, { caller, campaigns, nextCursor }) {
      const isFirstPage = (request.query as { cursor?: unknown }).cursor === undefined
      const body = campaignList({
        ...{ campaigns, nextCursor, isFirstPage, isOwner: caller.role === 'owner', mayWrite: mayWrite(caller) },
        assetsOf: await reader.assetsOf(campaigns),
        assets: isFirstPage && mayWrite(caller) ? await reader.assetsFor(caller) : [],
        uploadBytesMax: contextOf().options.settings.uploadBytesMax,
      })
      const live = liveOfList(campaigns)
      const isReloading = campaigns.some(({ state }) => state === 'PROCESSING')
      const frame = frameOf(request, reply, { title: 'Campaigns', caller, live, isReloading, above: [] })
      return sendPage(reply, framed(frame, body, files))
    },

    draftAgain: (_request, reply, { caller, fields, problems }) => draftPage(reply, caller, { fields, problems }),

    async campaign(request, reply, { caller, campaign, flash }) {
      const body = campaignDetail({
        campaign,
        asset: await findAsset(contextOf().options.rows, campaign.assetId, null),
        choice: choiceOf(request),
        of: reader.rowsOf(request, caller, campaign),
        isOwner: caller.role === 'owner',
        uploadBytesMax: contextOf().options.settings.uploadBytesMax,
      })
      const isReloading = campaign.state === 'PROCESSING' && request.method === 'GET'
      const rest = { title: campaign.name, caller, live: liveOf(campaign), isReloading, above: ABOVE }
      const problem = flash === undefined ? null : { text: flash, isProblem: true }
      const frame = frameOf(request, reply, rest)
      return sendPage(reply, framed({ ...frame, said: problem ?? frame.said }, body, files))
    },

    async detections(request, reply, { caller, campaign, detections }) {
      const above = [...ABOVE, campaignLink(campaign)]
      const isReloading = detections.some(isSearching)
      const frame = frameOf(request, reply, { title: 'Searches', caller, live: null, isReloading, above })
      return sendPage(reply, framed(frame, detectionList(campaign.name, detections), files))
    },

    async detection(request, reply, { caller, campaign, detection }) {
      const searches = { href: `/campaigns/${campaign.id}/detections`, name: 'Searches' }
      const above = [...ABOVE, campaignLink(campaign), searches]
      const rest = { title: detection.fileName, caller, live: liveOfDetection(detection), above }
      const frame = frameOf(request, reply, { ...rest, isReloading: isSearching(detection) })
      return sendPage(reply, framed(frame, detectionReport(detection), files))
    },

    landing: (_request, reply, shown) => reply.type('text/html').send(landingPage({ ...shown, stylesheets })),

    preparing: (_request, reply, { progress }) =>
      reply.type('text/html').send(preparingPage({ progress, stylesheets })),

    refused(request, reply, refusal) {
      // A recipient with only a link gets no link to the campaigns.
      const back = request.url.startsWith('/d/') ? null : '/campaigns'
      return reply.type('text/html').send(refusedPage({ refusal, back, stylesheets }))
    },
  }
}

const headed = (title: string, body: Html): Html => html`<header><h1>${title}</h1></header>${body}`

const campaignLink = ({ id, name }: CampaignRow) => ({ href: `/campaigns/${id}`, name })

/** The HTML answers. Routes use them for browsers. */
export interface Pages {
  campaigns(
    request: FastifyRequest,
    reply: FastifyReply,
    shown: { caller: Caller; campaigns: CampaignView[]; nextCursor: string | null },
  ): unknown
  /** A form that was refused, with everything that was typed into it. */
  draftAgain(
    request: FastifyRequest,
    reply: FastifyReply,
    shown: { caller: Caller; fields: Readonly<Record<string, string>>; problems: readonly DraftProblem[] },
  ): unknown
  /** `flash` is the problem of the form that led here. Messages after a redirect are in a cookie. */
  campaign(
    request: FastifyRequest,
    reply: FastifyReply,
    shown: { caller: Caller; campaign: CampaignDetail; flash?: string },
  ): unknown
  detections(
    request: FastifyRequest,
    reply: FastifyReply,
    shown: { caller: Caller; campaign: CampaignRow; detections: DetectionView[] },
  ): unknown
  detection(
    request: FastifyRequest,
    reply: FastifyReply,
    shown: { caller: Caller; campaign: CampaignRow; detection: DetectionView },
  ): unknown
  /** A recipient opened a link. `left` is the number of downloads left; null if unlimited. */
  landing(
    request: FastifyRequest,
    reply: FastifyReply,
    shown: { action: string; fileName: string; bytes: number; left: number | null },
  ): unknown
  /** A recipient opened a link before the copy was there. */
  preparing(request: FastifyRequest, reply: FastifyReply, shown: { progress: number }): unknown
  /** Status and headers are there already. */
  refused(request: FastifyRequest, reply: FastifyReply, refusal: Refusal): unknown
}

const FLASH = 'wm-flash'
const FLASH_PATH = '/campaigns'
const FLASH_SECONDS = 60

/**
 * Redirects to a page that shows a message once. The message is in a cookie: text in a URL could be written by
 * anyone.
 */
export function flash(reply: FastifyReply, path: string, said: string): FastifyReply {
  return reply
    .setCookie(FLASH, said, { path: FLASH_PATH, httpOnly: true, sameSite: 'lax', maxAge: FLASH_SECONDS })
    .redirect(path, 303)
}

/** The pending message, which is removed by reading it. */
function takeFlash(request: FastifyRequest, reply: FastifyReply): string | null {
  const said = request.cookies[FLASH] ?? ''
  if (said === '') return null
  void reply.clearCookie(FLASH, { path: FLASH_PATH })
  return said
}
