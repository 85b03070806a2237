/**
 * Makes the pages live: listens for events and updates the changed parts. Without it, forms and a reload do the same.
 */

import { LivePage } from './live.js'
import { sayTimes } from './times.js'

/** Progress has no events, so it is polled while a job runs. */
const PROGRESS_MS = 3_000
const NEWS_MAX = 3

const element = (id) => document.getElementById(id)
const page = element('page')

document.documentElement.classList.add('live')

// ---- showing -------------------------------------------------------------------------------------------------------

const htmlOf = new Map()
const lookOf = (within) => (within.dataset.look ? within : within.querySelector('[data-look]'))?.dataset.look

/** Returns whether anything can still change. */
function show({ lists, parts, isLive }) {
  const news = []
  for (const [id, rows] of Object.entries(lists)) if (element(id) !== null) placeRows(element(id), rows, news)
  for (const [id, html] of Object.entries(parts)) placePart(element(id), html, news)
  if (news.length > 0) element('announced').textContent = news.slice(0, NEWS_MAX).join(' ')
  return isLive
}

function placeRows(list, rows, news) {
  const fresh = rows.map((html) => {
    const template = document.createElement('template')
    template.innerHTML = html
    return { html, row: template.content.firstElementChild }
  })
  const ids = new Set(fresh.map(({ row }) => row.id))
  for (const old of [...list.children]) if (!ids.has(old.id)) old.remove()
  fresh.forEach(({ html, row }, at) => {
    const old = element(row.id)
    if (old !== null && htmlOf.get(row.id) === html) return
    htmlOf.set(row.id, html)
    sayTimes(row)
    if (old?.outerHTML === row.outerHTML) return
    if (lookOf(row) !== (old && lookOf(old))) news.push(`${row.querySelector('.name').textContent}: ${lookOf(row)}.`)
    if (old === null) list.insertBefore(row, list.children[at] ?? null)
    else carriedOver(old, row, () => old.replaceWith(row))
  })
}

function placePart(part, html, news) {
  if (htmlOf.get(part.id) === html) return
  htmlOf.set(part.id, html)
  const next = document.createElement('div')
  next.innerHTML = html
  sayTimes(next)
  if (part.innerHTML === next.innerHTML) return
  const look = lookOf(next)
  if (look !== undefined && look !== lookOf(part)) news.push(`The job is ${look}.`)
  carriedOver(part, next, () => part.replaceChildren(...next.childNodes))
}

/** Keeps typed text, open details and the focus. */
function carriedOver(old, next, replace) {
  for (const field of old.querySelectorAll('input[name="reason"], textarea')) {
    const same = next.querySelector(`[name="${field.name}"]`)
    if (same !== null && field.value !== field.defaultValue) same.value = field.value
  }
  const opened = [...old.querySelectorAll('details')].map(({ open }) => open)
  for (const [at, details] of [...next.querySelectorAll('details')].entries()) details.open ||= opened[at] ?? false
  const focused = old.contains(document.activeElement) ? document.activeElement : null
  const [from, to] = [focused?.selectionStart, focused?.selectionEnd]
  const act = focused?.dataset.act
  const target = act === undefined ? null : next.querySelector(`[data-act="${act}"]`)
  replace()
  if (focused === null) return
  const there = target ?? (next.isConnected ? next : null)
  there?.focus({ preventScroll: true })
  if (typeof from === 'number') target?.setSelectionRange?.(from, to)
}

// ---- doing ---------------------------------------------------------------------------------------------------------

// A second click on Retry would make a second job.
document.addEventListener('submit', ({ target, submitter }) => {
  if (!target.matches('.act')) return
  // Disabled after sending, because a disabled button is not part of its form.
  setTimeout(() => {
    if (submitter !== null) submitter.disabled = true
  })
})
addEventListener('pageshow', () => {
  for (const button of document.querySelectorAll('.act button:disabled')) button.disabled = false
})

// ---- start -----------------------------------------------------------------------------------------------------------

const topic = page?.dataset.topic
const live = new LivePage({
  isLive: topic !== undefined,
  topics: [topic],
  all: () => [],
  changed: ({ events, isMore }) => (isMore || Object.keys(events).length > 0 ? [] : null),
  addressOf: () => page.dataset.state,
  show,
})
live.follow()
setInterval(() => {
  if (live.isHearing && document.querySelector('[data-look="processing"]') !== null) void live.refresh()
}, PROGRESS_MS)
