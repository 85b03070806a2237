import { basename } from 'node:path'
import { type Html, html } from 'redress/http'
import type { Code } from '../codes.ts'
import { readSpec } from '../spec/spec.ts'
import type { ProxxError, ProxxJob } from '../view.ts'
import type { ClipPosition } from './reader.ts'

/** Invisible characters that change how text is shown: line breaks, and marks for the direction of writing. */
const ODD = /([\p{Cc}\p{Cs}\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff])/u
const ODD_IN_LINES = /([^\P{Cc}\n\t]|[\p{Cs}\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff])/u

const nameOfCharacter = (character: string): string =>
  `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`

const marked = (text: string, odd: RegExp): Html =>
  html`<bdi>${text
    .split(odd)
    .map((part, at) => (at % 2 === 0 ? part : html`<span class="odd">${nameOfCharacter(part)}</span>`))}</bdi>`

/** Shows untrusted text, such as a path or a reason, with its invisible characters made visible. */
export const safeText = (text: string): Html => marked(text, ODD)

/** The same of several lines. */
export const safeLines = (text: string): Html => marked(text, ODD_IN_LINES)

/** The same where there can be no markup: in a title or a label. */
export const safeString = (text: string): string =>
  text
    .split(ODD)
    .map((part, at) => (at % 2 === 0 ? part : '\ufffd'))
    .join('')

/** A spec to be read and edited. JSON escapes invisible characters itself. */
export function specText(spec: unknown): string {
  const escaped = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  return JSON.stringify(spec, null, 2).replace(/[\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g, escaped)
}

/** The title of a job: its first clip. */
export function titleOf({ id, spec }: Pick<ProxxJob, 'id' | 'spec'>): string {
  const { spec: read } = readSpec(spec)
  const [first] = read?.sources ?? []
  if (read === null || first === undefined) return `Job ${id}`
  const others = read.sources.length - 1
  return others === 0 ? basename(first) : `${basename(first)} and ${others} more`
}

/** The state of a job in the eyes of a reader. An orphan is processing, and is not. */
export type Look = ProxxJob['status'] | 'orphaned'
export const lookOf = ({ status, orphanedAt }: ProxxJob): Look =>
  status === 'processing' && orphanedAt !== null ? 'orphaned' : status

export const badge = (job: ProxxJob): Html => {
  const look = lookOf(job)
  return html`<span class="badge ${look}">${look}</span>`
}

/** P36: of which class a failure is, and who accounts for it. */
const CLASSES: Readonly<Record<ProxxError['class'], string>> = {
  pre_dispatch: 'Refused at submission',
  dispatch: 'Dispatch failed',
  execution: 'Execution failed',
  verification: 'Verification failed',
}
export const classText = (error: ProxxError): string => CLASSES[error.class]

const STAGES: Readonly<Record<string, string>> = {
  probe: 'being looked at',
  encode: 'being encoded',
  verify: 'being verified',
  deliver: 'being given its name',
}
export const stageText = (stage: string): string => STAGES[stage] ?? stage

/** Where a job is; of one whose worker is gone, where it was. */
export function positionText(job: ProxxJob, standing: ClipPosition | null): Html | null {
  if (standing === null) return null
  const { clip, of, stage } = standing
  const at = `clip ${clip} of ${of}, ${stageText(stage)}`
  return html`${lookOf(job) === 'processing' ? `At ${at}` : `It was at ${at}.`}`
}

/** For people, who count from 1: `sources.0` is clip 1. */
export function placeText(path: string): string {
  const at = /^sources\.(\d+)/.exec(path)?.[1]
  return at === undefined ? path.replace(/^output\./, '') : `clip ${Number(at) + 1}`
}

const ANEW = 'Do not use what it left. A retry makes everything anew.'

/** The suggested action for a person. */
const TO_DO: Readonly<Record<Code, string>> = {
  SPEC_INVALID: 'Correct what is named, and retry the job with the corrected spec.',
  PROFILE_UNKNOWN: 'Choose an existing profile, and retry the job with it.',
  PATH_NOT_ALLOWED: 'Put it into a folder that jobs may reach (PROXX_ROOTS), and retry the job with that path.',
  INPUT_MISSING: 'Is the card or the disk connected, and the path right? Then retry; or retry with the right path.',
  INPUT_UNREADABLE: 'Play the clip. If it does not play, copy it from the card again; then retry.',
  OUTPUT_NOT_WRITABLE: 'Is the disk connected, and may be written to? Then retry; or retry with another directory.',
  OUTPUT_EXISTS: 'Look at the file that is there, and move it away; or retry with another directory or other names.',
  DISK_INSUFFICIENT: 'Make room on that disk, and retry; or retry with a directory on another one.',
  PROGRAM_MISSING: 'Install ffmpeg on that machine, and retry.',
  DISPATCH_LOCKED: 'Wait until no job works in that directory, and retry. Remove an abandoned lock by hand.',
  DISPATCH_NO_RESOURCES: 'The disk may be full, or the directory gone. Correct that, and retry.',
  FFMPEG_FAILED: 'Read the last output of ffmpeg, and play the clip. If it is damaged, copy it again; then retry.',
  FFMPEG_TIMEOUT: 'Is the machine busy, or the disk slow? Retry when it is not, or with a higher limits.clipMinutes.',
  FFMPEG_KILLED:
    'Somebody ended ffmpeg, or the machine ran out of memory. Retry; if it comes again, have it looked at.',
  FFMPEG_CRASHED: 'Play the clip. If it plays, check the version of ffmpeg; then retry.',
  OUTPUT_MISSING: 'Is the output directory still the same disk? Then retry.',
  DISK_FULL: 'Make room on that disk, and retry. You can remove the partial files of failed jobs.',
  VERIFY_EXISTS: `Who removed it? ${ANEW}`,
  VERIFY_SIZE: ANEW,
  VERIFY_CODEC: ANEW,
  VERIFY_PROFILE: ANEW,
  VERIFY_DURATION: `${ANEW} If it fails again, the clip itself may be damaged.`,
  VERIFY_FRAMES: `${ANEW} If it fails again, the clip itself may be damaged.`,
  VERIFY_DECODE: `${ANEW} If it fails again, have the disk looked at.`,
  VERIFY_FINGERPRINT: ANEW,
  VERIFY_SCRIPT: 'See why the script refused it. Correct that, and retry.',
  VERIFY_DELIVERY: 'Another file took the name meanwhile. Look at that file, move it away, and retry.',
  VERIFY_KILLED: `The check could not be finished, mostly for lack of memory. ${ANEW}`,
  VERIFY_TIMEOUT: `The check could not be finished. Is the machine busy, or the disk slow? ${ANEW}`,
}

const TO_DO_OF_ENGINE: Readonly<Record<string, string>> = {
  NEVER_STARTED: 'Its worker died before anything began, and nothing was made. Retry it.',
  SHUTDOWN: 'Its worker was stopped. Retry it; all clips are made again.',
  MARKED_FAILED:
    'A person ended it; the reason is below. Look at the leftover files, and retry it if it is still needed.',
  LOG_FAILED: 'The disk of the failure log may be full. Correct that, look at the leftover files, and retry.',
}

export const toDo = ({ code }: ProxxError): string =>
  TO_DO[code as Code] ??
  TO_DO_OF_ENGINE[code] ??
  'Nobody foresaw this. Give the number of the job to whoever runs the server, and retry it when they say so.'
