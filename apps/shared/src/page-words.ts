import { type Html, html } from 'redress/http'

const UNITS = ['KB', 'MB', 'GB', 'TB']

/** As file managers count: in steps of 1,024. */
export function sizeText(bytes: number): string {
  if (bytes < 1024) return `${bytes} bytes`
  const step = Math.min(UNITS.length, Math.floor(Math.log2(bytes) / 10))
  const size = bytes / 1024 ** step
  return `${size < 10 ? size.toFixed(1) : Math.round(size)} ${UNITS[step - 1]}`
}

/** Whose clock a reader has, only their browser knows: a script puts it into its words. */
export const clockTime = (iso: string): Html =>
  html`<time datetime="${iso}" data-as="clock">${iso.slice(11, 16)} UTC</time>`

export const ageOf = (iso: string): Html => html`<time datetime="${iso}" data-as="age">${dayAndTime(iso)}</time>`

export const dateOf = (iso: string): Html => html`<time datetime="${iso}" data-as="date">${dayAndTime(iso)}</time>`

/** To the second: for what is read beside a log. */
export const momentOf = (iso: string): Html =>
  html`<time datetime="${iso}" data-as="moment">${iso.slice(0, 10)} ${iso.slice(11, 19)} UTC</time>`

const dayAndTime = (iso: string): string => `${iso.slice(0, 10)} ${iso.slice(11, 16)} UTC`
