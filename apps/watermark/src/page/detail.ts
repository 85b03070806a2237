import { clockTime, dateOf } from '@redress/shared/pages'
import { type Html, html } from 'redress/http'
import type { AssetRow } from '../assets/assets.ts'
import type { CampaignDetail, CampaignView, TokenView } from '../campaigns/view.ts'
import type { Live } from './frame.ts'
import { canChange } from './list.ts'
import { assetFacts, campaignBadge, countsText, downloadsText, marksText, thumbnail, tokenBadge } from './words.ts'

const TOKENS_PER_PAGE = 100

/** Which tokens of a campaign are shown. */
export interface Choice {
  isFailedOnly: boolean
  /** From 1 on. */
  page: number
}

interface Shown {
  campaign: CampaignDetail
  asset: AssetRow | null
  choice: Choice
  of: RowsOf
  isOwner: boolean
  uploadBytesMax: number
}

export function campaignDetail(shown: Shown): Html {
  const { campaign, asset, choice, of, isOwner } = shown
  const { id, name, assetId, owner } = campaign
  return html`<header class="campaign-head">${thumbnail(assetId)}<div class="what"><h1><bdi>${name}</bdi></h1>
<p class="quiet"><bdi>${asset?.name ?? ''}</bdi>${asset !== null && html` · ${assetFacts(asset)}`}${!isOwner && html` · <bdi>${owner}</bdi>`}</p></div></header>
<div id="part-head">${headPart(campaign)}</div>
<div id="part-banner" role="status">${bannerPart(campaign)}</div>
<div class="bar actions">${actions(campaign, of.mayWrite)}</div>
${campaign.state !== 'DRAFT' && detecting(id, shown)}
<section aria-labelledby="recipients"><div class="bar"><h2 id="recipients">Recipients</h2>${chooser(campaign, choice)}</div>
${table(campaign, choice, of)}</section>`
}

/** The state of the campaign, which changes with every copy. */
export function headPart(campaign: CampaignView): Html {
  const { counts, expiresAt, maxDownloads, state } = campaign
  const isUnderWay = state === 'PROCESSING' && counts.total > 0
  return html`<p class="bar start">${campaignBadge(campaign)}<strong class="counts">${countsText(campaign)}</strong></p>
${isUnderWay && html`<progress max="${counts.total}" value="${counts.completed + counts.failed}" aria-label="Copies that are done"></progress>`}
<p class="quiet">${marksText(campaign)} · ${downloadsText(maxDownloads)} · ${
    expiresAt === null ? 'no end' : html`${state === 'EXPIRED' ? 'ended' : 'ends'} ${dateOf(expiresAt)}`
  }</p>`
}

/** W48, word for word, and only in its two states. */
export const bannerPart = ({ state, counts }: CampaignView): Html | null =>
  state !== 'PARTIAL' && state !== 'FAILED'
    ? null
    : html`<p class="box warn">Warning: ${counts.failed} watermarking job(s) failed permanently. Use the retry buttons below to re-attempt individual tokens.</p>`

function actions({ id, state }: CampaignView, mayWrite: boolean): Html {
  const publish = html`<form method="post" action="/campaigns/${id}/publish"><button class="small">Publish</button></form>`
  // Two steps, with and without script: stopping a campaign cannot be undone.
  const stop = html`<details class="revoke"><summary class="small calm">Stop</summary><form method="post" action="/campaigns/${id}/stop"><p>All links stop working for good, and copies that are not ready yet are not made.</p><button class="small danger">Stop the campaign</button></form></details>`
  return html`<div class="acts">${mayWrite && state === 'DRAFT' && publish}${
    state !== 'DRAFT' &&
    html`<a class="small calm" href="/campaigns/${id}/links.csv">Links as CSV</a><a class="small calm" href="/campaigns/${id}/detections">Searches</a>`
  }${mayWrite && html`<a class="small calm" href="/campaigns/${id}/clone">Clone</a>`}${mayWrite && state !== 'DRAFT' && state !== 'EXPIRED' && stop}</div>`
}

function detecting(id: string, { of: { mayWrite }, campaign, uploadBytesMax }: Shown): Html | null {
  if (!mayWrite || !campaign.invisible) return null
  return html`<details class="card detect"><summary>Whose copy is a file that leaked?</summary>
<form class="upload" method="post" action="/campaigns/${id}/detect" enctype="multipart/form-data" data-bytes-max="${uploadBytesMax}" data-next="/campaigns/${id}/detections/">
<label class="field">The file <input type="file" name="file" accept="video/*,image/*" required></label>
<p class="hint">It is compared with the invisible mark of each recipient’s copy.</p>
<progress max="1" value="0" aria-label="Sent so far" hidden></progress>
<p class="problem" role="alert" hidden></p>
<button>Look for the mark</button>
</form></details>`
}

function chooser({ id, tokens, counts }: CampaignDetail, { isFailedOnly }: Choice): Html | null {
  if (isFailedOnly) return html`<p><a href="/campaigns/${id}">Show all ${tokens.length.toLocaleString('en')}</a></p>`
  return counts.failed === 0 ? null : html`<p><a href="/campaigns/${id}?show=failed">Show failed only</a></p>`
}

function table(campaign: CampaignDetail, choice: Choice, of: RowsOf): Html {
  const chosen = choice.isFailedOnly ? campaign.tokens.filter(({ state }) => state === 'FAILED') : campaign.tokens
  const pages = Math.max(1, Math.ceil(chosen.length / TOKENS_PER_PAGE))
  const page = Math.min(choice.page, pages)
  const first = (page - 1) * TOKENS_PER_PAGE
  const tokens = chosen.slice(first, first + TOKENS_PER_PAGE)
  if (tokens.length === 0) return html`<p class="nothing quiet">No copy failed.</p>`
  return html`<table class="tokens" role="table" aria-labelledby="recipients"><thead role="rowgroup"><tr role="row">
<th role="columnheader" scope="col">Recipient</th><th role="columnheader" scope="col">State</th><th role="columnheader" scope="col">Downloads</th><th role="columnheader" scope="col">Link</th><th role="columnheader" scope="col"><span class="unseen">Actions</span></th>
</tr></thead><tbody id="rows" role="rowgroup">${tokens.map((token) => tokenRow(token, of))}</tbody></table>
${pages > 1 && pager(campaign.id, choice, page, pages, `${first + 1}–${first + tokens.length} of ${chosen.length.toLocaleString('en')}`)}`
}

function pager(id: string, { isFailedOnly }: Choice, page: number, pages: number, where: string): Html {
  const to = (number: number, name: string) =>
    html`<a href="/campaigns/${id}?${isFailedOnly && 'show=failed&'}page=${number}">${name}</a>`
  return html`<nav class="bar" aria-label="Pages of recipients"><span>${page > 1 && to(page - 1, 'Previous')}</span><span class="quiet">${where}</span><span>${page < pages && to(page + 1, 'Next')}</span></nav>`
}

export const rowsPart = (tokens: readonly TokenView[], of: RowsOf): { id: string; html: string }[] =>
  tokens.map((token) => ({ id: token.id, html: tokenRow(token, of).text }))

/** The copies are jobs of the batch; `token_failed` comes on the campaign's own topic. */
export const liveOf = (campaign: CampaignView): Live => ({
  isLive: canChange(campaign),
  topics: [`campaign:${campaign.id}`, `batch:${campaign.id}`],
  state: `/campaigns/${campaign.id}/state`,
})

/** The facts that all rows of one campaign share. */
export interface RowsOf {
  campaignId: string
  maxDownloads: number | null
  /** 'https://marks.example.org': the origin of links that are sent to recipients. */
  origin: string
  mayWrite: boolean
}

/** W42-W46. Roles are spelled out: on a small screen rows are shown as blocks, and would lose what they are. */
function tokenRow(token: TokenView, of: RowsOf): Html {
  const { id, name, email, state, downloads } = token
  const used = of.maxDownloads === null ? `${downloads}` : `${downloads}/${of.maxDownloads}`
  return html`<tr id="row-${id}" data-token-id="${id}" data-state="${state}" role="row" tabindex="-1">
<th scope="row" role="rowheader"><bdi class="name">${name}</bdi><bdi class="email quiet">${email}</bdi></th>
<td role="cell" class="status">${tokenBadge(token)}${retryBadge(token)}${noteOf(token)}${errorOf(token)}</td>
<td role="cell" class="downloads"><span class="narrow-only quiet">Downloads </span>${used}</td>
<td role="cell" class="link">${linkOf(token, of)}</td>
<td role="cell" class="acts">${actsOf(token, of)}</td>
</tr>`
}

/** W43: n/max, once there was a retry. */
const retryBadge = ({ retryCount, maxRetries }: TokenView): Html | null =>
  retryCount === 0
    ? null
    : html` <span class="retry-badge" title="Retries"><span class="unseen">Retries: </span>${retryCount}/${maxRetries}</span>`

function noteOf({ state, nextRetryAt, waiting, retryCount, maxRetries, revokedAt }: TokenView): Html | null {
  if (state === 'EXPIRED' && revokedAt !== null) return html`<p class="note">Revoked ${dateOf(revokedAt)}</p>`
  if (waiting === null) return null
  const when = nextRetryAt !== null && html`Retry ${retryCount} of ${maxRetries} at ${clockTime(nextRetryAt)}. `
  return html`<p class="note">${when}<span class="quiet">${waiting}</span></p>`
}

/** W44. */
const errorOf = ({ error }: TokenView): Html | null =>
  error === null
    ? null
    : html`<details class="error-details"><summary data-act="error">Error</summary><p>${error.message}</p></details>`

function linkOf({ name, link, state }: TokenView, { origin }: RowsOf): Html | null {
  if (link === null || state === 'EXPIRED') return null
  return html`<span class="copying"><input class="url" readonly value="${origin}${link}" aria-label="Link of ${name}" data-act="link"><button type="button" class="small calm live-only" data-act="copy">Copy<span class="unseen"> the link of ${name}</span></button></span>`
}

function actsOf({ id, name, state, link, revokedAt }: TokenView, { campaignId, mayWrite }: RowsOf): Html | null {
  if (!mayWrite) return null
  const path = `/campaigns/${campaignId}/tokens/${id}`
  // W45
  const retry =
    state === 'FAILED' &&
    html`<form class="retry-form" method="post" action="${path}/retry"><button class="small" data-act="retry">Retry<span class="unseen"> ${name}</span></button></form>`
  // Two steps, with script and without: a link that is revoked does not come back.
  const revoke =
    link !== null &&
    revokedAt === null &&
    state !== 'EXPIRED' &&
    html`<details class="revoke"><summary class="small calm" data-act="revoke">Revoke<span class="unseen"> the link of ${name}</span></summary><form method="post" action="${path}/revoke"><p>The link stops working for good.</p><button class="small danger" data-act="revoke-now">Revoke it<span class="unseen">: ${name}</span></button></form></details>`
  return html`${retry}${revoke}`
}
