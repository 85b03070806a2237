import { ageOf } from '@redress/shared/pages'
import { type Html, html } from 'redress/http'
import type { DetectResult } from '../detection/detect-job.ts'
import type { DetectionView } from '../detection/detections.ts'
import { MATCH_Z_MIN } from '../media.ts'
import type { Live } from './frame.ts'

/** Bars are drawn up to this value; higher scores are equally certain. */
const Z_SHOWN_MAX = 12

type Ranked = DetectResult['ranked'][number]

export const isSearching = ({ status }: DetectionView): boolean => status === 'queued' || status === 'processing'
const overLine = ({ ranked }: DetectResult): Ranked[] => ranked.filter(({ z }) => z >= MATCH_Z_MIN)

export function detectionList(campaignName: string, detections: readonly DetectionView[]): Html {
  return html`<header><h1>Searches</h1><p class="quiet">Whose copy of <bdi>${campaignName}</bdi> a file is.</p></header>
<ol class="searches">${detections.map(
    (detection) =>
      html`<li><a class="name" href="/campaigns/${detection.campaignId}/detections/${detection.id}"><bdi>${detection.fileName}</bdi></a>
<p>${inShort(detection)} <span class="quiet">${ageOf(detection.createdAt)}</span></p></li>`,
  )}</ol>
${detections.length === 0 && html`<p class="nothing quiet">No searches yet. Send a file from the page of the campaign.</p>`}`
}

function inShort(detection: DetectionView): Html {
  const { result, error } = detection
  if (error !== null) return html`Failed: ${error.message}`
  if (result === null) return html`${isSearching(detection) ? 'Searching' : 'Not finished'}`
  const found = overLine(result)
  if (result.verdict === 'inconclusive' || found.length === 0) return html`Inconclusive`
  if (found.length > 1) return html`${found.length} recipients’ marks found`
  return html`The copy of <bdi>${found[0]?.name}</bdi>`
}

export function detectionReport(detection: DetectionView): Html {
  return html`<header><h1><bdi>${detection.fileName}</bdi></h1><p class="quiet">Sent ${ageOf(detection.createdAt)}</p></header>
<div id="part-report">${reportPart(detection)}</div>`
}

export function reportPart(detection: DetectionView): Html {
  const { result, error, progress, status } = detection
  if (error !== null) {
    return html`<p class="box bad"><strong>The search failed.</strong> ${error.message}</p>
<p>The search is not retried automatically. It has no result about any recipient.</p>`
  }
  if (result !== null) return verdict(result)
  if (!isSearching(detection))
    return html`<p class="box warn">The search was stopped. It has no result about any recipient.</p>`
  return html`<p class="big">${status === 'queued' ? 'Waiting' : 'Searching'}</p>
<progress max="100" value="${progress ?? 0}" aria-label="Progress of the search"></progress>`
}

function verdict(result: DetectResult): Html {
  const found = result.verdict === 'match' ? overLine(result) : []
  return html`${words(found)}
<section aria-labelledby="ranking"><h2 id="ranking">Match with each copy</h2>
<p class="quiet">A copy of another recipient scores about 0 by chance. A score of ${MATCH_Z_MIN} or more is a match. The best of ${result.decoys.toLocaleString('en')} unused marks scored ${result.bestDecoyZ.toFixed(1)}.</p>
<ol class="ranking">${result.ranked.map((ranked) => bar(ranked))}</ol></section>`
}

function words(found: readonly Ranked[]): Html {
  const [first, ...others] = found
  if (first === undefined) {
    return html`<p class="box warn"><strong>Inconclusive.</strong> An inconclusive search accuses nobody: no mark was found that chance could not have made.</p>
<p>The file may be no copy of this campaign, or its mark may have been destroyed. The order below is by chance.</p>`
  }
  if (others.length === 0) {
    return html`<p class="box info"><strong>This is the copy of <bdi>${first.name}</bdi></strong> (<bdi>${first.email}</bdi>).</p>
<p>It says whose copy the file was made from, and not who passed it on.</p>`
  }
  return html`<p class="box info"><strong>The marks of ${found.length} recipients are in this file:</strong> ${found.map(
    ({ name }, i) => html`${i > 0 && ', '}<bdi>${name}</bdi>`,
  )}.</p>
<p>Their copies were probably mixed. It says whose copies the file was made from, and not who passed it on.</p>`
}

/** The number is also readable as text, for readers who do not see the meter. */
function bar({ name, email, z }: Ranked): Html {
  const isOver = z >= MATCH_Z_MIN
  const value = Math.min(Z_SHOWN_MAX, Math.max(0, z)).toFixed(2)
  return html`<li class="ranked${isOver && ' over'}"><p class="who"><bdi class="name">${name}</bdi> <bdi class="email quiet">${email}</bdi></p>
<p class="z">${z.toFixed(1)}</p>
<div class="scale"><meter min="0" max="${Z_SHOWN_MAX}" value="${value}" aria-label="Agreement with the copy of ${name}">${z.toFixed(1)}</meter><span class="line" aria-hidden="true"></span></div></li>`
}

export const liveOfDetection = (detection: DetectionView): Live => ({
  isLive: isSearching(detection),
  topics: [`job:${detection.id}`],
  state: `/campaigns/${detection.campaignId}/detections/${detection.id}/state`,
})
