import { sizeText } from '@redress/shared/pages'
import { type Html, html } from 'redress/http'
import type { AssetRow } from '../assets/assets.ts'
import type { Badge, CampaignState, CampaignView, TokenView } from '../campaigns/view.ts'

/** W47, word for word. */
const PARTIAL_TIP = 'Some watermarking jobs failed. Click to review.'

const classOf = (state: CampaignState | Badge): string => `status-badge status-${state.toLowerCase()}`

export const campaignBadge = ({ state }: CampaignView): Html => html`<span class="${classOf(state)}">${state}</span>`

/** In a list, a PARTIAL badge links to the campaign. Its tooltip also works for keyboards and screen readers. */
export function linkedBadge(campaign: CampaignView): Html {
  const { id, state } = campaign
  if (state !== 'PARTIAL') return campaignBadge(campaign)
  const tip = `tip-${id}`
  return html`<span class="tipped"><a class="${classOf(state)}" href="/campaigns/${id}" aria-describedby="${tip}" data-act="review">${state}</a><span class="tip" role="tooltip" id="${tip}">${PARTIAL_TIP}</span></span>`
}

/** W42. */
export function tokenBadge({ state, progress }: TokenView): Html {
  const words = state === 'PROCESSING' ? `PROCESSING (${progress ?? 0}%)` : state
  return html`<span class="${classOf(state)}">${words}</span>`
}

/** "48 of 50 ready, 2 failed" */
export function countsText({ state, counts }: CampaignView): string {
  const { total, completed, failed, pending, running } = counts
  if (state === 'DRAFT') return people(total)
  const parts = [`${count(completed)} of ${count(total)} ready`]
  if (failed > 0) parts.push(`${count(failed)} failed`)
  if (running > 0) parts.push(`${count(running)} being made`)
  if (pending > 0) parts.push(`${count(pending)} waiting`)
  return parts.join(', ')
}

const count = (n: number): string => n.toLocaleString('en')
const people = (n: number): string => (n === 1 ? '1 recipient' : `${count(n)} recipients`)

export function marksText({ visible, invisible }: CampaignView): string {
  if (visible && invisible) return 'Visible and invisible mark'
  return visible ? 'Visible mark only' : 'Invisible mark only'
}

export const downloadsText = (max: number | null): string =>
  max === null ? 'any number of downloads' : max === 1 ? '1 download each' : `${count(max)} downloads each`

export function assetFacts({ kind, width, height, duration_ms, bytes }: AssetRow): string {
  const length = kind === 'video' ? [`${lengthText(duration_ms)}`] : []
  return [kind, `${width} × ${height}`, ...length, sizeText(bytes)].join(' · ')
}

function lengthText(ms: number): string {
  const seconds = Math.max(1, Math.round(ms / 1000))
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`
}

/** A missing or broken thumbnail leaves an empty space. */
export const thumbnail = (assetId: string): Html =>
  html`<span class="thumbnail"><img src="/assets/${assetId}/thumbnail" alt="" loading="lazy" width="96" height="54"></span>`
