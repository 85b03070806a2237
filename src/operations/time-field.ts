import { z } from 'zod'
import { durationMs } from '../core/duration.ts'
import { RedressError } from '../core/errors.ts'

/** A moment as a person writes it: how long ago ('2h'), or a time in ISO 8601. Read with `momentMs`. */
export const momentField = (what: string) =>
  z.string().min(1).optional().describe(`${what}: how long ago ('2h'), or a time ('2026-01-31T08:00Z')`)

const ISO_DATE = /^\d{4}-\d{2}-\d{2}/

/** By the store's clock, which the caller asks for. */
export function momentMs(text: string, field: string, nowMs: number): number {
  if (!ISO_DATE.test(text)) return nowMs - agoMs(text, field)
  // A date alone is read as UTC; a time without a zone would be read in this machine's, which nobody else knows.
  const hasZone = !text.includes('T') || /(Z|[+-]\d{2}:?\d{2})$/.test(text)
  const ms = Date.parse(hasZone ? text : `${text}Z`)
  if (!Number.isNaN(ms)) return ms
  throw new RedressError('OPTION_INVALID', `${field}: ${JSON.stringify(text)} is not a time in ISO 8601.`)
}

function agoMs(text: string, field: string): number {
  try {
    return durationMs(text, field)
  } catch (error) {
    throw new RedressError('OPTION_INVALID', `${(error as Error).message}, or a time: '2026-01-31T08:00Z'`)
  }
}
