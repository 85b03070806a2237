import { createReadStream } from 'node:fs'
import { join } from 'node:path'
import { isMissing } from '@redress/shared/artifact-stores'
import { type App, type Attempt, type JobType, RedressError } from 'redress'
import { z } from 'zod'
import { type AssetRow, findAsset } from '../assets/assets.ts'
import { type CampaignRow, findCampaign, findToken, isMarkedWith, type TokenRow } from '../campaigns/campaigns.ts'
import { stopCopies } from '../campaigns/lifecycle.ts'
import { isPast } from '../campaigns/view.ts'
import { CODES, type Code } from '../codes.ts'
import { copyKey, type Files, fetchTo, inWorkFolder, sourceKey } from '../files.ts'
import { failWithMedia, type Kind, type Media, type Probed } from '../media.ts'
import { markPolicy, QUEUE, RULES } from '../policy.ts'
import type { Rows } from '../rows/rows.ts'
import type { Settings } from '../settings.ts'

export const MARK_TYPES = ['watermark.video', 'watermark.image'] as const

/** A job has the id of its token, and all else follows from that: no payload can name another's copy. */
const inputSchema = z.strictObject({})
export type MarkInput = z.input<typeof inputSchema>

/** The copy for a recipient. */
export interface CopyResult {
  fileName: string
  contentType: string
  bytes: number
  sha256: string
}

export interface MarkingOptions {
  rows: Rows
  files: Files
  media: Media
  settings: Settings
  /** Of the invisible marks. */
  markKey: string
  markKeyId: string
}

export function declareMarking(app: App, options: MarkingOptions): Readonly<Record<Kind, JobType<MarkInput>>> {
  const { files, rows, settings } = options
  const declare = (kind: Kind) =>
    app.job(`watermark.${kind}`, {
      queue: QUEUE,
      input: inputSchema,
      codes: CODES,
      policy: markPolicy(settings),
      classify: RULES,
      admitRetry: async (_input, retry) => {
        const order = await orderOf(rows, retry.jobId)
        if (order === null) return retry.fail('SOURCE_MISSING')
        if (isPast(order.campaign, await (await app.store()).nowMs())) return retry.fail('CAMPAIGN_ENDED')
        try {
          await files.assets.head(sourceKey(order.asset.id))
        } catch (error) {
          if (isMissing(error)) retry.fail('SOURCE_MISSING')
          throw error
        }
      },
      run: (_input, attempt) => makeCopy(app, kind, attempt, options),
      verify: (result, attempt) => checkStored(result, attempt, files),
    })
  return { video: declare('video'), image: declare('image') }
}

interface Order {
  token: TokenRow
  campaign: CampaignRow
  asset: AssetRow
}

/** The inputs for the copy of a token. */
async function orderOf(rows: Rows, tokenId: string): Promise<Order | null> {
  const token = await findToken(rows, tokenId)
  const campaign = token === null ? null : await findCampaign(rows, token.campaign_id, null)
  const asset = campaign === null ? null : await findAsset(rows, campaign.asset_id, null)
  return token === null || campaign === null || asset === null ? null : { token, campaign, asset }
}

async function makeCopy(
  app: App,
  kind: Kind,
  attempt: Attempt<Code>,
  { rows, files, media, markKey, markKeyId, settings }: MarkingOptions,
): Promise<CopyResult> {
  const tokenId = attempt.jobId
  const order = await orderOf(rows, tokenId)
  if (order === null) return attempt.fail('SOURCE_MISSING', { detail: 'there is no token of this id' })
  const { token, campaign, asset } = order
  if (asset.kind !== kind) return attempt.fail('UNKNOWN_JOB_TYPE', { detail: `the asset is of kind ${asset.kind}` })
  // A copy with a mark of another key could not be traced: a worker that was given another secret leaves it alone.
  if (!(await isMarkedWith(rows, campaign.id, markKeyId))) return attempt.fail('KEY_MISSING')
  const nowMs = await (await app.store()).nowMs()
  if (isPast(campaign, nowMs)) return ended(app, campaign, attempt)
  // The campaign may end before the copy is made; then the copy cannot be downloaded.
  const leftMs = campaign.expires_at === null ? null : campaign.expires_at - nowMs
  const end = leftMs === null || leftMs > settings.attemptMs ? null : AbortSignal.timeout(leftMs)
  const signal = end === null ? attempt.signal : AbortSignal.any([attempt.signal, end])
  return inWorkFolder(files.work, tokenId, attempt.number, async (folder) => {
    const [source, target] = [join(folder, 'source'), join(folder, 'copy')]
    await fetchSource(files, asset, source, attempt)
    let marked: Probed
    try {
      marked = await media.mark(kind, {
        source,
        target,
        visibleText: campaign.visible_wm === 1 ? token.recipient_name : null,
        invisible: campaign.invisible_wm === 1 ? { key: markKey, tokenId } : null,
        onProgress: (percent) => attempt.progress(percent / 100),
        signal,
      })
    } catch (error) {
      if (end?.aborted && !attempt.signal.aborted) return ended(app, campaign, attempt)
      failWithMedia(attempt, error)
    }
    const { contentType, extension } = typeOf(marked)
    // The copy becomes visible whole or not at all, even if the process is killed.
    const { bytes, sha256 } = await files.copies.put(copyKey(tokenId), createReadStream(target), {
      contentType,
      signal,
    })
    return { fileName: `${asset.name.replace(/\.[^.]*$/, '')}.${extension}`, contentType, bytes, sha256 }
  })
}

/** Cancels all copies of a campaign that are not made yet, and waits until this one is cancelled. */
async function ended(app: App, { id }: CampaignRow, attempt: Attempt<Code>): Promise<never> {
  const { signal, jobId } = attempt
  const items = await stopCopies(app, id, { actor: 'watermark', reason: 'the campaign is over' })
  // Copies of campaigns from before this feature cannot be cancelled.
  if (items.some((item) => item.id === jobId && item.code === 'NOT_ALLOWED_BY_POLICY')) attempt.fail('CAMPAIGN_ENDED')
  return new Promise((_, reject) => {
    const stopped = () => reject(signal.reason)
    if (signal.aborted) stopped()
    else signal.addEventListener('abort', stopped, { once: true })
  })
}

async function fetchSource(files: Files, asset: AssetRow, path: string, attempt: Attempt<Code>): Promise<void> {
  try {
    await fetchTo(files.assets, sourceKey(asset.id), path, attempt.signal)
  } catch (error) {
    if (isMissing(error)) attempt.fail('SOURCE_MISSING', { detail: 'the source no longer exists' })
    if (error instanceof RedressError && error.code === 'ARTIFACT_CORRUPT') {
      attempt.fail('SOURCE_CORRUPT', { detail: 'the stored source is not what was uploaded' })
    }
    throw error
  }
}

/** Checks that the stored copy is there and complete. */
async function checkStored({ bytes, sha256 }: CopyResult, attempt: Attempt<Code>, { copies }: Files): Promise<void> {
  const head = await copies.head(copyKey(attempt.jobId))
  if (head.bytes === bytes && (head.sha256 ?? sha256) === sha256) return
  attempt.fail('VERIFICATION_FAILED', { detail: `stored are ${head.bytes} bytes, made were ${bytes}` })
}

function typeOf({ kind, codec }: Probed): { contentType: string; extension: string } {
  if (kind === 'video') return { contentType: 'video/mp4', extension: 'mp4' }
  return codec === 'png'
    ? { contentType: 'image/png', extension: 'png' }
    : { contentType: 'image/jpeg', extension: 'jpg' }
}
