/** Makes the pages live: what changes is heard of and put in its place. Without it, forms and a reload do the same. */

import { sayTimes } from './times.js'

const GATHER_MS = 500
const ANSWER_MS_MAX = 15_000
const AGAIN_MS = 2_000
const AGAIN_MS_MAX = 30_000
/** How far a job is has no events: it is asked for, while one runs. */
const PROGRESS_MS = 3_000
const NEWS_MAX = 3

const element = (id) => document.getElementById(id)
const page = element('page')

document.documentElement.classList.add('live')

// ---- hearing -------------------------------------------------------------------------------------------------------

let stream = null
let failedInARow = 0
let again = 0
let isLive = page?.dataset.topic !== undefined

/** One stream for a page that is seen and can change: a browser has few connections, and people have many tabs. */
function hear() {
  if (!isLive || document.hidden) return unhear()
  if (stream !== null) return
  clearTimeout(again)
  stream = new EventSource(`/api/events?${new URLSearchParams({ every: GATHER_MS, topic: page.dataset.topic })}`)
  // Whatever happened before this moment was not heard.
  stream.addEventListener('open', refresh)
  stream.addEventListener('changes', ({ data }) => {
    const { events, isMore } = JSON.parse(data)
    if (isMore || Object.keys(events).length > 0) void refresh()
  })
  stream.addEventListener('error', () => {
    connection('The connection is lost. Trying again…')
    // A browser comes back by itself after a line that broke, and gives up on an answer that is none.
    if (stream?.readyState === EventSource.CLOSED) comeBack()
  })
}

function unhear() {
  clearTimeout(again)
  stream?.close()
  stream = null
}

function comeBack() {
  unhear()
  again = setTimeout(hear, Math.min(AGAIN_MS * 2 ** failedInARow++, AGAIN_MS_MAX))
}

// ---- asking --------------------------------------------------------------------------------------------------------

let isWanted = false
let isAsking = false

/** One question at a time; what is wanted meanwhile is asked for next. */
async function refresh() {
  isWanted = true
  if (isAsking) return
  isAsking = true
  let isAnswered = true
  while (isWanted && isAnswered) {
    isWanted = false
    isAnswered = await ask()
  }
  isAsking = false
  if (isAnswered) hear()
}

async function ask() {
  try {
    const answer = await fetch(page.dataset.state, {
      headers: { accept: 'application/json' },
      signal: AbortSignal.timeout(ANSWER_MS_MAX),
    })
    if (answer.status === 401) {
      connection('You are not signed in any more. Load this page again.')
      isLive = false
      return true
    }
    if (!answer.ok) throw new Error(`answered ${answer.status}`)
    show(await answer.json())
    failedInARow = 0
    connection('')
    return true
  } catch {
    connection('The connection is lost. Trying again…')
    comeBack()
    return false
  }
}

function connection(text) {
  const box = element('connection')
  box.textContent = text
  box.hidden = text === ''
}

// ---- showing -------------------------------------------------------------------------------------------------------

const htmlOf = new Map()
const lookOf = (within) => (within.dataset.look ? within : within.querySelector('[data-look]'))?.dataset.look

function show({ lists, parts, isLive: isStillLive }) {
  const news = []
  for (const [id, rows] of Object.entries(lists)) if (element(id) !== null) placeRows(element(id), rows, news)
  for (const [id, html] of Object.entries(parts)) placePart(element(id), html, news)
  if (news.length > 0) element('announced').textContent = news.slice(0, NEWS_MAX).join(' ')
  isLive = isStillLive
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

/** What somebody has typed or opened stays, and where they are they stay. */
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

// A second click would make a second job of a retry.
document.addEventListener('submit', ({ target, submitter }) => {
  if (!target.matches('.act')) return
  // After it was sent: a button that is disabled is not part of its form.
  setTimeout(() => {
    if (submitter !== null) submitter.disabled = true
  })
})
addEventListener('pageshow', () => {
  for (const button of document.querySelectorAll('.act button:disabled')) button.disabled = false
})

// ---- from now on ----------------------------------------------------------------------------------------------------

setInterval(() => {
  if (stream !== null && document.querySelector('[data-look="processing"]') !== null) void refresh()
}, PROGRESS_MS)
document.addEventListener('visibilitychange', hear)
addEventListener('online', hear)
hear()
