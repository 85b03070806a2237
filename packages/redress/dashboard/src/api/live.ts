import { effect, signal } from '@preact/signals'
import type { Changes as SentChanges } from '../../../src/http/events/changes.ts'
import { nowMs } from '../words/time.ts'
import { signedOut } from './session.ts'

/** What happened in half a second, or everything (`isMore`) if the stream was interrupted. */
export interface Changes extends SentChanges {
  /** The visitor of this page did it, and waits to see the result. */
  isOwn?: boolean
}

const EVERYTHING: Changes = { events: {}, subjects: [], types: [], isMore: true }

/** null while the page is up to date; else since when it may not be. */
export const staleSince = signal<number | null>(null)
/** Set with the first word of the server. */
export const isLive = signal(false)

type Listener = (changes: Changes) => void
const listeners = new Set<Listener>()

export function onChanges(listener: Listener): () => void {
  listeners.add(listener)
  return () => void listeners.delete(listener)
}

const tell = (changes: Changes): void => {
  for (const listener of listeners) listener(changes)
}

/** The server says something every 15 s, if only that nothing happened. */
const SILENCE_MS_MAX = 40_000
const AGAIN_MS = 1_000
const AGAIN_MS_MAX = 15_000

let stream: EventSource | null = null
let tries = 0
let isBehind = false
let heardAtMs = nowMs()
let again: ReturnType<typeof setTimeout> | undefined
let silence: ReturnType<typeof setTimeout> | undefined

function heard(): void {
  heardAtMs = nowMs()
  clearTimeout(silence)
  silence = setTimeout(broke, SILENCE_MS_MAX)
}

function broke(): void {
  stop()
  staleSince.value ??= heardAtMs
  if (signedOut.value) return
  // A browser that is told to come back would not after a refusal, and says nothing of why it cannot.
  again = setTimeout(start, Math.min(AGAIN_MS * 2 ** tries++, AGAIN_MS_MAX))
}

function stop(): void {
  stream?.close()
  stream = null
  isLive.value = false
  isBehind = true
  clearTimeout(silence)
  clearTimeout(again)
}

/** Follows what happens, and says when it cannot. */
function start(): void {
  if (stream !== null) stop()
  clearTimeout(again)
  const opened = new EventSource('/api/events?every=500')
  stream = opened
  silence = setTimeout(broke, SILENCE_MS_MAX)
  opened.addEventListener('open', () => {
    const wasAway = isBehind
    tries = 0
    isBehind = false
    isLive.value = true
    staleSince.value = null
    heard()
    // What happened meanwhile was not heard.
    if (wasAway) tell(EVERYTHING)
  })
  opened.addEventListener('changes', ({ data }: MessageEvent<string>) => {
    heard()
    const changes = JSON.parse(data) as Changes
    if (changes.isMore || changes.subjects.length > 0) tell(changes)
  })
  // The server ends a stream that falls behind, and when it stops.
  opened.addEventListener('end', broke)
  opened.addEventListener('error', broke)
}

/**
 * A browser has few connections to one server: a page that nobody looks at must not keep one. Whoever comes back to it
 * is not told that it is stale: it catches up at once, or then it says so.
 */
export function followWhileSeen(): void {
  const follow = (): void => {
    if (signedOut.value || document.hidden) stop()
    else start()
  }
  document.addEventListener('visibilitychange', follow)
  // What is told to a session that is over is not for this page any more.
  effect(follow)
}

/** This page has changed something itself: it need not wait until it is told. */
export const changedSomething = (): void => tell({ ...EVERYTHING, isOwn: true })
