import { formFields } from '@redress/shared/pages'
import { described, Refused } from '@redress/shared/routes'
import type { FastifyInstance } from 'fastify'
import { notFound, visibleOwner } from '../access.ts'
import { API } from '../api.ts'
import { findAsset } from '../assets/assets.ts'
import { nextOf, type RouteContext } from '../route-context.ts'
import { addCampaign, listCampaigns, tokensOf } from './campaigns.ts'
import { checkNames, DraftRefused, readClone, readDraft, readDraftForm, readStop } from './drafts.ts'
import { publish, stop } from './lifecycle.ts'
import { type CampaignView, viewCampaign } from './view.ts'

export function addCampaignRoutes(server: FastifyInstance, context: RouteContext): void {
  const { app, rows, media } = context.options
  const newId = () => app.newId()

  server.get('/campaigns', described(API.campaigns), async (request, reply) => {
    const caller = await context.reading(request)
    const page = context.pageOf(request, caller)
    const found = await listCampaigns(rows, page)
    const campaigns: CampaignView[] = []
    for (const campaign of found) campaigns.push(await viewCampaign(context.options, campaign))
    const answer = { campaigns, nextCursor: nextOf(found, page) }
    return context.pagesFor(request)?.campaigns(request, reply, { caller, ...answer }) ?? reply.send(answer)
  })

  server.get('/campaigns/:id', described(API.campaign), async (request, reply) => {
    const caller = await context.reading(request)
    const campaign = await context.detail(await context.campaignOf(request, caller))
    return context.pagesFor(request)?.campaign(request, reply, { caller, campaign }) ?? reply.send(campaign)
  })

  server.post('/campaigns', described(API.addCampaign), async (request, reply) => {
    const caller = await context.writing(request)
    const nowMs = await context.nowMs()
    const pages = context.pagesFor(request)
    const fields = formFields(request)
    try {
      const { assetId, ...draft } = fields === null ? readDraft(request.body, nowMs) : readDraftForm(fields, nowMs)
      const asset = await findAsset(rows, assetId, visibleOwner(caller))
      if (asset === null) throw notFound('asset')
      if (draft.visible) await checkNames(media, namesOf(draft.recipients))
      const id = newId()
      // A campaign belongs to the owner of its file, not to the person who makes it.
      await addCampaign(rows, { ...draft, id, owner: asset.account_id, assetId }, newId, nowMs)
      return await context.changed(request, reply, id, `${draft.name} is a draft.`, 201)
    } catch (error) {
      if (pages === null || fields === null || !(error instanceof Refused)) throw error
      const { message } = error.refusal
      const problems = error instanceof DraftRefused ? error.problems : [{ field: 'assetId', message }]
      return pages.draftAgain(request, reply.code(400), { caller, fields, problems })
    }
  })

  server.post('/campaigns/:id/publish', described(API.publish), async (request, reply) => {
    const caller = await context.writing(request)
    const campaign = await context.campaignOf(request, caller)
    if (campaign.state === 'DRAFT' && campaign.visible_wm === 1) {
      const tokens = await tokensOf(rows, campaign.id)
      await checkNames(
        media,
        tokens.map(({ recipient_name }) => recipient_name),
      )
    }
    await publish(context.options, campaign)
    return context.changed(request, reply, campaign.id, `${campaign.name} is published.`)
  })

  server.post('/campaigns/:id/stop', described(API.stop), async (request, reply) => {
    const caller = await context.writing(request)
    const campaign = await context.campaignOf(request, caller)
    const { reason } = readStop(request.body)
    await stop(context.options, campaign, { actor: caller.name, reason })
    return context.changed(request, reply, campaign.id, `${campaign.name} is stopped.`)
  })

  server.post('/campaigns/:id/clone', described(API.clone), async (request, reply) => {
    const caller = await context.writing(request)
    const campaign = await context.campaignOf(request, caller)
    const nowMs = await context.nowMs()
    const changes = readClone(request.body, nowMs)
    const asset = await findAsset(rows, changes.assetId ?? campaign.asset_id, visibleOwner(caller))
    // A campaign is made for whom its file belongs to.
    if (asset === null || asset.account_id !== campaign.account_id) throw notFound('asset')
    const { expires_at: endMs } = campaign
    const id = newId()
    const clone = {
      id,
      owner: campaign.account_id,
      assetId: asset.id,
      name: changes.name ?? campaign.name,
      maxDownloads: campaign.max_downloads,
      // An end in the past is left out.
      expiresAtMs:
        changes.expiresAtMs !== undefined ? changes.expiresAtMs : endMs !== null && endMs > nowMs ? endMs : null,
      visible: campaign.visible_wm === 1,
      invisible: campaign.invisible_wm === 1,
      recipients: (await tokensOf(rows, campaign.id)).map(({ recipient_name, recipient_email }) => ({
        name: recipient_name,
        email: recipient_email,
      })),
    }
    if (clone.visible) await checkNames(media, namesOf(clone.recipients))
    await addCampaign(rows, clone, newId, nowMs)
    return context.changed(request, reply, id, `${clone.name} is a draft.`, 201)
  })
}

const namesOf = (recipients: readonly { name: string }[]): string[] => recipients.map(({ name }) => name)
