import { stylesheetLinks } from '@redress/shared/pages'
import type { FastifyReply } from 'fastify'
import { type Caller, type Html, html, page } from 'redress/http'
import { safeString } from './words.ts'

/** For the script of a page: the topic to listen to, and the URL that returns the changes. */
export interface Live {
  topic: string
  state: string
}

export interface Frame {
  title: string
  caller: Caller
  live: Live | null
  /**
   * Without JavaScript, a page with running jobs reloads itself. A page with a form does not, because the input would
   * be lost.
   */
  isReloading: boolean
  /** Where the page is, in the eyes of its reader. */
  isBelowList: boolean
}

export interface Addresses {
  script: string
  stylesheets: readonly string[]
}

const RELOAD_SECONDS = 5

export function framed({ title, caller, live, isReloading, isBelowList }: Frame, body: Html, files: Addresses): string {
  const content = html`
<nav class="bar top" aria-label="Where you are">
<p>${isBelowList && html`<a href="/proxx">All jobs</a>`}</p>
<div class="who">${caller.role !== 'owner' && html`<a href="/">Dashboard</a> `}<span class="quiet"><bdi>${caller.name}</bdi></span>${
    caller.isPerson && html`<form method="post" action="/sign-out"><button class="small calm">Sign out</button></form>`
  }</div>
</nav>
<p id="connection" class="box warn" role="status" hidden></p>
${isReloading && html`<noscript><p class="quiet">This page reloads every ${RELOAD_SECONDS} seconds.</p></noscript>`}
<div id="page"${live !== null && html` data-topic="${live.topic}" data-state="${live.state}"`}>${body}</div>
<p id="announced" class="unseen" aria-live="polite"></p>`
  const head = html`
${stylesheetLinks(files.stylesheets)}
<script type="module" src="${files.script}"></script>${
    isReloading && html`<noscript><meta http-equiv="refresh" content="${RELOAD_SECONDS}"></noscript>`
  }`
  return page(`${safeString(title)} · Redress`, content, head)
}

export const sendPage = (reply: FastifyReply, document: string): FastifyReply =>
  reply.type('text/html').header('cache-control', 'private, no-cache').send(document)
