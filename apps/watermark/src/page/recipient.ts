import { sizeText, stylesheetLinks } from '@redress/shared/pages'
import type { Refusal } from '@redress/shared/routes'
import { type Html, html, page } from 'redress/http'

const RELOAD_SECONDS = 5

interface Landing {
  action: string
  fileName: string
  bytes: number
  left: number | null
  stylesheets: readonly string[]
}

/** The name of the copy and a button. Preview programs open this page as well, so it must not use up a download. */
export function landingPage({ action, fileName, bytes, left, stylesheets }: Landing): string {
  const limit =
    left === null
      ? null
      : html`<p class="quiet">${left === 1 ? 'It can be downloaded once.' : `It can be downloaded ${left.toLocaleString('en')} more times.`} An interrupted download can be resumed.</p>`
  const body = html`<div class="calm-page">
<h1>Your copy is ready</h1>
<p><bdi>${fileName}</bdi> · ${sizeText(bytes)}</p>
<form method="post" action="${action}"><button>Download</button></form>
${limit}
</div>`
  return page('Your copy is ready', body, head(stylesheets, null))
}

/**
 * The page of a copy that is not ready. Recipients are strangers, so it shows nothing about the campaign or other
 * recipients.
 */
export function preparingPage({ progress, stylesheets }: { progress: number; stylesheets: readonly string[] }): string {
  const body = html`<div class="calm-page">
<h1>Your copy is being prepared</h1>
<p>This page offers the download when it is ready. You can leave it open, or come back later.</p>
<progress max="100" value="${progress}" aria-label="Prepared so far"></progress>
<p class="big">${progress} %</p>
</div>`
  return page('Your copy is being prepared', body, head(stylesheets, RELOAD_SECONDS))
}

export function refusedPage({
  refusal,
  back,
  stylesheets,
}: {
  refusal: Refusal
  back: string | null
  stylesheets: readonly string[]
}) {
  const { message, action } = refusal
  const body = html`<div class="calm-page"><h1>${message}</h1><p>${action}</p>${
    back !== null && html`<p><a href="${back}">Back to the campaigns</a></p>`
  }</div>`
  return page(message, body, head(stylesheets, null))
}

const head = (stylesheets: readonly string[], reloadSeconds: number | null): Html => html`
${stylesheetLinks(stylesheets)}
<meta name="robots" content="noindex">${
  reloadSeconds !== null && html`<meta http-equiv="refresh" content="${reloadSeconds}">`
}`
