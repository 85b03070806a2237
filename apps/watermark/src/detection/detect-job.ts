import { join } from 'node:path'
import { isMissing } from '@redress/shared/artifact-stores'
import type { App, Attempt, JobType } from 'redress'
import { z } from 'zod'
import { findCampaign, isMarkedWith, tokensOf } from '../campaigns/campaigns.ts'
import { type Code, DETECT_CODES } from '../codes.ts'
import type { MarkingOptions } from '../copies/mark-job.ts'
import { fetchTo, inWorkFolder, sourceKey, suspectKey } from '../files.ts'
import { failWithMedia } from '../media.ts'
import { detectPolicy, QUEUE, RULES } from '../policy.ts'

export const DETECT = 'watermark.detect'

const inputSchema = z.strictObject({ campaignId: z.uuid(), fileName: z.string().min(1).max(255) })
export type DetectInput = z.input<typeof inputSchema>

/** The length of the ranking that is kept. */
const RANKED_MAX = 20

export const detectResult = z.object({
  verdict: z.enum(['match', 'inconclusive']),
  bestDecoyZ: z.number(),
  decoys: z.number(),
  ranked: z.array(z.object({ tokenId: z.string(), name: z.string(), email: z.string(), z: z.number() })),
})
export type DetectResult = z.infer<typeof detectResult>

export function declareDetecting(app: App, options: MarkingOptions): JobType<DetectInput> {
  return app.job(DETECT, {
    queue: QUEUE,
    input: inputSchema,
    codes: DETECT_CODES,
    policy: detectPolicy(options.settings),
    classify: RULES,
    run: (input, attempt) => detectCopy(input, attempt, options),
  })
}

async function detectCopy(
  { campaignId }: DetectInput,
  attempt: Attempt<Code>,
  { rows, files, media, markKey, markKeyId }: MarkingOptions,
): Promise<DetectResult> {
  const campaign = await findCampaign(rows, campaignId, null)
  if (campaign === null) return attempt.fail('SOURCE_MISSING', { detail: 'the campaign is gone' })
  if (!(await isMarkedWith(rows, campaignId, markKeyId))) return attempt.fail('KEY_MISSING')
  const tokens = await tokensOf(rows, campaignId)
  const { signal } = attempt
  return inWorkFolder(files.work, attempt.jobId, attempt.number, async (folder) => {
    const fetched = async (key: string, name: string): Promise<string | null> => {
      try {
        await fetchTo(files.assets, key, join(folder, name), signal)
        return join(folder, name)
      } catch (error) {
        if (isMissing(error)) return null
        throw error
      }
    }
    const suspect = await fetched(suspectKey(attempt.jobId), 'suspect')
    if (suspect === null) return attempt.fail('SOURCE_MISSING', { detail: 'the suspect is not there any more' })
    // Marks are found without it, too, if they are strong enough.
    const source = await fetched(sourceKey(campaign.asset_id), 'source')
    try {
      const { verdict, ranking, bestDecoyZ, decoys } = await media.detect({
        suspect,
        source,
        key: markKey,
        tokens: tokens.map(({ id }) => id),
        workFolder: folder,
        onProgress: (percent) => attempt.progress(percent / 100),
        signal,
      })
      const named = new Map(tokens.map((token) => [token.id, token]))
      const ranked = ranking.slice(0, RANKED_MAX).map(({ tokenId, z }) => {
        const { recipient_name = '', recipient_email = '' } = named.get(tokenId) ?? {}
        return { tokenId, name: recipient_name, email: recipient_email, z }
      })
      return { verdict, bestDecoyZ, decoys, ranked }
    } catch (error) {
      failWithMedia(attempt, error)
    }
  })
}
