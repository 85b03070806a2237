import multipart from '@fastify/multipart'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { App, JobType, Log } from 'redress'
import type { Caller, Mount } from 'redress/http'
import { answerRefusals, Refused } from '../shared/refused.ts'
import type { Rows } from '../shared/rows.ts'
import { neededCaller, notFound, ownerOf, seenBy } from './access.ts'
import { findAsset, listAssets, type Page, viewAsset } from './assets.ts'
import { type CampaignDetail, type CampaignView, viewCampaign, viewCampaignDetail, viewToken } from './campaign-view.ts'
import {
  addCampaign,
  type CampaignRow,
  findCampaign,
  findToken,
  listCampaigns,
  revokeToken,
  tokensOf,
} from './campaigns.ts'
import { linksCsv } from './csv.ts'
import type { DetectInput } from './detecting.ts'
import { addDownloads } from './downloads.ts'
import { readClone, readDraft } from './drafts.ts'
import { type Files, isMissing, suspectKey, thumbnailKey } from './files.ts'
import type { Links } from './links.ts'
import { flash, type Pages, wantsPage } from './pages.ts'
import { type PublishingOptions, publish } from './publishing.ts'
import { receiveFile } from './receive.ts'
import { retryToken } from './retrying.ts'
import { receiveAsset, type UploadOptions } from './uploads.ts'

/** A slow line takes its time for a film; one that does not move at all is ended by the server long before. */
const UPLOAD_MS = 4 * 3_600_000
const PAGE_MAX = 100

export interface RouteOptions extends UploadOptions, PublishingOptions {
  app: App
  rows: Rows
  files: Files
  links: Links
  detect: JobType<DetectInput>
  pages: Pages | null
  log: Log
}

/** Everything that campaigns answer to. */
export function watermarkRoutes(options: RouteOptions): Mount {
  const { app, rows, files, links, settings, detect, pages } = options
  const nowMs = async () => (await app.store()).nowMs()
  const neededCampaign = async (request: FastifyRequest, caller: Caller): Promise<CampaignRow> => {
    const { id } = request.params as { id: string }
    const campaign = await findCampaign(rows, id, seenBy(caller))
    if (campaign === null) throw notFound('campaign')
    return campaign
  }

  return async (server, tools) => {
    answerRefusals(server)
    await server.register(multipart)
    const reading = (request: FastifyRequest) => neededCaller(tools, request, 'read')
    const writing = (request: FastifyRequest) => neededCaller(tools, request, 'write')
    addDownloads(server, { app, rows, files, links, isHttps: tools.isHttps })

    server.post('/assets', { config: { bodyMs: UPLOAD_MS } }, async (request, reply) => {
      const caller = await writing(request)
      const asset = await receiveAsset(request, ownerOf(caller), options)
      if (wantsPage(request)) return flash(reply, '/campaigns', `${asset.name} was uploaded.`)
      return reply.code(201).send(viewAsset(asset))
    })

    server.get('/assets', async (request) => {
      const page = pageOf(request, await reading(request))
      const assets = await listAssets(rows, page)
      return { assets: assets.map(viewAsset), nextCursor: nextOf(assets, page) }
    })

    server.get('/assets/:id/thumbnail', async (request, reply) => {
      const caller = await reading(request)
      const { id } = request.params as { id: string }
      if ((await findAsset(rows, id, seenBy(caller))) === null) throw notFound('asset')
      const found = await files.assets.get(thumbnailKey(id)).catch((error: unknown) => {
        throw isMissing(error) ? notFound('asset') : error
      })
      reply.raw.once('close', () => found.body.destroy())
      return reply.type('image/jpeg').header('cache-control', 'private, max-age=3600').send(found.body)
    })

    server.get('/campaigns', async (request, reply) => {
      const caller = await reading(request)
      const page = pageOf(request, caller)
      const rowsOfPage = await listCampaigns(rows, page)
      const campaigns: CampaignView[] = []
      for (const campaign of rowsOfPage) campaigns.push(await viewCampaign(app, campaign))
      const answer = { campaigns, nextCursor: nextOf(rowsOfPage, page) }
      return pages !== null && wantsPage(request) ? pages.campaigns(request, reply, { caller, ...answer }) : answer
    })

    const show = async (request: FastifyRequest, reply: FastifyReply, caller: Caller, campaign: CampaignRow) => {
      const detail = await viewCampaignDetail({ app, rows, links }, campaign)
      return pages !== null && wantsPage(request)
        ? pages.campaign(request, reply, { caller, campaign: detail })
        : reply.send(detail)
    }

    server.get('/campaigns/:id', async (request, reply) => {
      const caller = await reading(request)
      return show(request, reply, caller, await neededCampaign(request, caller))
    })

    /** What was made or changed: its page for a form, itself for a program. */
    const changed = async (request: FastifyRequest, reply: FastifyReply, id: string, said: string, status = 200) => {
      if (wantsPage(request)) return flash(reply, `/campaigns/${id}`, said)
      const campaign = await findCampaign(rows, id, null)
      if (campaign === null) throw notFound('campaign')
      const detail: CampaignDetail = await viewCampaignDetail({ app, rows, links }, campaign)
      return reply.code(status).send(detail)
    }

    server.post('/campaigns', async (request, reply) => {
      const caller = await writing(request)
      const atMs = await nowMs()
      const { assetId, ...draft } = readDraft(request.body, atMs)
      const asset = await findAsset(rows, assetId, seenBy(caller))
      if (asset === null) throw notFound('asset')
      const id = app.newId()
      // Who makes a campaign of another's file makes it for them.
      await addCampaign(rows, { ...draft, id, owner: asset.account_id, assetId }, () => app.newId(), atMs)
      return changed(request, reply, id, `${draft.name} is a draft.`, 201)
    })

    server.post('/campaigns/:id/publish', async (request, reply) => {
      const caller = await writing(request)
      const campaign = await neededCampaign(request, caller)
      await publish(options, campaign)
      return changed(request, reply, campaign.id, `${campaign.name} is published.`)
    })

    server.post('/campaigns/:id/clone', async (request, reply) => {
      const caller = await writing(request)
      const campaign = await neededCampaign(request, caller)
      const atMs = await nowMs()
      const { name = campaign.name, expiresAtMs = isAhead(campaign, atMs) } = readClone(request.body, atMs)
      const recipients = (await tokensOf(rows, campaign.id)).map((token) => ({
        name: token.recipient_name,
        email: token.recipient_email,
      }))
      const id = app.newId()
      const clone = {
        id,
        owner: campaign.account_id,
        assetId: campaign.asset_id,
        name,
        maxDownloads: campaign.max_downloads,
        expiresAtMs,
        visible: campaign.visible_wm === 1,
        invisible: campaign.invisible_wm === 1,
        recipients,
      }
      await addCampaign(rows, clone, () => app.newId(), atMs)
      return changed(request, reply, id, `${name} is a draft.`, 201)
    })

    const neededToken = async (request: FastifyRequest, campaign: CampaignRow) => {
      const { tokenId } = request.params as { tokenId: string }
      const token = await findToken(rows, tokenId)
      if (token === null || token.campaign_id !== campaign.id) throw notFound('token')
      return token
    }

    server.post('/campaigns/:id/tokens/:tokenId/retry', async (request, reply) => {
      const caller = await writing(request)
      const campaign = await neededCampaign(request, caller)
      const token = await neededToken(request, campaign)
      const job = await app.find(token.id)
      const { state } = viewToken(token, job, campaign, await viewCampaign(app, campaign), links, await nowMs())
      if (state !== 'FAILED' || !(await retryToken(app, caller, token))) {
        if (pages === null || !wantsPage(request)) throw new Refused(NOT_FAILED)
        const detail = await viewCampaignDetail({ app, rows, links }, campaign)
        return pages.campaign(request, reply.code(400), { caller, campaign: detail, flash: NOT_FAILED.message })
      }
      return changed(request, reply, campaign.id, `Retry queued for ${token.recipient_name}.`)
    })

    server.post('/campaigns/:id/tokens/:tokenId/revoke', async (request, reply) => {
      const caller = await writing(request)
      const campaign = await neededCampaign(request, caller)
      const token = await neededToken(request, campaign)
      await revokeToken(rows, campaign.id, token.id, await nowMs())
      return changed(request, reply, campaign.id, `The link of ${token.recipient_name} is revoked.`)
    })

    server.get('/campaigns/:id/links.csv', async (request, reply) => {
      const caller = await reading(request)
      const campaign = await neededCampaign(request, caller)
      if (campaign.state === 'DRAFT') throw new Refused(NOT_PUBLISHED)
      const { tokens, id } = await viewCampaignDetail({ app, rows, links }, campaign)
      const origin = settings.publicUrl ?? `${tools.isHttps ? 'https' : request.protocol}://${request.host}`
      return reply
        .type('text/csv; charset=utf-8')
        .header('cache-control', 'private, no-store')
        .header('content-disposition', `attachment; filename="links-${id}.csv"`)
        .send(linksCsv(tokens, origin))
    })

    server.post('/campaigns/:id/detect', { config: { bodyMs: UPLOAD_MS } }, async (request, reply) => {
      const caller = await writing(request)
      const campaign = await neededCampaign(request, caller)
      if (campaign.state === 'DRAFT') throw new Refused(NOT_PUBLISHED)
      const jobId = app.newId()
      const { fileName } = await receiveFile(request, files.assets, suspectKey(jobId), settings.uploadBytesMax)
      await detect.submit({ campaignId: campaign.id, fileName }, { id: jobId, owner: campaign.account_id })
      if (wantsPage(request)) return flash(reply, `/campaigns/${campaign.id}`, `${fileName} is being looked at.`)
      const job = await app.performAs(caller, 'jobs.show', { id: jobId })
      return reply.code(202).header('location', `/api/jobs/${jobId}`).send(job)
    })
  }
}

const isAhead = ({ expires_at }: CampaignRow, atMs: number): number | null =>
  expires_at !== null && expires_at > atMs ? expires_at : null

function pageOf(request: FastifyRequest, caller: Caller): Page {
  const { limit, cursor } = request.query as { limit?: string; cursor?: string }
  const wanted = Number(limit ?? PAGE_MAX)
  return {
    owner: seenBy(caller),
    limit: Number.isInteger(wanted) && wanted >= 1 ? Math.min(wanted, PAGE_MAX) : PAGE_MAX,
    before: typeof cursor === 'string' ? cursor : null,
  }
}

const nextOf = (page: readonly { id: string }[], { limit }: Page): string | null =>
  page.length < limit ? null : (page.at(-1)?.id ?? null)

const NOT_FAILED = {
  status: 400,
  code: 'TOKEN_NOT_FAILED',
  message: 'Token is not in a failed state.',
  action: 'Look at the campaign again: it may have moved on since you looked.',
}

const NOT_PUBLISHED = {
  status: 409,
  code: 'CAMPAIGN_NOT_PUBLISHED',
  message: 'This campaign is a draft: it has no links and no copies yet.',
  action: 'Publish it first.',
}
