import { described } from '@redress/shared/described'
import { addAssets } from '@redress/shared/page-assets'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type Caller, type Html, html } from 'redress/http'
import { mayWrite } from '../access.ts'
import { API } from '../api.ts'
import { findAsset } from '../assets/assets.ts'
import type { CampaignRow } from '../campaigns/campaigns.ts'
import type { Desk } from '../desk.ts'
import { type Pages, takeFlash } from '../pages.ts'
import { campaignDetail, liveOf } from './detail.ts'
import { detectionList, detectionReport, isSearching, liveOfDetection } from './detection.ts'
import { type DraftForm, draftForm, fieldsOf } from './forms.ts'
import { type Frame, framed, sendPage } from './frame.ts'
import { campaignList, liveOfList } from './list.ts'
import { choiceOf, Reader } from './reader.ts'
import { landingPage, preparingPage, refusedPage } from './recipient.ts'
import { addStates } from './states.ts'

const ABOVE = [{ href: '/campaigns', name: 'Campaigns' }]

/** Campaigns as people see them, and what their script asks for. */
export function addPages(server: FastifyInstance, deskOf: () => Desk): Pages {
  const addressOf = addAssets(server, {
    folder: new URL('./assets/', import.meta.url),
    path: '/campaigns/assets',
    names: ['campaigns.js', 'campaigns.css', 'rows.css'],
  })
  const stylesheets = [addressOf('app.css'), addressOf('campaigns.css'), addressOf('rows.css')]
  const files = { script: addressOf('campaigns.js'), stylesheets }
  const reader = new Reader(deskOf)
  addStates(server, deskOf, reader)

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
    const desk = deskOf()
    const caller = await desk.writing(request)
    const campaign = await desk.detail(await desk.campaignOf(request, caller))
    return draftPage(reply, caller, { fields: fieldsOf(campaign, await desk.nowMs()), problems: [] })
  })

  return {
    async campaigns(request, reply, { caller, campaigns, nextCursor }) {
      const isFirstPage = (request.query as { cursor?: unknown }).cursor === undefined
      const body = campaignList({
        ...{ campaigns, nextCursor, isFirstPage, isOwner: caller.role === 'owner', mayWrite: mayWrite(caller) },
        assetsOf: await reader.assetsOf(campaigns),
        assets: isFirstPage && mayWrite(caller) ? await reader.assetsFor(caller) : [],
        uploadBytesMax: deskOf().options.settings.uploadBytesMax,
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
        asset: await findAsset(deskOf().options.rows, campaign.assetId, null),
        choice: choiceOf(request),
        of: reader.rowsOf(request, caller, campaign),
        isOwner: caller.role === 'owner',
        uploadBytesMax: deskOf().options.settings.uploadBytesMax,
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
      // Whoever has only a link has no business with campaigns.
      const back = request.url.startsWith('/d/') ? null : '/campaigns'
      return reply.type('text/html').send(refusedPage({ refusal, back, stylesheets }))
    },
  }
}

const headed = (title: string, body: Html): Html => html`<header><h1>${title}</h1></header>${body}`

const campaignLink = ({ id, name }: CampaignRow) => ({ href: `/campaigns/${id}`, name })
