import { ageOf, momentOf } from '@redress/shared/pages'
import { type Caller, type Html, html } from 'redress/http'
import type { Rights } from '../access.ts'
import { PROFILES } from '../spec/profiles.ts'
import { readSpec } from '../spec/spec.ts'
import { failureLine } from './failure.ts'
import { markFailedForm } from './forms.ts'
import type { Live } from './frame.ts'
import { type Choice, FILTERS, type Listed, type Row, type Rows } from './reader.ts'
import { badge, lookOf, positionText, safeText, titleOf } from './words.ts'

export function jobList(listed: Listed, choice: Choice, rights: Rights): Html {
  const { orphans, jobs } = listed
  const isOrphansOnly = choice.status === 'orphaned'
  return html`<header class="bar"><div><h1>Proxies</h1>
<p class="quiet">Each job is complete, or has failed with a reason. Nothing is retried automatically.</p></div>
${rights.submit && html`<a class="button" href="/proxx/new">New job</a>`}</header>
<section aria-labelledby="orphans-title"><h2 id="orphans-title">Orphans</h2>
<ol id="orphans" class="rows" aria-labelledby="orphans-title">${orphans.rows.map((row) => orphanRow(row, rights))}</ol>
<p class="none quiet">No job has lost its worker.</p>
${!isOrphansOnly && orphans.nextCursor !== null && html`<p><a href="/proxx?status=orphaned">More orphans</a></p>`}
</section>
<section aria-labelledby="jobs-title"><div class="bar"><h2 id="jobs-title">Jobs</h2>${chooser(choice)}</div>
${
  !isOrphansOnly &&
  html`<ol id="rows" class="rows" aria-labelledby="jobs-title">${jobs.rows.map(jobRow)}</ol>
<p class="none nothing quiet">${emptyText(jobs, choice)}</p>`
}
${pager(isOrphansOnly ? orphans : jobs, choice)}</section>`
}

function emptyText({ nextCursor }: Rows, { status, profile, cursor }: Choice): string {
  if (nextCursor !== null) return 'No match among the newer jobs. Older ones may match.'
  if (cursor !== null) return 'There are no older ones.'
  return status === null && profile === null ? 'There are no jobs yet.' : 'No job matches.'
}

function chooser({ status, profile }: Choice): Html {
  const option = (value: string, name: string, chosen: string | null) =>
    html`<option value="${value}"${value === (chosen ?? '') && html` selected`}>${name}</option>`
  return html`<form class="chooser" method="get" action="/proxx" role="search">
<label>State <select name="status">${option('', 'all', status)}${FILTERS.map((one) => option(one, one, status))}</select></label>
<label>Profile <select name="profile">${option('', 'all', profile)}${[...PROFILES.keys()].map((one) => option(one, one, profile))}</select></label>
<button class="small calm">Show</button></form>`
}

/** An orphan waits for a person: it says all that they need to decide. */
function orphanRow({ job, standing }: Row, rights: Rights): Html {
  const { id, worker, orphanedAt, startedAt } = job
  const doing = standing === null ? 'It had claimed the job, and nothing had begun.' : positionText(job, standing)
  return html`<li id="orphan-${id}" class="row" data-look="orphaned" tabindex="-1">
<p class="head"><a class="name" href="/proxx/jobs/${id}" data-act="open">${safeText(titleOf(job))}</a> ${badge(job)}</p>
<p><strong>Its worker${worker !== null && html` ${safeText(worker)}`} is silent${orphanedAt !== null && html`: noticed ${momentOf(orphanedAt)}`}.</strong> ${doing}${
    startedAt !== null && html` It had begun ${momentOf(startedAt)}.`
  }</p>
<p class="todo">${
    rights.mark
      ? 'Nothing happens to it until you decide. Look at that machine: if it is gone or stuck, mark the job as failed, and then retry it.'
      : 'Nothing happens to it until an operator decides.'
  }</p>
${facts(job)}
${rights.mark && markFailedForm(job, null)}
</li>`
}

function jobRow({ job, standing }: Row): Html {
  const { id, error } = job
  return html`<li id="row-${id}" class="row" data-look="${lookOf(job)}" tabindex="-1">
<p class="head"><a class="name" href="/proxx/jobs/${id}" data-act="open">${safeText(titleOf(job))}</a> ${badge(job)}</p>
${standing !== null && html`<p>${positionText(job, standing)}</p>`}
${error !== null && failureLine(job, error)}
${facts(job)}
</li>`
}

function facts({ spec, profile, owner, createdAt, finishedAt }: Row['job']): Html {
  const directory = readSpec(spec).spec?.output.directory
  return html`<p class="facts quiet">${profile !== null && html`${profile.name} · `}${
    directory !== undefined && html`to ${safeText(directory)} · `
  }${owner !== null && html`for ${safeText(owner)} · `}submitted ${ageOf(createdAt)}${finishedAt !== null && html`, ended ${ageOf(finishedAt)}`}</p>`
}

/** How a choice is written in an address. */
function queryOf({ status, profile }: Choice, cursor: string | null = null): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries({ status, profile, cursor })) if (value !== null) query.set(name, value)
  return query.size === 0 ? '' : `?${query}`
}

function pager({ nextCursor }: Rows, choice: Choice): Html | null {
  if (choice.cursor === null && nextCursor === null) return null
  return html`<nav class="bar" aria-label="Pages of jobs">${choice.cursor !== null && html`<a href="/proxx${queryOf(choice)}">Newest</a>`} ${
    nextCursor !== null && html`<a href="/proxx${queryOf(choice, nextCursor)}">Older</a>`
  }</nav>`
}

/** The changed lists by id, for the script. */
export const listState = ({ orphans, jobs }: Listed, rights: Rights) => ({
  lists: {
    orphans: orphans.rows.map((row) => orphanRow(row, rights).text),
    rows: jobs.rows.map((row) => jobRow(row).text),
  },
  parts: {},
  isLive: true,
})

export const liveOfList = ({ role, account }: Caller, topic: string, choice: Choice): Live => ({
  topic: role === 'owner' ? `owner:${account}` : topic,
  state: `/proxx/state${queryOf(choice, choice.cursor)}`,
})
