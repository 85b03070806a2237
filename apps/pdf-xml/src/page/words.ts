import { clockTime, sizeText } from '@redress/shared/page-words'
import type { JobView } from 'redress'
import { type Html, html } from 'redress/http'
import { CODES } from '../codes.ts'
import type { ConvertResult } from '../convert.ts'
import type { Conversion } from './conversions.ts'
import type { Place } from './line.ts'

/** How a conversion stands, for the eye of a stylesheet. */
type Look = 'waiting' | 'paused' | 'converting' | 'done' | 'failed' | 'over'

/** The short line of a row (D26), and what there is to add. */
interface Standing {
  look: Look
  words: Html
  note: Html | null
}

/** D19 */
const HELD = 'Gateway busy, paused. Will retry automatically.'

/** `isHolding`: the breaker lets nothing through, and what waits goes on waiting. */
export function standingOf(conversion: Conversion, isHolding: boolean): Standing {
  const { job, isResultGone } = conversion
  switch (job.status) {
    case 'queued':
      return waiting(conversion, isHolding)
    case 'processing':
      if (job.cancelRequestedAt !== null) return { look: 'converting', words: html`Stopping…`, note: null }
      return { look: 'converting', words: converting(job), note: progress(job) }
    case 'complete':
      if (isResultGone) return { look: 'over', words: html`Expired`, note: html`${CODES.EXPIRED.message}` }
      return { look: 'done', words: html`Done`, note: made(job.result as ConvertResult) }
    case 'failed':
      return { look: 'failed', words: html`Failed`, note: html`${job.errorMessage ?? CODES.UNKNOWN.message}` }
    case 'cancelled':
      return { look: 'over', words: html`Cancelled`, note: null }
  }
}

function waiting({ job, place, waitingFor }: Conversion, isHolding: boolean): Standing {
  if (isHolding) return { look: 'paused', words: html`${HELD}`, note: null }
  const isHeldBy = (what: string) => job.held.some(({ by }) => by === what)
  if (isHeldBy('queue')) return { look: 'paused', words: html`Paused. Will go on automatically.`, note: null }
  const note = waitingFor === null ? null : html`${waitingFor}`
  if (job.retryAfter !== null && place === null) {
    return { look: 'waiting', words: html`Waiting to try again at ${clockTime(job.retryAfter)}`, note }
  }
  if (isHeldBy('workers')) return { look: 'waiting', words: html`Waiting until a converter is at work`, note }
  return { look: 'waiting', words: html`Waiting${place !== null && inLine(place)}`, note }
}

function inLine(place: Place): string {
  if ('before' in place) return place.before === 0 ? ', next in line' : `, ${ordinal(place.before + 1)} in line`
  return ` in a line of ${place.isMore ? 'more than ' : ''}${place.length.toLocaleString('en')}`
}

const ENDINGS: Readonly<Record<string, string>> = { one: 'st', two: 'nd', few: 'rd', other: 'th' }
const RULES = new Intl.PluralRules('en', { type: 'ordinal' })

const ordinal = (place: number): string => `${place.toLocaleString('en')}${ENDINGS[RULES.select(place)]}`

const converting = ({ attemptCount }: JobView): Html =>
  attemptCount > 1 ? html`Converting, ${ordinal(attemptCount)} try` : html`Converting`

const progress = ({ progress: share }: JobView): Html | null =>
  share > 0 && share < 1 ? html`<progress value="${share}" aria-label="Converted so far"></progress>` : null

function made({ pages, bytes }: ConvertResult): Html {
  const xml = `${sizeText(bytes)} of XML`
  return html`${pages === null ? xml : `${pages} ${pages === 1 ? 'page' : 'pages'}, ${xml}`}`
}
