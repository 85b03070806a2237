import { ageOf, dateOf } from '@redress/shared/pages'
import { type Html, html } from 'redress/http'
import type { AssetRow } from '../assets/assets.ts'
import type { CampaignView } from '../campaigns/view.ts'
import { draftForm, uploadForm } from './forms.ts'
import type { Live } from './frame.ts'
import { countsText, linkedBadge, thumbnail } from './words.ts'

interface Listed {
  campaigns: readonly CampaignView[]
  /** The assets of the campaigns, by id. */
  assetsOf: ReadonlyMap<string, AssetRow>
  /** The assets that a new campaign can use. */
  assets: readonly AssetRow[]
  nextCursor: string | null
  isFirstPage: boolean
  isOwner: boolean
  mayWrite: boolean
  uploadBytesMax: number
}

export function campaignList(listed: Listed): Html {
  const { campaigns, assetsOf, nextCursor, isFirstPage, isOwner } = listed
  return html`<header><h1>Campaigns</h1>
<p class="quiet">A copy with a mark of its own for each recipient, behind a link of their own.</p></header>
${isFirstPage && listed.mayWrite && beginnings(listed)}
<ol id="rows" class="campaigns" aria-label="Campaigns">${campaigns.map((campaign) => campaignRow(campaign, assetsOf.get(campaign.assetId) ?? null, isOwner))}</ol>
${campaigns.length === 0 && html`<p class="nothing quiet">${isFirstPage ? emptyText(listed) : 'There are no older ones.'}</p>`}
${
  (nextCursor !== null || !isFirstPage) &&
  html`<nav class="bar" aria-label="Pages of campaigns">${!isFirstPage && html`<a href="/campaigns">Newest</a>`} ${
    nextCursor !== null && html`<a href="/campaigns?cursor=${nextCursor}">Older</a>`
  }</nav>`
}`
}

function emptyText({ mayWrite, assets }: Listed): string {
  if (!mayWrite) return 'There are no campaigns yet.'
  return assets.length === 0
    ? 'There are no campaigns yet. Upload a video or an image to begin with.'
    : 'There are no campaigns yet. Your file is here: say who gets a copy of it.'
}

/** Without campaigns, the next step is already open. */
function beginnings({ campaigns, assets, isOwner, uploadBytesMax }: Listed): Html {
  const hasNoFile = assets.length === 0
  return html`<div class="beginnings">
<details class="card"${hasNoFile && html` open`}><summary>Upload a file</summary>${uploadForm(uploadBytesMax)}</details>
${!hasNoFile && html`<details class="card"${campaigns.length === 0 && html` open`}><summary>New campaign</summary>${draftForm({ assets, isOwner, fields: {}, problems: [] })}</details>`}
</div>`
}

export function campaignRow(campaign: CampaignView, asset: AssetRow | null, isOwner: boolean): Html {
  const { id, name, owner, assetId, createdAt, expiresAt, state } = campaign
  const ends = expiresAt !== null && html` · ${state === 'EXPIRED' ? 'ended' : 'ends'} ${dateOf(expiresAt)}`
  return html`<li id="row-${id}" class="campaign" data-campaign-id="${id}"${canChange(campaign) && html` data-live="yes"`} tabindex="-1">
${thumbnail(assetId)}
<div class="what"><a class="name" href="/campaigns/${id}" data-act="open"><bdi>${name}</bdi></a>
<p class="facts quiet"><bdi>${asset?.name ?? ''}</bdi>${!isOwner && html` · <bdi>${owner}</bdi>`} · ${ageOf(createdAt)}${ends}</p></div>
<div class="standing">${linkedBadge(campaign)}<p class="counts">${countsText(campaign)}</p></div>
</li>`
}

export function liveOfList(campaigns: readonly CampaignView[]): Live {
  // One that is being published may have no batch to hear of yet, and would end the stream for all.
  const live = campaigns.filter((campaign) => canChange(campaign) && campaign.counts.total > 0)
  return { isLive: live.length > 0, topics: live.map(({ id }) => `batch:${id}`), state: '/campaigns/state' }
}

/** Whether it can change: by itself or by a retry. */
export const canChange = ({ state, expiresAt }: CampaignView): boolean =>
  state === 'PROCESSING' || state === 'PARTIAL' || state === 'FAILED' || (state === 'READY' && expiresAt !== null)
