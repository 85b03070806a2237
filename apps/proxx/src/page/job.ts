import { momentOf, sizeText } from '@redress/shared/pages'
import type { EventView } from 'redress'
import { type Html, html } from 'redress/http'
import type { Rights } from '../access.ts'
import { outputNames } from '../spec/naming.ts'
import { profileOf } from '../spec/profiles.ts'
import { readSpec } from '../spec/spec.ts'
import type { ProxxJob } from '../view.ts'
import { failurePart, leftFiles, pair } from './failure.ts'
import { actsPart, type RefusedAct } from './forms.ts'
import type { Live } from './frame.ts'
import type { ClipPosition, Detail } from './reader.ts'
import { badge, lookOf, positionText, safeLines, safeText, specText, stageText, titleOf } from './words.ts'

export function jobPage(detail: Detail, rights: Rights, refused: RefusedAct | null): Html {
  const parts = Object.entries(jobParts(detail, rights, refused))
  return html`<header><h1>${safeText(titleOf(detail.job))}</h1><p class="quiet"><code>${detail.job.id}</code></p></header>
${parts.map(([id, part]) => html`<div id="${id}">${part}</div>`)}`
}

/** The parts of the page by element id. The script replaces those that change. */
function jobParts(detail: Detail, rights: Rights, refused: RefusedAct | null): Record<string, Html | null> {
  return {
    'part-head': headPart(detail),
    'part-failure': failurePart(detail, rights.seesMachines),
    'part-acts': actsPart(detail.job, detail.newId, rights, refused),
    'part-clips': clipsPart(detail),
    'part-spec': specPart(detail.job),
    'part-history': historyPart(detail, rights),
  }
}

export const jobState = (detail: Detail, rights: Rights) => ({
  lists: {},
  parts: Object.fromEntries(Object.entries(jobParts(detail, rights, null)).map(([id, part]) => [id, part?.text ?? ''])),
  isLive: isUnderWay(detail.job),
})

export const isUnderWay = ({ finishedAt }: ProxxJob): boolean => finishedAt === null

export const liveOfJob = (job: ProxxJob): Live | null =>
  isUnderWay(job) ? { topic: `job:${job.id}`, state: `/proxx/jobs/${job.id}/state` } : null

function headPart({ job, standing, retries, left }: Detail): Html {
  const { owner, worker, createdAt, startedAt, finishedAt, orphanedAt, retriedFrom } = job
  const isOrphan = lookOf(job) === 'orphaned'
  return html`<p class="head" data-look="${lookOf(job)}">${badge(job)} ${job.status === 'pending' ? 'Waits for a worker. Jobs of one directory are made one after another.' : positionText(job, standing)}</p>
${
  isOrphan &&
  html`<div class="box warn"><p><strong>Its worker${worker !== null && html` ${safeText(worker)}`} is silent${orphanedAt !== null && html`: noticed ${momentOf(orphanedAt)}`}.</strong> Nothing happens to this job until a person decides.</p>${leftFiles(job, left)}</div>`
}
<dl class="pairs">
${pair('Submitted', momentOf(createdAt))}
${pair('Began', startedAt === null ? html`${finishedAt === null ? 'not yet' : 'never ran'}` : momentOf(startedAt))}
${finishedAt !== null && pair(job.status === 'failed' ? 'Failed' : 'Completed', momentOf(finishedAt))}
${owner !== null && pair('For', safeText(owner))}${worker !== null && pair('Worker', safeText(worker))}
${retriedFrom !== null && pair('Retry of', html`<a href="/proxx/jobs/${retriedFrom}">${retriedFrom}</a>`)}
${retries.length > 0 && pair('Retried as', html`<ul>${retries.map((retry) => html`<li><a href="/proxx/jobs/${retry.id}">${retry.id}</a> <span class="badge ${retry.status}">${retry.status}</span></li>`)}</ul>`)}
</dl>`
}

/** P45, P58: each clip, and what became of it. */
function clipsPart({ job, standing }: Detail): Html | null {
  const { spec } = readSpec(job.spec)
  const profile = profileOf(job.profile ?? {})
  if (spec === null || profile === null) return null
  const names = outputNames(spec.output.naming, spec.sources, profile)
  const { fingerprint, ffmpeg } = job
  return html`<section aria-labelledby="clips-title"><h2 id="clips-title">Clips</h2>
${fingerprint !== null && html`<p>All were verified before the first got its name. Made with ffmpeg ${safeText(ffmpeg ?? '')}. Fingerprint of the job: <code class="hash">${fingerprint}</code></p>`}
<ol class="clips">${spec.sources.map(
    (source, at) =>
      html`<li><p><code>${safeText(source)}</code></p>${outcomeOf(job, standing, at + 1, names[at] ?? '')}</li>`,
  )}</ol></section>`
}

function outcomeOf(job: ProxxJob, standing: ClipPosition | null, clip: number, name: string): Html {
  const output = job.outputs.find((one) => one.clip === clip)
  if (output !== undefined) {
    const { path, width, height, frames, durationMs, bytes, fingerprint } = output
    return html`<p>→ <code>${safeText(path)}</code></p>
<p class="quiet">Verified: ${width} × ${height}, ${frames.toLocaleString('en')} frames, ${(durationMs / 1000).toFixed(2)} s, ${sizeText(bytes)}</p>
<p class="quiet">Fingerprint <code class="hash">${fingerprint.sha256}</code></p>`
  }
  return html`<p>→ <code>${safeText(name)}</code> <span class="quiet">${unfinishedText(job, standing, clip)}</span></p>`
}

/** P46, P50, P58: of a failed job no clip counts as done. */
function unfinishedText(
  { status, executionAttempted, orphanedAt, error }: ProxxJob,
  standing: ClipPosition | null,
  clip: number,
): string {
  if (status === 'failed') {
    if (!executionAttempted || error === null) return 'not made'
    if (error.clip === null) return 'not delivered, since the job failed'
    if (clip === error.clip) return 'failed here'
    const isBegun = clip < error.clip || error.stage === 'verify' || error.stage === 'deliver'
    return isBegun ? 'not delivered, since the job failed' : 'not begun'
  }
  if (standing === null) return 'to be made'
  if (clip === standing.clip) return `${orphanedAt === null ? '' : 'was '}${stageText(standing.stage)}`
  const isPast = standing.stage === 'verify' || standing.stage === 'deliver' || clip < standing.clip
  return isPast ? 'encoded, not delivered yet' : 'to be made'
}

function specPart({ spec, profile }: ProxxJob): Html {
  const { spec: read } = readSpec(spec)
  return html`<section aria-labelledby="spec-title"><h2 id="spec-title">Spec</h2>
${
  read !== null &&
  html`<dl class="pairs">${pair(
    'Profile',
    html`${safeText(read.profile)}${profile !== null && html`, version ${profile.version} <span class="quiet">${profileOf(profile)?.title}</span>`}`,
  )}${pair('Directory', html`<code>${safeText(read.output.directory)}</code>`)}${pair('Names', html`<code>${safeText(read.output.naming)}</code>`)}
${read.verify?.script !== undefined && pair('Script', html`<code>${safeText(read.verify.script)}</code>`)}${read.limits?.clipMinutes !== undefined && pair('A clip may take', html`${read.limits.clipMinutes} minutes`)}</dl>`
}
<details${read === null && html` open`}><summary>As JSON</summary><pre class="lines" tabindex="0" aria-label="What was asked for">${safeLines(specText(spec))}</pre></details></section>`
}

const EVENTS: Readonly<Record<string, string>> = {
  queued: 'submitted',
  processing: 'claimed by a worker',
  started: 'began',
  orphaned: 'its worker is silent: an orphan',
  recovered: 'its worker is back',
  lost: 'a worker came too late, and was refused',
}

/** P59: every change, with who made it and why. */
function historyPart({ job, events }: Detail, { seesMachines }: Rights): Html {
  const line = ({ at, kind, worker, data }: EventView) =>
    html`<li>${momentOf(at)} <strong>${EVENTS[kind] ?? kind}</strong>${data.code !== undefined && html` <code>${data.code}</code>`}${
      worker !== null && html` · ${safeText(worker)}`
    }${data.actor !== undefined && html` · by ${safeText(data.actor)}`}${data.reason !== undefined && html` · <q>${safeText(data.reason)}</q>`}</li>`
  return html`<section aria-labelledby="history-title"><h2 id="history-title">History</h2>
<ol class="history">${events.map(line)}</ol>
${seesMachines && html`<p><a href="/proxx/jobs/${job.id}/job.json">Job file</a>${job.executionAttempted && html` · <a href="/proxx/jobs/${job.id}/stderr">Full output of the programs</a>`}</p>`}</section>`
}
