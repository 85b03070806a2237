import { RedressError } from 'redress'
import { CODES } from '../codes.ts'
import type { Refused } from '../receive.ts'

export interface Notice {
  message: string
  action: string
  isProblem: boolean
}

const problem = (message: string, action: string): Notice => ({ message, action, isProblem: true })

/**
 * The messages that the page can show after a form. The redirect names one of them; no text from the URL is shown,
 * because anyone can write a URL.
 */
const NOTICES = {
  twin: { message: 'You have already sent this file.', action: 'Its conversion is marked below.', isProblem: false },
  'not-pdf': problem(CODES.NOT_PDF.message, 'Send a PDF: its first bytes are %PDF-, whatever its name is.'),
  'too-large': problem(CODES.TOO_LARGE.message, 'Split the file, or make it smaller.'),
  'io-error': problem('A storage issue kept us from taking the file.', 'Send it again in a while.'),
  paused: problem('Uploads are paused: there is no room for more files at the moment.', 'Send it again in a while.'),
  quota: problem(
    'Your files take all the room that a visitor has.',
    'Come back when old ones were removed, or sign in.',
  ),
  'too-many': problem('Too many files came from you or your address.', 'Send it again later, or sign in.'),
  busy: problem('Too many files wait to be converted.', 'Send it again in a while, or sign in.'),
  mapping: problem(CODES.GW_4XX.message, 'Choose a mapping from the list.'),
  'no-file': problem('There was no file to convert.', 'Choose one, and a mapping from the list.'),
  expired: problem(CODES.EXPIRED.message, ''),
  forbidden: problem(CODES.FORBIDDEN.message, ''),
  'too-late': problem('That is not possible any more.', 'The conversion has moved on: see how it stands now.'),
} satisfies Record<string, Notice>

export type NoticeName = keyof typeof NOTICES

export const noticeNamed = (name: unknown): Notice | null =>
  typeof name === 'string' && Object.hasOwn(NOTICES, name) ? NOTICES[name as NoticeName] : null

export function noticeOfRefusal({ code, status }: Refused): NoticeName {
  if (code === 'QUOTA_EXCEEDED') return 'quota'
  if (code === 'TOO_MANY_REQUESTS') return 'too-many'
  if (code === 'BACKLOG_FULL') return 'busy'
  if (status === 507) return 'paused'
  if (code === 'NOT_PDF') return 'not-pdf'
  if (code === 'TOO_LARGE') return 'too-large'
  if (code === 'GW_4XX') return 'mapping'
  return code === 'IO_ERROR' ? 'io-error' : 'no-file'
}

/** The message for a refused retry or cancel; null if the error is not the visitor's. */
export function noticeOfError(error: unknown): NoticeName | null {
  if (!(error instanceof RedressError)) return null
  if (error.code === 'EXPIRED') return 'expired'
  if (error.code === 'FORBIDDEN') return 'forbidden'
  return TOO_LATE.has(error.code) ? 'too-late' : null
}

const TOO_LATE: ReadonlySet<string> = new Set(['RETRY_REFUSED', 'JOB_WRONG_STATE', 'JOB_NOT_FOUND'])
