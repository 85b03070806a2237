import { basename } from 'node:path'
import { sizeText } from '@redress/shared/pages'
import { type Html, html } from 'redress/http'
import { CODES, type Code } from '../codes.ts'
import { type Problem, readSpec } from '../spec/spec.ts'
import type { ProxxError, ProxxJob } from '../view.ts'
import { problemLine } from './forms.ts'
import type { Detail } from './reader.ts'

const PROBLEMS_IN_LINE_MAX = 3

import { classText, safeLines, safeText, stageText, toDo } from './words.ts'

/** P49, P60: a single failure: its class, its owner, where it happened, and what to do. */
export function failureLine(job: ProxxJob, error: ProxxError): Html {
  return html`<p class="failure"><strong>${classText(error)}${whereText(job, error)}.</strong> ${safeText(inShort(error))}</p>
${problemList(error, PROBLEMS_IN_LINE_MAX)}
<p class="todo"><strong>What to do:</strong> ${toDo(error)}</p>
<p class="facts quiet"><code>${error.code}</code> · ${error.type} · accounted for by the ${ownerText(error)}${
    !job.executionAttempted && ' · never ran'
  }</p>`
}

/** Where all that was wrong is listed, the message need not name the first of it. */
const inShort = ({ code, message, problems }: ProxxError): string =>
  problems.length === 0 ? message : (CODES[code as Code]?.message ?? message)

/** P36 */
const ownerText = ({ owner, worker }: ProxxError): Html =>
  owner === 'worker' ? html`worker${worker !== null && html` ${safeText(worker)}`}` : html`${owner} layer`

function whereText({ spec }: ProxxJob, { clip, stage }: ProxxError): Html | null {
  if (clip === null) return null
  const sources = readSpec(spec).spec?.sources ?? []
  const source = sources[clip - 1]
  return html` at clip ${clip} of ${sources.length}${source !== undefined && html` (${safeText(basename(source))})`}${
    stage !== null && html`, while ${stageText(stage)}`
  }`
}

/** All that is known of it. */
export function failurePart({ job, left }: Detail, seesMachines: boolean): Html | null {
  const { error } = job
  if (error === null) return null
  return html`<section class="box bad-edge" aria-labelledby="failure-title"><h2 id="failure-title">${classText(error)}${whereText(job, error)}</h2>
<p class="big">${safeText(inShort(error))}</p>
<p class="todo"><strong>What to do:</strong> ${toDo(error)}</p>
${!job.executionAttempted && html`<p><strong>This job never ran.</strong> No clip was begun, and nothing was written.</p>`}
${problemList(error)}
<dl class="pairs">
${pair('Class', html`${error.class} (${error.type})`)}${pair('Accounted for by', ownerText(error))}${pair('Code', html`<code>${error.code}</code>`)}
${error.clip !== null && pair('Clip', html`${error.clip}`)}${error.stage !== null && pair('Stage', html`${error.stage}`)}${error.check !== null && pair('Check', html`${error.check}`)}
${error.exitCode !== null && pair('Exit code', html`${error.exitCode}`)}${error.signal !== null && pair('Signal', html`${error.signal}`)}
${error.worker !== null && error.owner !== 'worker' && pair('Worker', safeText(error.worker))}${pair('Changed', html`${error.transition.from} → failed`)}
</dl>
${seesMachines && wordsOfWorker(error)}
${seesMachines && job.executionAttempted && html`<p><a href="/proxx/jobs/${job.id}/stderr">Full output of the programs</a></p>`}
${leftFiles(job, left)}</section>`
}

/** The output of a program is more precise than our summary. Problems of a submission are already listed. */
function wordsOfWorker({ detail, stderrTail, problems }: ProxxError): Html | null {
  if (problems.length > 0) return null
  const own = html`<p class="detail">${safeText(withoutFrames(detail))}</p>`
  if (stderrTail === null || stderrTail === '') return own
  return html`<h3>The last output of the program</h3><pre class="lines" tabindex="0" aria-label="The last output of the program">${safeLines(stderrTail)}</pre>
<details><summary>How the worker reported it</summary>${own}</details>`
}

/** Where in the program something was thrown is in the log, for those who read programs. */
const withoutFrames = (detail: string): string =>
  detail
    .split('\n')
    .filter((line) => !/^\s+at /.test(line))
    .join(' ')

export const pair = (name: string, value: Html): Html => html`<div><dt>${name}</dt><dd>${value}</dd></div>`

/** All that was wrong with a submission, each with its place in the spec. */
function problemList({ problems }: ProxxError, most = Number.POSITIVE_INFINITY): Html | null {
  if (problems.length === 0) return null
  return html`<ul class="problems">${(problems as Problem[]).slice(0, most).map(problemLine)}${
    problems.length > most && html`<li>… and more on its page</li>`
  }</ul>`
}

/**
 * P23, P32: leftover files, for a person to decide about. They are part of the failure of a failed job, and a
 * separate section for an orphan.
 */
export function leftFiles({ executionAttempted, status }: ProxxJob, left: Detail['left']): Html | null {
  if (!executionAttempted) return null
  if (left === null)
    return html`<p>The output directory cannot be reached from here, so leftover files are not shown.</p>`
  const file = ({ clip, path, bytes }: NonNullable<Detail['left']>[number]) =>
    html`<li>Clip ${clip}: <code>${safeText(path)}</code> <span class="quiet">${sizeText(bytes)}</span></li>`
  const parts = left.filter(({ isNamed }) => !isNamed)
  const named = left.filter(({ isNamed }) => isNamed)
  const fate =
    status === 'failed'
      ? 'they are never reused, and stay until you remove them.'
      : 'leave them alone for now, since its worker may still write to them.'
  return html`${status === 'failed' ? html`<h3>What it left</h3>` : html`<h2>What it left</h2>`}
${parts.length === 0 ? html`<p>There are no unfinished files.</p>` : html`<p>Unfinished files. They are not valid proxies: ${fate}</p><ul class="files">${parts.map(file)}</ul>`}
${named.length > 0 && html`<p>Files with the names of its outputs. Unless a retry made them, look at them: while they are there, a retry into this directory is refused.</p><ul class="files">${named.map(file)}</ul>`}`
}
