import { clockTime, dateOf } from '@redress/shared/page-words'
import { type Html, html } from 'redress/http'
import type { TokenView } from '../campaigns/view.ts'
import { tokenBadge } from './words.ts'

/** What the rows of one campaign have in common. */
export interface RowsOf {
  campaignId: string
  maxDownloads: number | null
  /** 'https://marks.example.org': what comes before a link when somebody sends it. */
  origin: string
  mayWrite: boolean
}

/** W42-W46. Roles are spelled out: on a small screen rows are shown as blocks, and would lose what they are. */
export function tokenRow(token: TokenView, of: RowsOf): Html {
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
