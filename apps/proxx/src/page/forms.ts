import { sizeText } from '@redress/shared/pages'
import { type Html, html } from 'redress/http'
import type { Rights } from '../access.ts'
import type { Report } from '../spec/checks.ts'
import { PLACEHOLDERS } from '../spec/naming.ts'
import { PROFILES } from '../spec/profiles.ts'
import type { Problem } from '../spec/spec.ts'
import type { ProxxJob } from '../view.ts'
import { lookOf, placeText, safeString, safeText, specText, titleOf } from './words.ts'

/** A refused form: the typed fields and all problems. */
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
<p>If its worker is gone for good, mark the job as failed and say why. You can retry it afterwards.</p>${markFailedForm(job, refused)}</section>`
  }
  if (look === 'failed' && rights.retry) return retryForm(job, newId, rights, refused)
  return refused === null ? null : problemsBox(refused)
}

export function markFailedForm(job: ProxxJob, refused: RefusedAct | null): Html {
  const { id } = job
  return html`${refused !== null && problemsBox(refused)}<form class="act" method="post" action="/proxx/jobs/${id}/mark-failed">
${reasonField(`reason-${id}`, 'Reason', refused)}
<button data-act="mark">Mark as failed<span class="unseen">: ${safeString(titleOf(job))}</span></button></form>`
}

/** P10, P41: a retry is a new job, and has its id already: a form that is sent twice makes one. */
function retryForm(job: ProxxJob, newId: string, { edit }: Rights, refused: RefusedAct | null): Html {
  const kept = specText(job.spec)
  // Browsers send other line ends.
  const spec = refused?.fields.spec?.replaceAll('\r\n', '\n') ?? kept
  const isEdited = spec !== kept
  return html`<section class="card" aria-labelledby="retry-title"><h2 id="retry-title">Retry</h2>
<p>Makes a new job, which starts with the first clip. This job stays failed.</p>
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

function problemsBox({ message, problems, recordedId }: Omit<RefusedAct, 'act' | 'fields'>): Html {
  return html`<div class="box bad" role="alert"><p><strong>${safeText(message)}</strong></p>
${problems.length > 0 && html`<ul class="problems">${problems.map(problemLine)}</ul>`}
${recordedId !== null && html`<p>Nothing was run. The refusal is recorded as <a href="/proxx/jobs/${recordedId}">a failed job</a>.</p>`}</div>`
}

export const problemLine = ({ code, path, message }: Problem): Html =>
  html`<li>${path !== '' && html`<strong>${safeText(placeText(path))}</strong>: `}${safeText(message)} <code class="quiet">${code}</code></li>`

export type Fields = Readonly<Record<string, string>>

/** The result of checking or submitting a form. */
export interface Outcome {
  report: Pick<Report, 'problems' | 'outputs' | 'estimateBytes' | 'freeBytes'>
  /** The failed job that recorded the submission; null if it was only checked. */
  recordedId: string | null
}

interface SubmitForm {
  /** The id of the job: a form that is sent twice makes one. */
  id: string
  fields: Fields
  outcome: Outcome | null
  hasScripts: boolean
}

/** The typed sources: one path on each line. */
const linesOf = (text: string): string[] =>
  text
    .split(/\r\n|\r|\n/)
    .map((line) => line.trim())
    .filter((line) => line !== '')

/** The spec of a form. The checks report its problems, as for every spec. */
export function specOfForm(fields: Fields): unknown {
  const { sources = '', profile = '', directory = '', naming = '', script = '', clipMinutes = '' } = fields
  return {
    version: 1,
    sources: linesOf(sources),
    profile,
    output: { directory: directory.trim(), naming: naming.trim() },
    ...(script.trim() !== '' && { verify: { script: script.trim() } }),
    ...(clipMinutes.trim() !== '' && {
      limits: { clipMinutes: /^\d+$/.test(clipMinutes.trim()) ? Number(clipMinutes) : clipMinutes },
    }),
  }
}

/** Maps a path in the spec to a field of the form, with a message for an empty field. */
const FIELDS: readonly { name: string; path: RegExp; empty: string }[] = [
  { name: 'sources', path: /^sources/, empty: 'name at least one clip' },
  { name: 'profile', path: /^profile$/, empty: 'choose one' },
  { name: 'directory', path: /^output\.directory$/, empty: 'name the directory' },
  { name: 'naming', path: /^output\.naming$/, empty: 'say how outputs are called' },
  { name: 'script', path: /^verify/, empty: '' },
  { name: 'clipMinutes', path: /^limits/, empty: '' },
]

/** An empty field has a single problem, whatever the checks find. */
function inWordsOfForm(problems: readonly Problem[], fields: Fields): (Problem & { field: string | null })[] {
  const told = problems.map((problem) => {
    const field = FIELDS.find(({ path }) => path.test(problem.path))
    const isEmpty = field !== undefined && field.empty !== '' && (fields[field.name] ?? '').trim() === ''
    return {
      code: problem.code,
      path: isEmpty ? field.name : problem.path,
      message: isEmpty ? field.empty : problem.message,
      field: field?.name ?? null,
    }
  })
  const seen = new Set<string>()
  return told.filter(({ path, message }) => seen.size < seen.add(`${path} ${message}`).size)
}

export function submitForm({ id, fields, outcome, hasScripts }: SubmitForm): Html {
  const problems = inWordsOfForm(outcome?.report.problems ?? [], fields)
  const { sources = '', directory = '', naming = '{source_name}_{index}', script = '', clipMinutes = '' } = fields
  const chosen = fields.profile ?? [...PROFILES.keys()][0]
  const state = (name: string, hint: string | null = null): Html => {
    const isWrong = problems.some(({ field }) => field === name)
    const described = [...(hint === null ? [] : [hint]), ...(isWrong ? ['what-is-wrong'] : [])].join(' ')
    return html`${isWrong && html` aria-invalid="true"`}${described !== '' && html` aria-describedby="${described}"`}`
  }
  return html`<header><h1>New job</h1><p class="quiet">The spec is checked before the job is made. All problems are reported at once.</p></header>
${outcome !== null && outcomeBox(outcome, problems)}
<form class="act" method="post" action="/proxx/jobs">
<input type="hidden" name="id" value="${id}">
<label class="field" for="sources">Clips</label>
<textarea id="sources" name="sources" rows="6" required spellcheck="false"${state('sources', 'sources-hint')}>
${sources}</textarea>
<p class="hint" id="sources-hint">One path on each line, in the order in which they are to be made: <code>/card/A001.mov</code></p>
<fieldset${state('profile')}><legend>Profile</legend>${[...PROFILES.values()].map(
    ({ name, version, title }) =>
      html`<label class="choice"><input type="radio" name="profile" value="${name}" required${name === chosen && html` checked`}><span><strong>${title}</strong> <span class="quiet">${name}, version ${version}</span></span></label>`,
  )}</fieldset>
<label class="field" for="directory">Directory of the proxies</label>
<input id="directory" name="directory" required spellcheck="false" autocomplete="off" value="${directory}"${state('directory', 'directory-hint')}>
<p class="hint" id="directory-hint">It must exist. Nothing in it is ever overwritten.</p>
<label class="field" for="naming">Names of the proxies</label>
<input id="naming" name="naming" required spellcheck="false" autocomplete="off" value="${naming}"${state('naming', 'naming-hint')}>
<p class="hint" id="naming-hint">Without extension. ${PLACEHOLDERS.map((one, at) => html`${at > 0 && ', '}<code>{${one}}</code>`)} are filled in.</p>
<details${(script !== '' || clipMinutes !== '') && html` open`}><summary>More</summary>
${
  hasScripts &&
  html`<label class="field" for="script">Script that judges each proxy</label>
<input id="script" name="script" spellcheck="false" autocomplete="off" value="${script}"${state('script')}>`
}
<label class="field" for="clipMinutes">Minutes that a clip may take at most</label>
<input id="clipMinutes" name="clipMinutes" inputmode="numeric" autocomplete="off" value="${clipMinutes}"${state('clipMinutes')}></details>
<div class="buttons"><button>Submit</button><button class="calm" formaction="/proxx/validate">Only check it</button></div>
</form>`
}

function outcomeBox({ report, recordedId }: Outcome, problems: readonly Problem[]): Html {
  if (problems.length > 0) {
    const message = recordedId === null ? 'This would be refused. Nothing was recorded.' : 'The job was refused.'
    return html`<div id="what-is-wrong">${problemsBox({ message, problems, recordedId })}</div>`
  }
  const { outputs, estimateBytes, freeBytes } = report
  return html`<div class="box good" role="status"><p><strong>The spec is valid.</strong> It is not submitted yet.</p>
${estimateBytes !== null && freeBytes !== null && html`<p>It needs about ${sizeText(estimateBytes)}; ${sizeText(freeBytes)} are free.</p>`}
<details><summary>Names of the proxies</summary><ol class="files">${outputs.map((name) => html`<li><code>${safeText(name)}</code></li>`)}</ol></details></div>`
}
