/** Makes the page live: sends several files at once and updates their rows. Without it, forms do the same. */

import { sayTimes } from './times.js'

const POLL_MS = 1_500
const POLL_MS_MAX = 15_000
const ANSWER_MS_MAX = 15_000
const SENDING_MAX = 2
const HEAD_BYTES = 1_024

const element = (id) => document.getElementById(id)
const form = element('upload')
const field = form.elements.file
const rows = element('rows')

document.documentElement.classList.add('live')
field.multiple = true
// A message is shown once: a reload must not show it again.
if (location.search.includes('said=')) history.replaceState(null, '', location.pathname)

// ---- updates ------------------------------------------------------------------------------------------------------

const htmlOf = new Map()
const cursor = new URLSearchParams(location.search).get('cursor')
const wanted = new Set()
let since = rows.dataset.since
let isActive = rows.dataset.active === 'yes'
let bannerHtml = element('banner').innerHTML
let failedInARow = 0
let isAsking = false
let isToAskAgain = false
let timer = 0

/** Asks for changes, one request at a time, and repeats while a job is active. */
async function refresh() {
  isToAskAgain = true
  if (isAsking) return
  isAsking = true
  clearTimeout(timer)
  while (isToAskAgain) {
    isToAskAgain = false
    await ask()
  }
  isAsking = false
  goOn()
}

function goOn() {
  clearTimeout(timer)
  // A hidden page does not ask. When it is shown again, it asks at once.
  if (document.hidden || !(isActive || failedInARow > 0)) return
  timer = setTimeout(refresh, Math.min(POLL_MS * 2 ** Math.max(0, failedInARow - 1), POLL_MS_MAX))
}

async function ask() {
  const also = [...wanted].at(0)
  const query = new URLSearchParams({ since, ...(cursor && { cursor }), ...(also && { id: also }) })
  try {
    const answer = await fetch(`/convert/state?${query}`, { signal: AbortSignal.timeout(ANSWER_MS_MAX) })
    if (answer.status === 401) return forgotten()
    if (!answer.ok) throw new Error(`answered ${answer.status}`)
    show(await answer.json(), also)
    failedInARow = 0
    element('connection').textContent = ''
  } catch {
    failedInARow++
    element('connection').textContent = 'Not connected. Trying again…'
  }
}

/** The visitor's cookie is gone, so these rows cannot be read any more. */
function forgotten() {
  isActive = false
  failedInARow = 0
  element('connection').textContent = 'This page does not know you any more. Load it again.'
}

function show(state, also) {
  since = state.timestamp
  isActive = state.isActive
  if (state.banner !== bannerHtml) {
    bannerHtml = state.banner
    element('banner').innerHTML = state.banner
  }
  const news = state.rows.flatMap(({ id, html }) => (htmlOf.get(id) === html ? [] : [place(id, html)]))
  announce(news.filter((text) => text !== null))
  if (also) {
    wanted.delete(also)
    mark(also)
    isToAskAgain ||= wanted.size > 0
  }
}

/** Inserts or replaces a row. Returns the text to announce. */
function place(id, html) {
  htmlOf.set(id, html)
  const next = rowOf(html)
  const old = element(next.id)
  if (old === null) {
    // Ids grow with time, and the newest is first.
    const older = [...rows.children].find((row) => row.id < next.id)
    rows.insertBefore(next, older ?? null)
  } else {
    if (old.classList.contains('marked')) next.classList.add('marked')
    const focused = old.contains(document.activeElement) ? document.activeElement : null
    old.replaceWith(next)
    const same = focused && next.querySelector(`[data-act="${focused.dataset.act}"]:not(:disabled)`)
    if (focused) (same ?? next).focus({ preventScroll: true })
  }
  sayTimes(next)
  const said = (row) => row.querySelector('.standing').textContent.trim()
  if (old !== null && said(old) === said(next)) return null
  return `${next.querySelector('.name').textContent}: ${said(next)}`
}

function rowOf(html) {
  const template = document.createElement('template')
  template.innerHTML = html
  return template.content.firstElementChild
}

function mark(id) {
  for (const row of rows.querySelectorAll('.marked')) row.classList.remove('marked')
  element(`job-${id}`)?.classList.add('marked')
}

function announce(news) {
  if (news.length === 0) return
  const rest = news.length > 3 ? ` And ${news.length - 3} more.` : ''
  element('announced').textContent = news.slice(0, 3).join(' ') + rest
}

// ---- retry and cancel ----------------------------------------------------------------------------------------------

rows.addEventListener('submit', async (event) => {
  event.preventDefault()
  const { action, dataset } = event.target
  if (dataset.isSent) return
  dataset.isSent = 'yes'
  try {
    const body = new URLSearchParams()
    const answer = await fetch(action, { method: 'POST', body, headers: { accept: 'application/json' } })
    if (!answer.ok) throw new Error(`answered ${answer.status}`)
    const { said } = await answer.json()
    say(said)
  } catch {
    say({ message: 'That did not reach us.', action: 'Try it again.' })
  }
  delete dataset.isSent
  await refresh()
})

function say(notice) {
  const said = element('said')
  said.replaceChildren()
  if (notice === null) return
  const box = document.createElement('p')
  box.className = 'box bad'
  const message = document.createElement('strong')
  message.textContent = notice.message
  box.append(message, ` ${notice.action}`)
  said.append(box)
}

// ---- sending -------------------------------------------------------------------------------------------------------

const words = JSON.parse(form.dataset.words)
const inLine = []
let sendingCount = 0

function take(files) {
  say(null)
  for (const file of files) inLine.push(addSending(file, form.elements.mapping.value))
  sendNext()
}

function sendNext() {
  while (sendingCount < SENDING_MAX && inLine.length > 0) {
    const sending = inLine.shift()
    sendingCount++
    void send(sending).finally(() => {
      sendingCount--
      sendNext()
    })
  }
}

/** A file that is being sent, with its row on the page. */
function addSending(file, mapping) {
  const row = element('sending-row').content.firstElementChild.cloneNode(true)
  const part = (selector) => row.querySelector(selector)
  const sending = { file, mapping, request: null, isAway: false, row, part }
  part('bdi').textContent = file.name
  part('[data-act="again"]').append(unseen(file.name))
  part('[data-act="away"]').append(unseen(file.name))
  part('[data-act="again"]').addEventListener('click', () => {
    inLine.push(sending)
    sayOf(sending, 'Waiting to be sent')
    sendNext()
  })
  part('[data-act="away"]').addEventListener('click', () => {
    sending.isAway = true
    sending.request?.abort()
    leave(sending)
  })
  sayOf(sending, 'Waiting to be sent')
  element('sending').append(row)
  return sending
}

function unseen(text) {
  const span = document.createElement('span')
  span.className = 'unseen'
  span.textContent = ` ${text}`
  return span
}

/** Keeps the focus on the page when a row is removed. */
function leave({ row }) {
  const hadFocus = row.contains(document.activeElement)
  row.remove()
  if (hadFocus) field.focus({ preventScroll: true })
}

function sayOf({ row, part }, text, { note = '', look = 'waiting', canAgain = false } = {}) {
  row.dataset.look = look
  part('strong').textContent = text
  part('.note').textContent = note
  part('progress').hidden = look !== 'converting'
  part('[data-act="again"]').hidden = !canAgain
  if (look === 'failed') announce([`${part('bdi').textContent}: ${text} ${note}`])
}

async function send(sending) {
  if (sending.isAway) return
  const refusal = await refusalOf(sending.file)
  if (refusal !== null) return refused(sending, refusal, false)
  if (sending.isAway) return
  sayOf(sending, 'Sending', { look: 'converting' })
  const { status, answer } = await post(sending)
  if (sending.isAway) return
  if (status === 201 || status === 200) {
    if (status === 200) sayOf(sending, 'You have already sent this file.', { note: 'Its conversion is marked below.' })
    else leave(sending)
    wanted.add(answer.id)
    return refresh()
  }
  const lost = { message: 'Not connected.', action: 'Send it again when you are.' }
  const failed = { message: 'The file was not taken.', action: 'Send it again in a while.' }
  refused(sending, status === 0 ? lost : (answer?.error ?? failed), status === 0 || status >= 500)
  // A refused file may have been recorded as a failed job.
  if (answer?.error?.jobId) await refresh()
}

function refused(sending, { message, action }, canAgain) {
  sayOf(sending, message, { note: action, look: 'failed', canAgain })
}

/** Checks the file before it is sent, as the server would. */
async function refusalOf(file) {
  if (file.size > Number(form.dataset.bytesMax)) return words.tooLarge
  try {
    const head = new TextDecoder('latin1').decode(await file.slice(0, HEAD_BYTES).arrayBuffer())
    return head.includes('%PDF-') ? null : words.notPdf
  } catch {
    // A folder, for example, or a file that was moved away.
    return { message: 'This cannot be read.', action: 'Choose the file itself, and choose it again.' }
  }
}

function post(sending) {
  const body = new FormData()
  // The mapping comes first, so that the server knows it before the file.
  body.set('mapping', sending.mapping)
  body.set('file', sending.file)
  return new Promise((resolve) => {
    const request = new XMLHttpRequest()
    sending.request = request
    request.open('POST', '/api/upload')
    request.responseType = 'json'
    request.upload.addEventListener('progress', ({ loaded, total }) => {
      sending.part('progress').value = total > 0 ? loaded / total : 0
    })
    request.addEventListener('loadend', () => resolve({ status: request.status, answer: request.response }))
    request.send(body)
  })
}

form.addEventListener('submit', (event) => event.preventDefault())
field.addEventListener('change', () => {
  // The list belongs to the field and is emptied with it.
  const files = [...field.files]
  field.value = ''
  take(files)
})

// A file dropped beside the field would replace the page.
addEventListener('dragover', (event) => {
  event.preventDefault()
  form.classList.toggle('dragging', event.dataTransfer.types.includes('Files'))
})
addEventListener('dragleave', (event) => {
  if (event.relatedTarget === null) form.classList.remove('dragging')
})
addEventListener('drop', (event) => {
  event.preventDefault()
  form.classList.remove('dragging')
  take(event.dataTransfer.files)
})
addEventListener('beforeunload', (event) => {
  if (sendingCount > 0) event.preventDefault()
})

// ---- start -----------------------------------------------------------------------------------------------------------

document.addEventListener('visibilitychange', () => (document.hidden ? clearTimeout(timer) : void refresh()))
addEventListener('online', () => void refresh())
if (!navigator.cookieEnabled)
  say({ message: 'This page needs cookies:', action: 'by them it knows which files are yours.' })
goOn()
