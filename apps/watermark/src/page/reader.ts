import type { FastifyRequest } from 'fastify'
import type { Caller } from 'redress/http'
import { mayWrite, seenBy } from '../access.ts'
import { type AssetRow, findAsset, listAssets } from '../assets/assets.ts'
import type { CampaignView } from '../campaigns/view.ts'
import type { Desk } from '../desk.ts'
import type { Choice } from './detail.ts'
import type { RowsOf } from './token-row.ts'

const ASSETS_OFFERED_MAX = 50

/** What pages show beside what they are given. */
export class Reader {
  readonly #deskOf: () => Desk

  constructor(deskOf: () => Desk) {
    this.#deskOf = deskOf
  }

  async assetsOf(campaigns: readonly CampaignView[]): Promise<Map<string, AssetRow>> {
    const found = new Map<string, AssetRow>()
    for (const assetId of new Set(campaigns.map(({ assetId }) => assetId))) {
      const asset = await findAsset(this.#deskOf().options.rows, assetId, null)
      if (asset !== null) found.set(assetId, asset)
    }
    return found
  }

  /** The newest, and the one that is chosen, however old it is. */
  async assetsFor(caller: Caller, chosenId?: string): Promise<AssetRow[]> {
    const { rows } = this.#deskOf().options
    const owner = seenBy(caller)
    const newest = await listAssets(rows, { owner, limit: ASSETS_OFFERED_MAX, before: null })
    if (chosenId === undefined || newest.some(({ id }) => id === chosenId)) return newest
    const chosen = await findAsset(rows, chosenId, owner)
    return chosen === null ? newest : [chosen, ...newest]
  }

  rowsOf(request: FastifyRequest, caller: Caller, { id, maxDownloads }: CampaignView): RowsOf {
    return { campaignId: id, maxDownloads, origin: this.#deskOf().originOf(request), mayWrite: mayWrite(caller) }
  }
}

/** Only what looks as we write it ourselves: the rest is as good as absent. */
export function choiceOf(request: FastifyRequest): Choice {
  const { show, page } = request.query as { show?: unknown; page?: unknown }
  const number = typeof page === 'string' && /^[1-9]\d{0,3}$/.test(page) ? Number(page) : 1
  return { isFailedOnly: show === 'failed', page: number }
}
