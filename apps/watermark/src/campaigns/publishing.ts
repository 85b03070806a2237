import { Refused } from '@redress/shared/refused'
import type { Rows } from '@redress/shared/rows'
import type { App, JobType, Log } from 'redress'
import { findAsset } from '../assets/assets.ts'
import type { MarkInput } from '../copies/marking.ts'
import type { Kind } from '../media.ts'
import { type CampaignRow, findCampaign, tokensOf } from './campaigns.ts'

export interface PublishingOptions {
  app: App
  rows: Rows
  /** The job types that make copies. */
  marks: Readonly<Record<Kind, JobType<MarkInput>>>
  /** Channels that are told what a campaign comes to. */
  notify: readonly string[]
  /** Which key copies are marked with from now on. */
  markKeyId: string
  log: Log
}

/**
 * Publishes a draft. First the row says that it is to be published, then the batch is made with all its jobs, under ids
 * that were given when the draft was made: all or nothing, and as often as one likes. So whoever is killed in between
 * leaves something that the next one can finish, and nobody makes a second batch.
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
        message: 'This campaign would be over before it begins.',
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

/** Finishes what was begun by a process that is gone. */
export async function finishPublishing(options: PublishingOptions): Promise<void> {
  const begun = await options.rows.all<{ id: string }>(`SELECT id FROM wm_campaigns WHERE state = 'PUBLISHING'`)
  for (const { id } of begun) {
    options.log.warn({ event: 'publish_resumed', campaign_id: id }, 'a publish that was cut short is finished')
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
    // Its time may have come while nobody was there to finish this: it is settled, and over at once.
    ...(expires_at !== null && { expires: Math.max(1, expires_at - nowMs) }),
    jobs: tokens.map((token) => marks[asset.kind].request({}, { id: token.id })),
  })
  await rows.run(`UPDATE wm_campaigns SET state = 'PUBLISHED' WHERE id = $1 AND state = 'PUBLISHING'`, id)
}
