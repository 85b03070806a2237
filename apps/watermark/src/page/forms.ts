import { sizeText } from '@redress/shared/pages'
import { type Html, html } from 'redress/http'
import type { AssetRow } from '../assets/assets.ts'
import { type DraftProblem, textOf } from '../campaigns/drafts.ts'
import type { CampaignDetail } from '../campaigns/view.ts'
import { assetFacts, thumbnail } from './words.ts'

export function uploadForm(bytesMax: number): Html {
  return html`<form class="upload" method="post" action="/assets" enctype="multipart/form-data" data-bytes-max="${bytesMax}" data-next="/campaigns">
<label class="field">Video or image <input type="file" name="file" accept="video/*,image/*" required></label>
<p class="hint">Up to ${sizeText(bytesMax)}.</p>
<progress max="1" value="0" aria-label="Sent so far" hidden></progress>
<p class="problem" role="alert" hidden></p>
<button>Upload</button>
</form>`
}

/** Messages for the form, whose labels differ from the names of the API. */
const WORDS: Readonly<Record<string, string>> = {
  assetId: 'Choose a file.',
  name: 'Give it a name, of at most 200 characters.',
  maxDownloads: 'A whole number from 1 to 1,000,000, or nothing.',
  expiresAt: 'A time to come, within ten years, or nothing.',
  visible: 'Choose at least one kind of mark.',
  invisible: 'Choose at least one kind of mark.',
}
const PROBLEMS_MAX = 5

export interface DraftForm {
  assets: readonly AssetRow[]
  isOwner: boolean
  fields: Readonly<Record<string, string>>
  problems: readonly DraftProblem[]
}

/** The form fields that make the same campaign. An end in the past is left out. */
export function fieldsOf(campaign: CampaignDetail, nowMs: number): DraftForm['fields'] {
  const { assetId, name, tokens, maxDownloads, expiresAt, visible, invisible } = campaign
  const isToCome = expiresAt !== null && Date.parse(expiresAt) > nowMs
  return {
    assetId,
    name,
    recipients: textOf(tokens),
    maxDownloads: String(maxDownloads ?? ''),
    expiresAt: isToCome ? expiresAt.slice(0, 'YYYY-MM-DDTHH:MM'.length) : '',
    visible: visible ? '1' : '0',
    invisible: invisible ? '1' : '0',
  }
}

export function draftForm({ assets, isOwner, fields, problems }: DraftForm): Html {
  const isNew = Object.keys(fields).length === 0
  const { name = '', maxDownloads = '', expiresAt = '', recipients = '' } = fields
  const isOn = (field: string) => isNew || fields[field] === '1'
  const chosen = fields.assetId ?? assets[0]?.id
  const problemOf = (field: string): Html | null => {
    const found = problems.filter((problem) => problem.field === field)
    if (found.length === 0) return null
    const texts = found.slice(0, PROBLEMS_MAX).map(({ message }) => WORDS[field] ?? sentence(message))
    const more = found.length - texts.length
    const all = more > 0 ? [...texts, `And ${more} more.`] : texts
    return html`<span class="problem" id="problem-${field}">${[...new Set(all)].map((text) => html`<span>${text}</span>`)}</span>`
  }
  const state = (field: string, ...hints: string[]): Html => {
    const isWrong = problems.some((problem) => problem.field === field)
    const described = [...hints, ...(isWrong ? [`problem-${field}`] : [])].join(' ')
    return html`${isWrong && html` aria-invalid="true"`}${described !== '' && html` aria-describedby="${described}"`}`
  }
  const known = new Set([...Object.keys(WORDS), 'recipients'])
  const others = problems.filter(({ field }) => !known.has(field))
  return html`<form class="draft" method="post" action="/campaigns">
${problems.length > 0 && html`<p class="box bad" role="alert">The draft was not made. Correct the ${problems.length === 1 ? 'problem' : 'problems'} below.</p>`}
${others.map(({ field, message }) => html`<p class="problem">${field}: ${message}</p>`)}
<fieldset class="choices"${state('assetId')}><legend>File to mark</legend>
<div class="assets">${assets.map(
    (asset) =>
      html`<label class="asset"><input type="radio" name="assetId" value="${asset.id}" required${asset.id === chosen && html` checked`}>${thumbnail(asset.id)}<span class="facts"><bdi class="name">${asset.name}</bdi><span class="quiet">${assetFacts(asset)}${!isOwner && html` · <bdi>${asset.account_id}</bdi>`}</span></span></label>`,
  )}</div>${problemOf('assetId')}</fieldset>
<label class="field">Name <input name="name" value="${name}" required maxlength="200" autocomplete="off"${state('name')}>${problemOf('name')}</label>
<label class="field">Recipients <textarea name="recipients" rows="6" required spellcheck="false"${state('recipients', 'hint-recipients')}>
${recipients}</textarea>${problemOf('recipients')}</label>
<p class="hint" id="hint-recipients">One on each line: <code>Ann Example, ann@example.org</code></p>
<label class="field live-only">Or take them from a CSV file <input type="file" accept=".csv,.txt,text/csv,text/plain" data-into="recipients"></label>
<div class="pair">
<label class="field">Downloads for each <input name="maxDownloads" type="number" min="1" max="1000000" step="1" value="${maxDownloads}" placeholder="Any number"${state('maxDownloads')}>${problemOf('maxDownloads')}</label>
<label class="field">Ends at (UTC) <input name="expiresAt" type="datetime-local" value="${expiresAt}"${state('expiresAt', 'hint-ends')}>${problemOf('expiresAt')}<span class="hint" id="hint-ends">In UTC. Left empty, it does not end.</span></label>
</div>
<fieldset class="choices"${state('invisible')}><legend>Marks</legend>
${checkBox('visible', 'Visible: the recipient’s name in the picture', isOn('visible'))}
${checkBox('invisible', 'Invisible: finds whose copy a leaked file is', isOn('invisible'))}
${problemOf('invisible') ?? problemOf('visible')}</fieldset>
<button>Make a draft</button>
<p class="hint">Nothing is sent or made before you publish it.</p>
</form>`
}

/** A box that is not checked is not sent: then the 0 before it is what counts. */
const checkBox = (name: string, label: string, isOn: boolean): Html =>
  html`<input type="hidden" name="${name}" value="0"><label class="check"><input type="checkbox" name="${name}" value="1"${isOn && html` checked`}> ${label}</label>`

const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`
