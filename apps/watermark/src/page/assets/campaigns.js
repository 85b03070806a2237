/**
 * Makes the pages live: listens for events and updates the changed parts. Without it, forms and a reload do the same.
 */

import { LivePage } from './live.js'
import { sayTimes } from './times.js'

const COPIED_MS = 2_000
const NEWS_MAX = 3
const SAID = 'said'

const element = (id) => document.getElementById(id)
const page = element('page')
const rows = element('rows')

document.documentElement.classList.add('live')

// ---- showing -------------------------------------------------------------------------------------------------------

const htmlOf = new Map()

/** Returns whether anything can still change. */
function show(state) {
  for (const [id, html] of Object.entries(state.parts)) {
    if (htmlOf.get(id) === html) continue
    htmlOf.set(id, html)
    element(id).innerHTML = html
    sayTimes(element(id))
  }
  const news = state.rows.flatMap(({ id, html }) => (htmlOf.get(id) === html ? [] : [place(id, html)]))
  announce(news.filter((text) => text !== null))
  return state.isLive ?? rows.querySelector('[data-live]') !== null
}

/** Replaces a row. Returns the text to announce. */
function place(id, html) {
  htmlOf.set(id, html)
  const old = element(`row-${id}`)
  if (old === null) return null
  const template = document.createElement('template')
  template.innerHTML = html
  const next = template.content.firstElementChild
  sayTimes(next)
  if (old.outerHTML === next.outerHTML) return null
  // Keeps open details and the focus.
  for (const details of old.querySelectorAll('details[open]')) {
    const same = next.querySelector(`details.${details.className}`)
    if (same !== null) same.open = true
  }
  const focused = old.contains(document.activeElement) ? document.activeElement : null
  old.replaceWith(next)
  const same = focused && next.querySelector(`[data-act="${focused.dataset.act}"]:not(:disabled)`)
  if (focused) (same ?? next).focus({ preventScroll: true })
  const badge = (row) => row.querySelector('.status-badge').textContent.replace(/ \(.*/, '')
  return badge(old) === badge(next) ? null : `${next.querySelector('.name').textContent}: ${badge(next)}.`
}

function announce(news) {
  if (news.length === 0) return
  const rest = news.length > NEWS_MAX ? ` And ${news.length - NEWS_MAX} more.` : ''
  element('announced').textContent = news.slice(0, NEWS_MAX).join(' ') + rest
}

function say(text, isProblem) {
  const box = document.createElement('p')
  box.className = `box ${isProblem ? 'bad' : 'info'}`
  box.textContent = text
  element('said').replaceChildren(box)
}

// ---- doing ---------------------------------------------------------------------------------------------------------

rows?.addEventListener('submit', async (event) => {
  const form = event.target
  if (!form.matches('.retry-form')) return
  event.preventDefault()
  if (form.dataset.isSent) return
  form.dataset.isSent = 'yes'
  const row = form.closest('[data-token-id]')
  try {
    const answer = await fetch(form.action, { method: 'POST', headers: { accept: 'application/json' } })
    const { error } = await answer.json()
    if (error) say(error.message, true)
    else say(`Retry queued for ${row.querySelector('.name').textContent}.`, false)
  } catch {
    say('That did not reach us. Try it again.', true)
  }
  delete form.dataset.isSent
  live.isLive = true
  await live.refresh([row.dataset.tokenId])
})

rows?.addEventListener('click', async (event) => {
  const button = event.target.closest('[data-act="copy"]')
  if (button === null) return
  const field = button.parentElement.querySelector('input')
  field.select()
  try {
    await navigator.clipboard.writeText(field.value)
  } catch {
    // The clipboard API needs https. Without it, the older command is used.
    document.execCommand('copy')
  }
  element('announced').textContent = 'The link is copied.'
  button.classList.add('done')
  setTimeout(() => button.classList.remove('done'), COPIED_MS)
})

// ---- sending -------------------------------------------------------------------------------------------------------

const said = sessionStorage.getItem(SAID)
sessionStorage.removeItem(SAID)
if (said !== null) say(said, false)

for (const form of document.querySelectorAll('form.upload')) {
  form.addEventListener('submit', async (event) => {
    event.preventDefault()
    if (form.dataset.isSent) return
    const [bar, problem, button] = ['progress', '.problem', 'button'].map((selector) => form.querySelector(selector))
    const refuse = (text) => {
      problem.textContent = text
      problem.hidden = text === ''
    }
    refuse('')
    if (form.elements.file.files[0].size > Number(form.dataset.bytesMax)) return refuse('This file is too large.')
    form.dataset.isSent = 'yes'
    button.disabled = true
    bar.hidden = false
    const { status, answer } = await send(form, (share) => {
      bar.value = share
    })
    delete form.dataset.isSent
    button.disabled = false
    bar.hidden = true
    if (status === 201) {
      // The next page shows the message, because this one is left at once.
      sessionStorage.setItem(SAID, `${answer.name} was uploaded.`)
      location.assign(form.dataset.next)
    } else if (status === 202) location.assign(form.dataset.next + answer.id)
    else if (status === 0) refuse('Not connected. Send it again when you are.')
    else refuse(`${answer?.error?.message ?? 'The file was not taken.'} ${answer?.error?.action ?? ''}`)
  })
}

function send(form, onShare) {
  return new Promise((resolve) => {
    const request = new XMLHttpRequest()
    request.open('POST', form.action)
    request.setRequestHeader('accept', 'application/json')
    request.responseType = 'json'
    request.upload.addEventListener('progress', ({ loaded, total }) => onShare(total > 0 ? loaded / total : 0))
    request.addEventListener('loadend', () => resolve({ status: request.status, answer: request.response }))
    request.send(new FormData(form))
  })
}

addEventListener('beforeunload', (event) => {
  if (document.querySelector('form.upload[data-is-sent]')) event.preventDefault()
})

for (const field of document.querySelectorAll('[data-into]')) {
  field.addEventListener('change', async () => {
    const [file] = field.files
    if (file) field.form.elements[field.dataset.into].value = await file.text()
  })
}

// The form uses UTC; people use their local time.
const ends = document.querySelector('[name="expiresAt"]')
ends?.addEventListener('input', () => {
  const at = new Date(`${ends.value}Z`)
  const isSet = ends.value !== '' && !Number.isNaN(at.getTime())
  element('hint-ends').textContent = isSet
    ? `For you, that is ${at.toLocaleString([], { dateStyle: 'medium', timeStyle: 'short' })}.`
    : 'In UTC. Left empty, it does not end.'
})

// ---- start -----------------------------------------------------------------------------------------------------------

const idOf = (row) => row.id.slice('row-'.length)
const shownIds = () => [...(rows?.children ?? [])].map(idOf)

/**
 * Called with the changes of the last moment (W46: `token_failed` is one of them). An empty call shows that the
 * connection works, and is the time to poll the progress of running copies, which has no events.
 */
function changed({ events, subjects, isMore }) {
  const underWay = [...document.querySelectorAll('[data-state="PROCESSING"]')].map(idOf)
  const isNews = Object.keys(events).length > 0 || isMore
  if (!isNews && underWay.length === 0 && rows !== null) return null
  const named = new Set(subjects.map((subject) => subject.slice(subject.indexOf(':') + 1)))
  return isMore ? shownIds() : shownIds().filter((id) => named.has(id) || underWay.includes(id))
}

const live = new LivePage({
  isLive: page?.dataset.live === 'yes',
  topics: JSON.parse(page?.dataset.topics ?? '[]'),
  all: shownIds,
  changed,
  addressOf: (ids) => `${page.dataset.state}?${new URLSearchParams({ ids: ids.join(',') })}`,
  show,
})
live.follow()
