import { signal } from '@preact/signals'

/** By how much the clock of this browser is behind that of the server. */
let behindMs = 0

/** What time it is, by the clock that the times on the page were made with. */
export const nowMs = (): number => Date.now() + behindMs

/** The time that ages are counted from. It moves on by itself, so that no age stands still. */
export const now = signal(nowMs())
setInterval(() => {
  if (!document.hidden) now.value = nowMs()
}, 5_000)

/** The server tells whole seconds, and may tell a second twice. */
const TOLD_WITHIN_MS = 2_000
/** An answer that took longer says too little of when it was made. */
const ANSWER_MS_MAX = 5_000
const OFF_MS_MIN = 3_000

/** What the server said its time was, in an answer to what was asked at `askedAtMs`. */
export function hearTime(date: string | null, askedAtMs: number): void {
  const toldMs = Date.parse(date ?? '')
  const heardAtMs = Date.now()
  if (Number.isNaN(toldMs) || heardAtMs - askedAtMs > ANSWER_MS_MAX) return
  const least = toldMs - heardAtMs
  const most = toldMs + TOLD_WITHIN_MS - askedAtMs
  const found = least < OFF_MS_MIN && most > -OFF_MS_MIN ? 0 : (least + most) / 2
  // It is the same to within what can be told: no age jumps about.
  if (found !== 0 && behindMs >= least && behindMs <= most) return
  if (found === behindMs) return
  behindMs = found
  now.value = nowMs()
}

const UNITS = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'min'],
  [1_000, 's'],
] as const

/** '3 min', '1 h 20 min', '250 ms': two units at most, as the command line says it. */
export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.round(Math.max(0, ms))} ms`
  if (ms < 10_000) return `${(ms / 1_000).toFixed(1).replace(/\.0$/, '')} s`
  const at = UNITS.findIndex(([unit]) => ms >= unit)
  const [unit, word] = UNITS[at] as (typeof UNITS)[number]
  const whole = Math.floor(ms / unit)
  const next = UNITS[at + 1]
  const rest = next === undefined ? 0 : Math.floor((ms - whole * unit) / next[0])
  return rest === 0 || whole >= 10 ? `${whole} ${word}` : `${whole} ${word} ${rest} ${next?.[1]}`
}

/** '3 min ago', 'in 20 s', 'just now'. */
export function relative(iso: string, nowMs: number): string {
  const ms = nowMs - Date.parse(iso)
  if (Math.abs(ms) < 5_000) return 'just now'
  const units = duration(Math.abs(ms)).split(' ').slice(0, 2).join(' ')
  return ms > 0 ? `${units} ago` : `in ${units}`
}

const DAY_MS = 86_400_000
const TIME = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' })
const DATE_TIME = new Intl.DateTimeFormat('en-GB', {
  day: 'numeric',
  month: 'short',
  hour: '2-digit',
  minute: '2-digit',
})
const WHOLE = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'long' })

/** '14:02:07', with the day where it is not of the last twenty-four hours; in the time of whoever looks. */
export function clock(iso: string, nowMs: number): string {
  const at = new Date(iso)
  return Math.abs(nowMs - at.getTime()) < DAY_MS ? TIME.format(at) : DATE_TIME.format(at)
}

export const wholeTime = (iso: string): string => `${WHOLE.format(new Date(iso))} (${iso})`
