import type { Rows } from '@redress/shared/rows'
import type { App } from 'redress'
import type { MountTools } from 'redress/http'
import { ownerOf } from '../access.ts'
import { findCampaign, findToken } from '../campaigns/campaigns.ts'
import { MARK_TYPES } from './marking.ts'

/** W34: `token_failed`, for whoever looks at the token or at its campaign, when a copy is failed for good. */
export function mapEvents(app: App): void {
  const types: ReadonlySet<string> = new Set(MARK_TYPES)
  app.hub.map((event) => {
    if (event.subject !== null || event.kind !== 'failed' || !types.has(event.type)) return []
    const { jobId, batchId, failure } = event
    const topics = [`token:${jobId}`, ...(batchId === null ? [] : [`campaign:${batchId}`])]
    return [{ topics, event: 'token_failed', data: { token_id: jobId, error: failure?.message ?? '' } }]
  })
}

/** Owners hear of their own. */
export function letOwnersHear({ letHear }: Pick<MountTools, 'letHear'>, rows: Rows): void {
  letHear('campaign', async (caller, id) => (await findCampaign(rows, id, ownerOf(caller))) !== null)
  letHear('token', async (caller, id) => {
    const token = await findToken(rows, id)
    return token !== null && (await findCampaign(rows, token.campaign_id, ownerOf(caller))) !== null
  })
}
