import { ageOf, clockTime, sizeText, stylesheetLinks } from '@redress/shared/pages'
import type { JobView } from 'redress'
import { type Html, html, page } from 'redress/http'
import { CODES } from '../codes.ts'
import type { ConvertResult } from '../convert-job.ts'
import { type OfferedMapping, type Settings, UPLOAD_BYTES_MAX } from '../settings.ts'
import { type Notice, noticeNamed } from './notices.ts'
import type { Conversion, ConversionPage, Position, Service } from './reader.ts'

interface Shown {
  settings: Settings
  service: Service
  listed: ConversionPage
  notice: Notice | null
  /** The id of the conversion that was just begun, or that was here already. */
  marked: string | null
  isFirstPage: boolean
  /** Without JavaScript, a page with active jobs reloads itself, unless the visitor turned that off. */
  isReloading: boolean
  isOperator: boolean
  script: string
  stylesheets: readonly string[]
}

const RELOAD_SECONDS = 5
/** Descriptions of the shipped mappings; other mappings have a title. */
const MAPPINGS: Readonly<Record<string, string>> = {
  text: 'pages and paragraphs',
  layout: 'blocks, lines and words, with their places',
  invoice: 'the fields of an invoice',
}

export function convertPage(shown: Shown): string {
  const { settings, service, listed, notice, marked, isFirstPage, isReloading, isOperator } = shown
  const { uploads, results } = settings
  const isOnItsWay = listed.isActive && isReloading
  const body = html`
<header>
<h1>PDF to XML</h1>
<p class="quiet">Up to ${sizeText(UPLOAD_BYTES_MAX)} each. A PDF is kept for ${days(uploads.keepDays)}, its XML for ${days(results.keepDays)}.</p>
${isOperator && html`<p><a href="/jobs?q=${encodeURIComponent('type:pdf.convert')}">All conversions</a></p>`}
</header>
<div id="banner" role="status">${banner(service)}</div>
<div id="said" role="status">${notice !== null && noticeBox(notice)}</div>
${uploadForm(settings.mappings)}
<ul id="sending" aria-label="Files on their way"></ul>
${SENDING}
<section aria-labelledby="yours">
<div class="bar">
<h2 id="yours">Your conversions</h2>
<p id="connection" class="quiet" role="status"></p>
${listed.isActive && html`<noscript><p class="quiet">${reloading(isOnItsWay)}</p></noscript>`}
</div>
<ol id="rows" data-since="${listed.timestamp}" data-active="${listed.isActive ? 'yes' : 'no'}">${listed.conversions.map(
    (conversion) => row(conversion, service, conversion.job.id === marked),
  )}</ol>
<p class="nothing quiet">${isFirstPage ? 'No conversions yet. Your files are listed here; nobody else can see them.' : 'There are no older ones.'}</p>
${pager(listed.nextCursor, isFirstPage)}
</section>
<p id="announced" class="unseen" aria-live="polite"></p>`
  const head = html`
${stylesheetLinks(shown.stylesheets)}
<script type="module" src="${shown.script}"></script>${
    isOnItsWay && html`<noscript><meta http-equiv="refresh" content="${RELOAD_SECONDS}"></noscript>`
  }`
  return page('PDF to XML', body, head)
}

const days = (count: number): string => (count === 1 ? '1 day' : `${count} days`)

function uploadForm(mappings: readonly OfferedMapping[]): Html {
  const words = {
    notPdf: noticeNamed('not-pdf'),
    tooLarge: noticeNamed('too-large'),
  }
  return html`<form id="upload" class="card" method="post" action="/convert" enctype="multipart/form-data" data-bytes-max="${UPLOAD_BYTES_MAX}" data-words="${JSON.stringify(words)}">
<label class="drop">
<svg class="sheet" viewBox="0 0 48 48" aria-hidden="true"><path d="M13 5h15l9 9v29H13z"/><path d="M28 5v9h9"/><path d="M25 36V22m-6 6 6-6 6 6"/></svg>
<strong class="live-only">Drop PDFs here, or choose them</strong>
<strong class="plain-only">Choose a PDF</strong>
<input type="file" name="file" accept=".pdf,application/pdf" required>
</label>
<div class="bar">
<label class="mapping">Mapping <select name="mapping">${mappings.map(
    ({ name, title }) => html`<option value="${name}">${name} – ${MAPPINGS[name] ?? title}</option>`,
  )}</select></label>
<button class="plain-only">Convert</button>
</div>
</form>`
}

/** A file that is being sent: a script makes copies of it. */
const SENDING = html`<template id="sending-row"><li class="row">
<p class="name"><bdi></bdi></p>
<p class="standing"><strong></strong> <span class="note"></span></p>
<progress max="1" value="0" aria-label="Sent so far"></progress>
<div class="acts"><button type="button" class="small" data-act="again" hidden>Send again</button> <button type="button" class="small calm" data-act="away">Remove</button></div>
</li></template>`

/** `service` tells whether queued jobs wait for the gateway. */
export function row(conversion: Conversion, service: Service, isMarked = false): Html {
  const { job, input } = conversion
  const { look, words, note } = statusOf(conversion, service.gateway === 'held')
  const facts = [input.mapping, ...(input.bytes > 0 ? [sizeText(input.bytes)] : [])].join(' · ')
  return html`<li class="row${isMarked && ' marked'}" id="job-${job.id}" data-look="${look}" tabindex="-1">
<p class="name"><bdi>${input.fileName}</bdi></p>
<p class="facts quiet">${facts} · ${ageOf(job.createdAt)}</p>
<p class="standing"><strong>${words}</strong>${note !== null && html` <span class="note">${note}</span>`}</p>
<div class="acts">${acts(conversion)}</div>
</li>`
}

function acts({ job, input, retry, isResultGone }: Conversion): Html[] {
  const { id, status, actions } = job
  const ofWhat = html`<span class="unseen"> ${input.fileName}</span>`
  const post = (act: string, label: string, look = '') =>
    html`<form method="post" action="/convert/jobs/${id}/${act}"><button class="small${look}" data-act="${act}">${label}${ofWhat}</button></form>`
  const isAllowed = (name: string) => actions.some((action) => action.name === name && action.allowed)
  const found: Html[] = []
  if (status === 'complete' && !isResultGone) {
    found.push(html`<a class="button small" href="/api/jobs/${id}/download" data-act="download">Download${ofWhat}</a>`)
  }
  if (retry?.isAllowed === true) found.push(post('retry', 'Retry'))
  if (retry?.isAllowed === false) {
    // D24 E20: the reason is visible text, not only a tooltip.
    const why = `why-${id}`
    found.push(
      html`<button class="small" data-act="retry" disabled aria-describedby="${why}">Retry${ofWhat}</button><span class="why quiet" id="${why}">${retry.why}</span>`,
    )
  }
  if (isAllowed('cancel')) found.push(post('cancel', 'Cancel', ' calm'))
  return found
}

export function banner({ gateway, uploads }: Service): Html {
  const said: string[] = []
  // E13
  if (gateway === 'held') said.push('Converter busy — jobs will resume automatically.')
  if (gateway === 'failing-fast') {
    said.push('Converter is down – new conversions fail at once. Retry them when it is back.')
  }
  if (uploads === 'full') said.push('Uploads are paused – there is no room for more files at the moment.')
  if (uploads === 'away') said.push('Uploads are paused – where files are kept cannot be reached at the moment.')
  return html`${said.map((text) => html`<p class="box warn">${text}</p>`)}`
}

const noticeBox = ({ message, action, isProblem }: Notice): Html =>
  html`<p class="box ${isProblem ? 'bad' : 'info'}"><strong>${message}</strong> ${action}</p>`

const reloading = (isOn: boolean): Html =>
  isOn
    ? html`This page reloads every ${RELOAD_SECONDS} seconds. <a href="/convert?still=yes">Stop that</a>`
    : html`<a href="/convert">Reload by itself</a>`

function pager(nextCursor: string | null, isFirstPage: boolean): Html | null {
  if (isFirstPage && nextCursor === null) return null
  return html`<nav class="bar" aria-label="Pages of conversions">${
    !isFirstPage && html`<a href="/convert">Newest</a>`
  } ${nextCursor !== null && html`<a href="/convert?cursor=${nextCursor}">Older</a>`}</nav>`
}

/** The state of a conversion, for the stylesheet. */
type Look = 'waiting' | 'paused' | 'converting' | 'done' | 'failed' | 'over'

/** The short line of a row (D26), and what there is to add. */
interface Status {
  look: Look
  words: Html
  note: Html | null
}

/** D19 */
const HELD = 'Gateway busy, paused. Will retry automatically.'

/** `isHolding`: the breaker is open and holds waiting jobs. */
function statusOf(conversion: Conversion, isHolding: boolean): Status {
  const { job, isResultGone } = conversion
  switch (job.status) {
    case 'queued':
      return waiting(conversion, isHolding)
    case 'processing':
      if (job.cancelRequestedAt !== null) return { look: 'converting', words: html`Stopping…`, note: null }
      return { look: 'converting', words: converting(job), note: progress(job) }
    case 'complete':
      if (isResultGone) return { look: 'over', words: html`Expired`, note: html`${CODES.EXPIRED.message}` }
      return { look: 'done', words: html`Done`, note: made(job.result as ConvertResult) }
    case 'failed':
      return { look: 'failed', words: html`Failed`, note: html`${job.errorMessage ?? CODES.UNKNOWN.message}` }
    case 'cancelled':
      return { look: 'over', words: html`Cancelled`, note: null }
  }
}

function waiting({ job, place, waitingFor }: Conversion, isHolding: boolean): Status {
  if (isHolding) return { look: 'paused', words: html`${HELD}`, note: null }
  const isHeldBy = (what: string) => job.held.some(({ by }) => by === what)
  if (isHeldBy('queue')) return { look: 'paused', words: html`Paused. Will go on automatically.`, note: null }
  const note = waitingFor === null ? null : html`${waitingFor}`
  if (job.retryAfter !== null && place === null) {
    return { look: 'waiting', words: html`Waiting to try again at ${clockTime(job.retryAfter)}`, note }
  }
  if (isHeldBy('workers')) return { look: 'waiting', words: html`Waiting until a converter is at work`, note }
  return { look: 'waiting', words: html`Waiting${place !== null && inLine(place)}`, note }
}

function inLine(place: Position): string {
  if ('before' in place) return place.before === 0 ? ', next in line' : `, ${ordinal(place.before + 1)} in line`
  return ` in a line of ${place.isMore ? 'more than ' : ''}${place.length.toLocaleString('en')}`
}

const ENDINGS: Readonly<Record<string, string>> = { one: 'st', two: 'nd', few: 'rd', other: 'th' }
const RULES = new Intl.PluralRules('en', { type: 'ordinal' })

const ordinal = (place: number): string => `${place.toLocaleString('en')}${ENDINGS[RULES.select(place)]}`

const converting = ({ attemptCount }: JobView): Html =>
  attemptCount > 1 ? html`Converting, ${ordinal(attemptCount)} try` : html`Converting`

const progress = ({ progress: share }: JobView): Html | null =>
  share > 0 && share < 1 ? html`<progress value="${share}" aria-label="Converted so far"></progress>` : null

function made({ pages, bytes }: ConvertResult): Html {
  const xml = `${sizeText(bytes)} of XML`
  return html`${pages === null ? xml : `${pages} ${pages === 1 ? 'page' : 'pages'}, ${xml}`}`
}
