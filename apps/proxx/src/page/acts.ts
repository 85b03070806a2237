import { type Html, html } from 'redress/http'
import type { Rights } from '../access.ts'
import type { Problem } from '../spec/spec.ts'
import type { ProxxJob } from '../view.ts'
import { lookOf, placeText, said, saidPlainly, specText, titleOf } from './words.ts'

/** A form that was refused: what was typed into it, and everything that was wrong. */
export interface RefusedAct {
  act: 'retry' | 'mark-failed'
  fields: Readonly<Record<string, string>>
  message: string
  problems: readonly Problem[]
  /** The failed job that the refusal was recorded as. */
  recordedId: string | null
}

const REASON_CHARS_MAX = 1_000

export function actsPart(job: ProxxJob, newId: string, rights: Rights, refused: RefusedAct | null): Html | null {
  const look = lookOf(job)
  if (look === 'orphaned' && rights.mark) {
    return html`<section class="card" aria-labelledby="mark-title"><h2 id="mark-title">Mark as failed</h2>
<p>Is its worker gone for good? Then say so, and why. The job can be retried afterwards.</p>${markFailedForm(job, refused)}</section>`
  }
  if (look === 'failed' && rights.retry) return retryForm(job, newId, rights, refused)
  return refused === null ? null : problemsBox(refused)
}

export function markFailedForm(job: ProxxJob, refused: RefusedAct | null): Html {
  const { id } = job
  return html`${refused !== null && problemsBox(refused)}<form class="act" method="post" action="/proxx/jobs/${id}/mark-failed">
${reasonField(`reason-${id}`, 'Reason', refused)}
<button data-act="mark">Mark as failed<span class="unseen">: ${saidPlainly(titleOf(job))}</span></button></form>`
}

/** P10, P41: a retry is a new job, and has its id already: a form that is sent twice makes one. */
function retryForm(job: ProxxJob, newId: string, { edit }: Rights, refused: RefusedAct | null): Html {
  const kept = specText(job.spec)
  // A browser sends the ends of lines in its own way.
  const spec = refused?.fields.spec?.replaceAll('\r\n', '\n') ?? kept
  const isEdited = spec !== kept
  return html`<section class="card" aria-labelledby="retry-title"><h2 id="retry-title">Retry</h2>
<p>Makes a new job, which begins with the first clip. This one stays failed, as it is.</p>
${job.retriedAs !== null && html`<p>It was retried as job <a href="/proxx/jobs/${job.retriedAs}">${job.retriedAs}</a>. If that one failed, retry that one.</p>`}
${refused !== null && problemsBox(refused)}
<form class="act" method="post" action="/proxx/jobs/${job.id}/retry">
<input type="hidden" name="id" value="${newId}">
${reasonField(`reason-${job.id}`, 'Reason', refused)}
${
  edit &&
  html`<details class="spec"${isEdited && html` open`}><summary>Change the spec first</summary>
<label class="field" for="spec-${job.id}">Spec as JSON</label>
<textarea id="spec-${job.id}" name="spec" rows="14" spellcheck="false" data-act="spec" aria-describedby="spec-hint">
${spec}</textarea>
<p class="hint" id="spec-hint">Left as it is, the new job has the same spec and the same version of its profile.</p></details>`
}
${job.retriedAs !== null && html`<label class="check"><input type="checkbox" name="again" value="yes" required data-act="again"> Make one more job from this one</label>`}
<button data-act="retry">Retry</button></form></section>`
}

const reasonField = (id: string, name: string, refused: RefusedAct | null): Html =>
  html`<label class="field" for="${id}">${name}</label><input id="${id}" name="reason" required maxlength="${REASON_CHARS_MAX}" autocomplete="off" data-act="reason" value="${refused?.fields.reason ?? ''}">`

export function problemsBox({ message, problems, recordedId }: Omit<RefusedAct, 'act' | 'fields'>): Html {
  return html`<div class="box bad" role="alert"><p><strong>${said(message)}</strong></p>
${problems.length > 0 && html`<ul class="problems">${problems.map(problemLine)}</ul>`}
${recordedId !== null && html`<p>Nothing was run. The refusal is recorded as <a href="/proxx/jobs/${recordedId}">a failed job</a>.</p>`}</div>`
}

export const problemLine = ({ code, path, message }: Problem): Html =>
  html`<li>${path !== '' && html`<strong>${said(placeText(path))}</strong>: `}${said(message)} <code class="quiet">${code}</code></li>`
