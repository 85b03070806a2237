import { stylesheetLinks } from '@redress/shared/pages'
import type { FastifyReply } from 'fastify'
import { type Caller, type Html, html, page } from 'redress/http'

/** For the script of a page: the topics to listen to, and the URL that returns the changes. */
export interface Live {
  /** false: nothing on this page can change. */
  isLive: boolean
  topics: readonly string[]
  state: string
}

export interface Frame {
  title: string
  caller: Caller
  /** The message about the form that led here. */
  said: { text: string; isProblem: boolean } | null
  live: Live | null
  /** Without JavaScript, a page with running work reloads itself, unless the reader turned that off. */
  isReloading: boolean
  isStill: boolean
  /** The breadcrumbs: links to the pages above this one. */
  above: readonly { href: string; name: string }[]
}

interface Addresses {
  script: string
  stylesheets: readonly string[]
}

const RELOAD_SECONDS = 5

export function framed(
  { title, caller, said, live, isReloading, isStill, above }: Frame,
  body: Html,
  files: Addresses,
): string {
  const isOwner = caller.role === 'owner'
  const content = html`
<nav class="bar top" aria-label="Where you are">
<p class="trail">${above.map(({ href, name }, i) => html`${i > 0 && html`<span aria-hidden="true"> / </span>`}<a href="${href}"><bdi>${name}</bdi></a>`)}</p>
<div class="who">${!isOwner && html`<a href="/">Dashboard</a> `}<span class="quiet"><bdi>${caller.name}</bdi></span>${
    caller.isPerson && html`<form method="post" action="/sign-out"><button class="small calm">Sign out</button></form>`
  }</div>
</nav>
<div id="said" role="status">${said !== null && html`<p class="box ${said.isProblem ? 'bad' : 'info'}">${said.text}</p>`}</div>
<p id="connection" class="box warn" role="status" hidden></p>
${isReloading && html`<noscript><p class="quiet">${isStill ? html`<a href="?">Reload by itself</a>` : html`This page reloads every ${RELOAD_SECONDS} seconds. <a href="?still=yes">Stop that</a>`}</p></noscript>`}
<div id="page"${
    live !== null &&
    html` data-live="${live.isLive ? 'yes' : 'no'}" data-topics="${JSON.stringify(live.topics)}" data-state="${live.state}"`
  }>${body}</div>
<p id="announced" class="unseen" aria-live="polite"></p>`
  const head = html`
${stylesheetLinks(files.stylesheets)}
<script type="module" src="${files.script}"></script>${
    isReloading && !isStill && html`<noscript><meta http-equiv="refresh" content="${RELOAD_SECONDS}"></noscript>`
  }`
  return page(`${title} · Redress`, content, head)
}

export const sendPage = (reply: FastifyReply, document: string): FastifyReply =>
  reply.type('text/html').header('cache-control', 'private, no-cache').send(document)
