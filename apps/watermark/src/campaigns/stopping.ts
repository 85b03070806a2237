import { Refused } from '@redress/shared/refused'
import type { Rows } from '@redress/shared/rows'
import type { App, Log, OperationOutput } from 'redress'
import { NOT_PUBLISHED } from '../access.ts'
import { type CampaignRow, endCampaign, listEnded } from './campaigns.ts'
import { type PublishingOptions, publish } from './publishing.ts'

interface By {
  actor: string
  reason: string
}

/**
 * Ends a campaign now. It is EXPIRED from this moment on: its links are closed, waiting copies are not made, and
 * running encodes are stopped. Retention removes the existing copies. Stopping is idempotent.
 */
export async function stop(options: PublishingOptions, campaign: CampaignRow, by: By): Promise<void> {
  const { app, rows } = options
  if (campaign.state === 'DRAFT') throw new Refused(NOT_PUBLISHED)
  await endCampaign(rows, campaign.id, await (await app.store()).nowMs())
  // A campaign whose publishing was interrupted has no batch yet. With a batch, its copies can be cancelled for good.
  await publish(options, campaign)
  await stopCopies(app, campaign.id, by)
}

/** Cancels waiting copies, and asks running encodes to stop. */
export async function stopCopies(
  app: App,
  campaignId: string,
  by: By,
): Promise<OperationOutput<'batches.cancel'>['items']> {
  const batch = await app.batches.find(campaignId)
  if (batch === null || batch.counts.unfinished === 0) return []
  return (await app.batches.cancel(campaignId, by)).items
}

/** Copies of campaigns that ended while no worker was running, or that were retried since. */
export async function stopEnded(
  app: App,
  rows: Rows,
  log: Log,
  span: { sinceMs: number; nowMs: number },
): Promise<void> {
  for (const { id } of await listEnded(rows, span)) {
    const batch = await app.batches.find(id)
    if (batch === null || batch.counts.unfinished === 0) continue
    log.info({ event: 'campaign_ended', campaign_id: id }, 'copies of a campaign that is over are not made')
    await stopCopies(app, id, { actor: 'watermark', reason: 'the campaign is over' })
  }
}
