import { Refused } from '@redress/shared/routes'
import type { App, JobType, Log, OperationOutput } from 'redress'
import { NOT_PUBLISHED } from '../access.ts'
import { findAsset } from '../assets/assets.ts'
import type { MarkInput } from '../copies/mark-job.ts'
import type { Kind } from '../media.ts'
import type { Rows } from '../rows/rows.ts'
import { type CampaignRow, endCampaign, findCampaign, listEnded, tokensOf } from './campaigns.ts'

export interface PublishingOptions {
  app: App
  rows: Rows
  /** The job types that make copies. */
  marks: Readonly<Record<Kind, JobType<MarkInput>>>
  /** Channels that get the result of a campaign. */
  notify: readonly string[]
  /** Which key copies are marked with from now on. */
  markKeyId: string
  log: Log
}

/**
 * Publishes a draft. First the row is marked as publishing. Then the batch is made with all its jobs, under ids that
 * were given with the draft. Both steps are idempotent. If a process is killed in between, the next one finishes the
 * work, and there is never a second batch.
 */
export async function publish(options: PublishingOptions, campaign: CampaignRow): Promise<void> {
  const { app, rows, markKeyId } = options
  if (campaign.state === 'PUBLISHED') return
  if (campaign.state === 'DRAFT') {
    const nowMs = await (await app.store()).nowMs()
    if (campaign.expires_at !== null && campaign.expires_at <= nowMs) {
      throw new Refused({
        status: 409,
        code: 'CAMPAIGN_EXPIRED',
        message: 'The end of this campaign has already passed.',
        action: 'Clone it with a later end.',
      })
    }
    await rows.atomically([
      {
        sql: `UPDATE wm_campaigns SET state = 'PUBLISHING', published_at = $2 WHERE id = $1 AND state = 'DRAFT'`,
        params: [campaign.id, nowMs],
      },
      // Of two who publish at once, the first one's.
      {
        sql: 'INSERT INTO wm_keys (campaign_id, key_id) VALUES ($1, $2) ON CONFLICT DO NOTHING',
        params: [campaign.id, markKeyId],
      },
    ])
  }
  await finish(options, campaign.id)
}

/** Finishes the publishing that a dead process began. */
export async function finishPublishing(options: PublishingOptions): Promise<void> {
  const begun = await options.rows.all<{ id: string }>(`SELECT id FROM wm_campaigns WHERE state = 'PUBLISHING'`)
  for (const { id } of begun) {
    options.log.warn({ event: 'publish_resumed', campaign_id: id }, 'an interrupted publish was resumed')
    await finish(options, id)
  }
}

async function finish({ app, rows, marks, notify }: PublishingOptions, id: string): Promise<void> {
  const campaign = await findCampaign(rows, id, null)
  if (campaign === null || campaign.state !== 'PUBLISHING') return
  const { name, account_id, asset_id, expires_at } = campaign
  const asset = await findAsset(rows, asset_id, null)
  if (asset === null) throw new Error(`campaign ${id} has no asset`)
  const nowMs = await (await app.store()).nowMs()
  const tokens = await tokensOf(rows, id)
  await app.batches.create(name, {
    id,
    owner: account_id,
    rollup: 'partial',
    notify,
    // The end may have passed before this was finished: the batch then expires at once.
    ...(expires_at !== null && { expires: Math.max(1, expires_at - nowMs) }),
    jobs: tokens.map((token) => marks[asset.kind].request({}, { id: token.id })),
  })
  await rows.run(`UPDATE wm_campaigns SET state = 'PUBLISHED' WHERE id = $1 AND state = 'PUBLISHING'`, id)
}

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
    log.info({ event: 'campaign_ended', campaign_id: id }, 'the remaining copies of an ended campaign are cancelled')
    await stopCopies(app, id, { actor: 'watermark', reason: 'the campaign is over' })
  }
}
